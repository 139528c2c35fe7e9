"""Members that wait, in the order of reading.

- `pod_conditions`: says on each why it waits.
- `ungating`: gives parked pods back to the scheduler once their queue schedules.
- `preemption_retry`: the same for pods whose preemption was denied.
- `reschedule`: has pods tried again of which nobody knows whether they were let through.
"""
