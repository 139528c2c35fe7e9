"""Edits of queues: decide on values, write with the resourceVersion that was read, wait for the controller.

Read in this order: `operation` (what an edit is, and the JSON merge patch), `actions` (open, close, suspend,
resume) and `stop_policy` (hold, drain) decide; `editor` reads, writes and reports; `wait` is `--wait`.
"""
