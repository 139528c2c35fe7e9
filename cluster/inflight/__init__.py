"""What was let through and has not been seen stored yet.

`binds`: pods that passed filter or the bind guard; a stop waits for them. `admissions`: objects that a
webhook admitted; a close waits for them. `queue_edits`, `policy_edits`: admitted edits of queues, namespaces
and scheduling policies, that later admissions must know of before the watch brings them.
"""
