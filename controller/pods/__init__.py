"""Writes on members that wait, in the order of reading.

- `pod_conditions`: writes on each gated pod why it waits.
- `ungating`: removes our gate, and makes kube-scheduler retry pods that filter refused, once their queue
  schedules.
- `retry`: makes kube-scheduler retry pods whose preemption was denied, and pods whose last filter answer has
  an unknown outcome.
- `reservations`: clears the nominations of pods of a stopped queue.
"""
