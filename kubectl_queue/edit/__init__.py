"""Edits of queues: decide on values, write with the resourceVersion that was read, wait for the controller.

Read in this order: `operation` (what an edit is, and the JSON merge patch), `action_operation` (open, close,
suspend, resume), `stop_policy_operation` (hold, drain) and `window_operation` (windows start, skip, extend)
decide, and `preview` says what they would do: these are functions of values. `stop_flags`, `window_lines` and
`command_lines` read an edit as a command line has it. `editor` reads, writes and reports; `wait` is `--wait`.
"""
