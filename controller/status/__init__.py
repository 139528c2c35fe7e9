"""The status of a queue, in the order of reading.

- `queue_status`: the status as it should be, from values. Pure.
- `status_conflicts`: what happens where somebody else writes it.
- `closing`: when a closing queue may be said to be Closed, and what keeps it from that.
- `parent_cycles`: events on queues that are each other's ancestors.
"""
