"""What kube-scheduler asks: which nodes a pod may go to, and whom it may push aside.

As data: routes -> wire -> filtering or preempting -> wire; never back, never waiting, no I/O.
"""
