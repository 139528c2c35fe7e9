"""Which victims a scheduling policy lets a pod have, of those that kube-scheduler has chosen on a node.

kube-scheduler chooses the fewest pods of lower priority that make room on a node. The policy of the pod that
needs the room says whether it may have them; a node with a victim that it may not have is no candidate.

| the victim                             | it may be evicted if                                        |
|----------------------------------------|-------------------------------------------------------------|
| is system-critical, in a policy with   | never                                                       |
| `conformance`                          |                                                             |
| is in no queue                         | always: kube-scheduler decides                              |
| is in the same queue                   | the policy has action `preempt`                             |
| is in another queue                    | the policy has action `reclaim`, and the queue lends: it is |
|                                        | reclaimable, its priority is not higher, it uses more than  |
|                                        | it deserves, and keeps its guarantee without the victim     |
| has no lower priority, in a policy     | never                                                       |
| with `priority`                        |                                                             |

Invariants
- Without a policy every victim may be evicted.
- Victims of one node are counted one after the other: what is taken of a queue for one is gone for the next.
- The queues between the victim's and the nearest queue that is above both keep their guarantees too, and
  have to be reclaimable.
- A queue deserves at least its guarantee; of CPU and memory it deserves nothing unless it says so, of any
  other resource it deserves all that it uses.

Sources: Volcano's `plugins/capacity` (reclaimable), `plugins/conformance`, `plugins/priority`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from queues.apimachinery.quantities import Amount
from queues.policies.model import Policy
from queues.text import quoted

Amounts = Mapping[str, Amount]

PREEMPT, RECLAIM = "preempt", "reclaim"
_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})
#: The least priority of what is system-critical.
CRITICAL_PRIORITY = 2_000_000_000
_SYSTEM_NAMESPACE = "kube-system"
#: Of these a queue deserves nothing unless it says so.
_ALWAYS_SHARED = ("cpu", "memory")


class QueueShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue uses, with the queues below it, and what it may keep. `ancestors`: nearest first."""

    name: str
    ancestors: tuple[str, ...] = ()
    allocated: Amounts = {}
    deserved: Amounts = {}
    guarantee: Amounts = {}
    reclaimable: bool = True
    priority: int = 0


class Preemptor(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that needs room."""

    queue: str
    priority: int = 0


class Victim(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that kube-scheduler would evict. `queue`: "" for a pod of no queue."""

    name: str
    namespace: str = ""
    queue: str = ""
    priority: int = 0
    priority_class: str = ""
    requests: Amounts = {}


class Shares(Protocol):
    """Shares by queue, such as a mapping; None for a queue without one."""

    def get(self, name: str, /) -> QueueShare | None: ...


def victim_denial(
    policy: Policy | None, preemptor: Preemptor, victims: Sequence[Victim], shares: Shares
) -> str | None:
    """Why the pod may not have all of these victims; None: it may. A queue without a share lends nothing."""
    if policy is None:
        return None
    taken: dict[str, dict[str, Amount]] = {}
    for victim in victims:
        denial = _denial(policy, preemptor, victim, shares, taken)
        if denial is not None:
            return f"pod {quoted(victim.name)}: {denial}"
    return None


def _denial(
    policy: Policy,
    preemptor: Preemptor,
    victim: Victim,
    shares: Shares,
    taken: dict[str, dict[str, Amount]],
) -> str | None:
    same = victim.queue == preemptor.queue
    switch = "enablePreemptable" if same else "enableReclaimable"
    if policy.enables("conformance", switch) and is_critical(
        victim.namespace, victim.priority_class, victim.priority
    ):
        return "plugin conformance protects system-critical pods"
    if not victim.queue:
        return None
    action = PREEMPT if same else RECLAIM
    if action not in policy.actions:
        of = "its own queue" if same else "another queue"
        return f"the policy has no action {action}, so it takes no victims of {of}"
    if policy.enables("priority", switch) and victim.priority >= preemptor.priority:
        return "plugin priority lets it take only pods of lower priority"
    return None if same else _reclaim_denial(preemptor, victim, shares, taken)


def is_critical(namespace: str, priority_class: str, priority: int) -> bool:
    """Whether plugin `conformance` protects a pod."""
    return priority_class in _CRITICAL or priority >= CRITICAL_PRIORITY or namespace == _SYSTEM_NAMESPACE


def _reclaim_denial(
    preemptor: Preemptor,
    victim: Victim,
    shares: Shares,
    taken: dict[str, dict[str, Amount]],
) -> str | None:
    """Why the victim's queue does not lend it; records it as taken where it does."""
    own, lender = shares.get(preemptor.queue), shares.get(victim.queue)
    if own is None or lender is None:
        return f"queue {quoted(victim.queue)} or {quoted(preemptor.queue)} is not known"
    if lender.priority > own.priority:
        return f"queue {quoted(lender.name)} has a higher priority than {quoted(own.name)}"
    above_both = {own.name, *own.ancestors}
    names = [name for name in (lender.name, *lender.ancestors) if name not in above_both]
    between = [share for name in names if (share := shares.get(name)) is not None]
    for share in between:
        left = _without(share.allocated, taken.get(share.name, {}))
        if not share.reclaimable:
            return f"queue {quoted(share.name)} is not reclaimable"
        if share is lender and not _above_deserved(share, left):
            return f"queue {quoted(share.name)} uses no more than it deserves"
        missing = _below_guarantee(share, _without(left, victim.requests))
        if missing is not None:
            return f"queue {quoted(share.name)} would have less {missing} than its guarantee"
    for share in between:
        of_queue = taken.setdefault(share.name, {})
        for resource, amount in victim.requests.items():
            of_queue[resource] = of_queue.get(resource, 0) + amount
    return None


def _without(amounts: Amounts, less: Amounts) -> dict[str, Amount]:
    return {resource: amount - less.get(resource, 0) for resource, amount in amounts.items()}


def _above_deserved(share: QueueShare, left: Amounts) -> bool:
    """Whether it uses more of any resource than it deserves."""
    for resource, amount in left.items():
        deserved = share.deserved.get(resource, 0 if resource in _ALWAYS_SHARED else None)
        if deserved is not None and amount > max(deserved, share.guarantee.get(resource, 0)):
            return True
    return False


def _below_guarantee(share: QueueShare, left: Amounts) -> str | None:
    """The first resource of which less is left than the queue is guaranteed."""
    return next(
        (name for name, amount in sorted(share.guarantee.items()) if left.get(name, 0) < amount), None
    )
