"""The statuses of queues and of PodGroups, in the order of reading.

- `queue_reconciler`: decides what of a queue's status is written, and when.
- `queue_status`, `conditions`: the status as it should be, from values. Pure.
- `queue_records`: what is remembered of each queue from one sync to the next, its pending stop above all.
- `status_writer`: what of a difference is written now; what follows from the result. `count_slots`: when
  counts are.
- `policy_changes`: which queues a change of the scheduling policies concerns. `policy_events`: what is wrong
  with them, on the ConfigMap.
- `status_conflicts`: other writers of a queue's status.
- `quota_status`, `quota_enforcement`: what a quota uses, and from when on it holds.
- `exceeded_guarantees`: where guarantees are more than a capability.
- `closing`: when a closing queue is Closed, and what keeps it from that.
- `podgroup_status`: the phase, counts and conditions of PodGroups.
"""
