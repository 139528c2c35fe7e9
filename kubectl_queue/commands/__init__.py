"""The verbs, one file for each or for a few that are alike.

Read in this order: `verbs` (what a verb is, their table, which file has each), `get` as the simplest,
`actions` (open, close, suspend, resume, hold, and what all verbs share that edit queues), `drain` (drain,
stop), then any other. Each file reads from the top: the function that runs the verb, what that calls, and the
verb's entry in the help.
"""
