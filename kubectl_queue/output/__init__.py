"""What commands print.

Read in this order
- `console`: stdout, stderr, progress, questions; nothing in a text can steer the terminal.
- `progress_bar`: the bar of a drain that is waited for.
- `tables`: the table of queues, the layout of every other, ages.
- `server_status`: the tables of `kubectl queue status`.
- `formats`: -o json, yaml, name and templates; what a verb reports of the queues that it changed.
"""
