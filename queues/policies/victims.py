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
- What holds for the victim's queue holds for the queues between it and the nearest queue that is above both:
  they are reclaimable, use more than they deserve with all below them, and keep their guarantees.
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


class Victim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod that kube-scheduler would evict. `queue`: "" for a pod of no queue."""

    name: str
    uid: str = ""
    namespace: str = ""
    queue: str = ""
    priority: int = 0
    priority_class: str = ""
    requests: Amounts = {}


class Shares(Protocol):
    """Shares by queue, such as a mapping; None for a queue without one."""

    def get(self, name: str, /) -> QueueShare | None: ...


#: What was taken of each queue by name.
_Taken = dict[str, dict[str, Amount]]


class VictimRules:
    """What one pod may have by its policy: for all nodes of one request, on its thread.

    What does not depend on the victims of a node is computed once for each queue.
    """

    def __init__(self, policy: Policy, preemptor: Preemptor, shares: Shares) -> None:
        self._preemptor = preemptor
        self._shares = shares
        same, other = "enablePreemptable", "enableReclaimable"
        self._actions = {True: PREEMPT in policy.actions, False: RECLAIM in policy.actions}
        self._conformance = {
            True: policy.enables("conformance", same),
            False: policy.enables("conformance", other),
        }
        self._priority = {True: policy.enables("priority", same), False: policy.enables("priority", other)}
        #: By queue: why it lends nothing, or the queues that are to lend.
        self._lenders: dict[str, str | tuple[_Lender, ...]] = {}

    def denial(self, victims: Sequence[Victim]) -> str | None:
        """Why the pod may not have all of these victims, which are on one node; None: it may."""
        taken: _Taken = {}
        for victim in victims:
            denial = self._denial(victim, taken)
            if denial is not None:
                return f"pod {quoted(victim.name)}: {denial}"
        return None

    def _denial(self, victim: Victim, taken: _Taken) -> str | None:
        same = victim.queue == self._preemptor.queue
        if self._conformance[same] and is_critical(victim.namespace, victim.priority_class, victim.priority):
            return "plugin conformance protects system-critical pods"
        if not victim.queue:
            return None
        if not self._actions[same]:
            action, of = (PREEMPT, "its own queue") if same else (RECLAIM, "another queue")
            return f"the policy has no action {action}, so it takes no victims of {of}"
        if self._priority[same] and victim.priority >= self._preemptor.priority:
            return "plugin priority lets it take only pods of lower priority"
        return None if same else self._reclaim_denial(victim, taken)

    def _reclaim_denial(self, victim: Victim, taken: _Taken) -> str | None:
        """Why the victim's queue does not lend it; records it as taken where it does."""
        lenders = self._lenders.get(victim.queue)
        if lenders is None:
            lenders = self._lenders[victim.queue] = self._lenders_of(victim.queue)
        if isinstance(lenders, str):
            return lenders
        for lender in lenders:
            denial = lender.denial(taken.get(lender.name, {}), victim.requests)
            if denial is not None:
                return denial
        for lender in lenders:
            of_queue = taken.setdefault(lender.name, {})
            for resource, amount in victim.requests.items():
                of_queue[resource] = of_queue.get(resource, 0) + amount
        return None

    def _lenders_of(self, queue: str) -> str | tuple[_Lender, ...]:
        own, share = self._shares.get(self._preemptor.queue), self._shares.get(queue)
        if own is None or share is None:
            return f"queue {quoted(queue)} or {quoted(self._preemptor.queue)} is not known"
        if share.priority > own.priority:
            return f"queue {quoted(share.name)} has a higher priority than {quoted(own.name)}"
        above_both = {own.name, *own.ancestors}
        names = [name for name in (share.name, *share.ancestors) if name not in above_both]
        return tuple(_Lender(each) for name in names if (each := self._shares.get(name)) is not None)


def victim_denial(
    policy: Policy | None, preemptor: Preemptor, victims: Sequence[Victim], shares: Shares
) -> str | None:
    """Why the pod may not have all of these victims; None: it may. A queue without a share lends nothing."""
    return None if policy is None else VictimRules(policy, preemptor, shares).denial(victims)


def is_critical(namespace: str, priority_class: str, priority: int) -> bool:
    """Whether plugin `conformance` protects a pod."""
    return priority_class in _CRITICAL or priority >= CRITICAL_PRIORITY or namespace == _SYSTEM_NAMESPACE


class _Lender:
    """The victim's queue, or one between it and the nearest queue that is above both."""

    def __init__(self, share: QueueShare) -> None:
        self.name = share.name
        self._reclaimable = share.reclaimable
        self._allocated = share.allocated
        self._guarantee = sorted(share.guarantee.items())
        self._limits = _limits(share)

    def denial(self, taken: Amounts, requests: Amounts) -> str | None:
        """Why it does not lend a pod with these requests, once so much of it was taken."""
        if not self._reclaimable:
            return f"queue {quoted(self.name)} is not reclaimable"
        if not self._is_above(taken):
            return f"queue {quoted(self.name)} uses no more than it deserves"
        for name, amount in self._guarantee:
            left = self._allocated.get(name, 0) - taken.get(name, 0) - requests.get(name, 0)
            if left < amount:
                return f"queue {quoted(self.name)} would have less {name} than its guarantee"
        return None

    def _is_above(self, taken: Amounts) -> bool:
        """Whether it uses more of any resource than it deserves."""
        return any(self._allocated[name] - taken.get(name, 0) > limit for name, limit in self._limits)


def _limits(share: QueueShare) -> list[tuple[str, Amount]]:
    """What it deserves of each resource that it uses; what it deserves all of is left out."""
    limits: list[tuple[str, Amount]] = []
    for resource in share.allocated:
        deserved = share.deserved.get(resource, 0 if resource in _ALWAYS_SHARED else None)
        if deserved is not None:
            limits.append((resource, max(deserved, share.guarantee.get(resource, 0))))
    return limits
