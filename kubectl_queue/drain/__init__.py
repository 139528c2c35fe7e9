"""What drains need of the command line and of the cluster.

`spec_flags`: the flags that set `spec.drain`. `inventory`: what the drains of some queues are about, read
with the user's rights: pods (`pod_lists`), what made them (`owner_lists`), gangs and budgets; `kind_lists`
lists what a namespace has of a kind. What is shown of a drain is in `views`.
"""
