"""The command line: which command, which flags, which help.

Read in this order
- `run`: from words to a command that runs.
- `flags`: reads flags as kubectl's own parser does. `options`: those that commands share.
- `flag_values`: durations, times, quantities. `label_selectors`: selectors that go into a Queue.
- `help`: what --help prints. `suggestions`: what a misspelt word was meant to be.
"""
