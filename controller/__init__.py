"""The queue controller: one thread that derives status from spec, tree and members, over and over.

In the order of reading:

- `controller`: the thread; which change makes it look at what, and the parts in their order.
- `parts`: what every part has: changes, a due time, a step, a term.
- `workqueue`: changes that wait for it, and results of requests that other threads have sent for it.
- `requests`: what was asked for and does not show yet, in one memory for all parts.
- `context`: what every part works with; how a request is sent and its result received.
- `status/`: the status of a queue and of a PodGroup, decided and written.
- `stops/`: what is needed until a stop is acknowledged, and how it ends on time.
- `members/`: which members are looked at after a change.
- `pods/`: what is written on waiting pods: why they wait, and their way back to the scheduler.
- `commands/`, `drain/`: Commands, and the drains of queues.
- `evictions/`: the requests by which pods go, for drains, quotas and gangs.
- `events`: the events on queues. `default_objects`; `gauges` and `quota_gauges`: what else is kept true.

Every part belongs to the controller's thread, which sends no request itself and waits for none.
"""
