"""Scheduling policies: what Volcano's scheduler configuration means beside kube-scheduler.

Read in this order: `model` (what a policy is), `effects` (what each action and plugin does here),
`scheduler_conf` (a text in Volcano's format to a policy), `policy_set` (the policies of a ConfigMap),
`resolution` (which of them counts for a pod), `parts` (what each part of a policy does), `actions` (which
pods it schedules), `victims` (which pods a policy lets another pod evict), `preemptable` (which pods say that
they stay).
"""
