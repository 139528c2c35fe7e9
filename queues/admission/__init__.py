"""What may be submitted and edited, for the webhooks.

Of Queues: `field_validation` (each field, by the table in `queues.fields`), `queue_edits` (state, parent,
deletion; `reason` and `resumeAt` of a stop), `window_edits` (windows beside their overrides),
`resource_validation` (up and down the tree), `dropped_fields` (what a client of another schema does not
send), `stop_edits`, `tree_edits` and `quota_edits` (what an edit loses, ends, stops, limits or lets run, and
says),
`ignored_words` (what only Volcano reads). Of Commands: `command_validation`. Of scheduling policies:
`policy_edits`. Of work:
`accepted_work` (what a queue that no longer accepts still admits), `never_fits` (what requests more than its
queue ever allows).
"""
