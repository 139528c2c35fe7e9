"""The queue controller: one thread that derives status from spec, tree and members, over and over.

In the order of reading:

- `controller`: the thread; which change makes it look at what, and in which order.
- `workqueue`: changes that wait for it, and results of requests that other threads have sent for it.
- `context`: what every part works with; how a request is sent and its result received.
- `queue_reconciler`: one queue's status, derived and written. `status/` has its parts.
- `stops/`: what a stop takes until it is known to hold, and how it ends on time.
- `pods/`: what members are told and given: why they wait, and their way back to the scheduler.
- `podgroup_status`, `commands`, `drain/`: the other objects and flows.
- `events`, `housekeeping`: what is recorded, and what is kept true besides queues.

Every part belongs to the controller's thread, which sends no request itself and waits for none.
"""
