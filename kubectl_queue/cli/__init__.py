"""The command line: which command, which flags, which help.

Read in this order
- `run`: finds the verb of a command line and runs it.
- `flags`: reads flags as kubectl's own parser does, and the names of queues. `options`: the flags that verbs
  share.
- `flag_values`: durations, times, quantities. `label_selectors`: selectors that go into a Queue.
- `help`: what --help prints. `suggestions`: what a misspelt word may mean.
"""
