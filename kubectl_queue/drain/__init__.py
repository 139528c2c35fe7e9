"""What drains need of the command line and of the cluster.

`spec_flags`: the flags that set `spec.drain`. `inventory`: the pods, Jobs and budgets of the cluster, read
with the user's rights. What is shown of a drain is in `views`.
"""
