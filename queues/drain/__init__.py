"""Draining a queue: which pods go, which stay, what blocks, and what the status says. Pure.

Read in this order:

1. `model`: the values of a drain, and which pods stay by rule.
2. `disruption_budgets`: what a PodDisruptionBudget allows, now and ever.
3. `owners`: which owner of a pod is suspended, or scaled, in place of its eviction.
4. `broken_gangs`: which gangs go whole, since too few of their pods would stay.
5. `plan`: which units may go now, in which order, and what blocks the others.
6. `terminating_pods`: how long a pod that is going counts as in flight, and what delays it.
7. `progress`: condition `Drained` and `status.drain`.

`controller.drain` executes a plan; `kubectl queue drain --dry-run` prints it.
"""
