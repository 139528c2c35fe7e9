"""What commands print.

Read in this order
- `console`: stdout, stderr, progress, questions; nothing in a text can steer the terminal.
- `tables`: the table of queues, and the layout of every other. `tree`: the hierarchy.
- `formats`: -o json, yaml, name and templates. `reporter`: what a command says of the queues it changed.
- `ages`: times and how long ago.
"""
