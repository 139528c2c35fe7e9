"""What kube-scheduler calls: which nodes a pod may go to, and which pods it may preempt.

Read in the order of a call: `routes`, `wire` (the bodies), `filtering` or `preempting`, and `wire` again. A
call never waits and does no I/O: it is answered from the store.
"""
