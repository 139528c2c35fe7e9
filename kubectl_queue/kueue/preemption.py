"""Scheduling policies in place of Kueue's preemption policies.

| reclaimWithinCohort | the policy has               | withinClusterQueue        | the policy has |
|---------------------|------------------------------|---------------------------|----------------|
| Never               |                              | Never                     |                |
| LowerPriority       | `reclaim`, plugin `priority` | LowerPriority             | `preempt`      |
| Any                 | `reclaim`                    | LowerOrNewerEqualPriority | `preempt`      |

Action `preempt` takes pods of lower priority alone. Plugin `priority` with `enableReclaimable: true` has
`reclaim` do so, too. Never twice is no policy: then that of a queue above, else the global one, counts.

Kueue preempts whole workloads; here pods go one by one, by eviction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubectl_queue.kueue.model import NEVER, ClusterQueue, Preemption

_LOWER = "LowerPriority"


def policy_name(queue: ClusterQueue) -> str:
    """The key of the policy; "" for none. Without a Cohort there is nobody to reclaim from."""
    return _name(_effective(queue))


def policies(queues: Iterable[ClusterQueue]) -> Mapping[str, str]:
    """The texts of the policies that these queues need, by key."""
    needed = {_name(preemption): preemption for preemption in map(_effective, queues)}
    return {name: _text(preemption) for name, preemption in sorted(needed.items()) if name}


def _effective(queue: ClusterQueue) -> Preemption:
    found = queue.preemption
    return found if queue.cohort else Preemption(within=found.within)


def _name(preemption: Preemption) -> str:
    words = []
    if preemption.reclaim != NEVER:
        words.append("reclaim-lower" if preemption.reclaim == _LOWER else "reclaim")
    if preemption.within != NEVER:
        words.append("preempt")
    return "-".join(["kueue", *words]) if words else ""


def _text(preemption: Preemption) -> str:
    actions = ["allocate", "backfill"]
    if preemption.within != NEVER:
        actions.append("preempt")
    if preemption.reclaim != NEVER:
        actions.append("reclaim")
    lines = [f'actions: "{", ".join(actions)}"', "tiers:", "- plugins:", "  - name: conformance"]
    if preemption.reclaim == _LOWER:
        lines += ["  - name: priority", "    enableReclaimable: true"]
    return "\n".join(lines) + "\n"
