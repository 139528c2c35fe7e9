"""The commands, one file each; open, close, suspend and resume in `actions`, hold, drain and stop in
`drain`.

Read in this order: `table` (their names, and which file has each), `command` (what a command is), `get` as
the simplest, `actions` (with the flags of all commands that edit queues), `drain`, then any other.
Each file reads from the top: the function that runs the command, what that calls, and its entry in the help.
"""
