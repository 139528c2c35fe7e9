"""What the controller writes in the status of Queues and PodGroups, and how it is read.

`acknowledgement` (when a stop may be acknowledged) comes first; it has the proof. Then `conditions`,
`policy_condition` (which scheduling policy counts),
`stop_status` (for readers of an acknowledgement), `closing` (what keeps a queue from Closed), `changes` (the
history), `parent_cycles` and `podgroup_phases`.
"""
