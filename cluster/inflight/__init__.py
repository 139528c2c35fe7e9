"""What was let through and has not been seen to arrive.

`binds`: pods that passed filter or the bind guard; a stop waits for them. `admissions`: objects that a
webhook admitted; a close waits for them. `queue_edits`, `namespaces`: admitted objects that later
admissions have to know of before the watch tells of them.
"""
