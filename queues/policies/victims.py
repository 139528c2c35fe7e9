"""Which victims a scheduling policy lets a pod have, of those that kube-scheduler has chosen on a node.

kube-scheduler chooses the fewest pods of lower priority that make room on a node. The policy of the pod that
needs the room says whether it may have them; a node with a victim that it may not have is no candidate.

| the victim                             | it may be evicted if                                        |
|----------------------------------------|-------------------------------------------------------------|
| is system-critical, in a policy with   | never                                                       |
| `conformance`                          |                                                             |
| is in no queue                         | always: kube-scheduler decides                              |
| says `volcano.sh/preemptable: false`   | never                                                       |
| (`queues.policies.preemptable`)        |                                                             |
| is of a gang that runs                 | its minimum stays, or all of it is among the victims        |
|                                        | (`queues.quota.started_gangs`)                              |
| is in the same queue                   | the policy has action `preempt`                             |
| is in another queue                    | the policy has action `reclaim`, the pod's queue may ask it |
|                                        | back, and the victim's lends it (`queues.quota.lending`)    |
| is in the same queue, and has no lower | never                                                       |
| priority, in a policy with `priority`  |                                                             |
| is in another queue, and has no lower  | never                                                       |
| priority, in a policy with `priority`  |                                                             |
| that says `enableReclaimable: true`    |                                                             |

Invariants
- Without a policy every victim may be evicted.
- Victims of one node are counted one after the other: what is taken of a queue for one is gone for the next.
- A queue deserves at least its guarantee.
- `reclaim` is about fairness between queues: the priority of pods does not gate it, unless a policy says so.
- Only kube-scheduler knows what a node lacks: all that the pod requests counts as short.

Sources: Volcano's `plugins/capacity` (reclaimable), `plugins/conformance`, `plugins/priority` (which has a
function for `preempt`, and none for `reclaim`). There the first tier that names victims decides, and the
plugins of a tier have to agree; here the plugins of all tiers have to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from typing import NamedTuple, Protocol

import msgspec

from queues.apimachinery.quantities import Amount, ResourceAmounts
from queues.metadata.keys import PREEMPTABLE
from queues.policies.model import Policy
from queues.quota.giving_back import AllowedTaking, Taking
from queues.quota.lending import LendingState, asking_denial, exchange_denial, lending_denial, protected
from queues.quota.started_gangs import GangCount, StartedGang
from queues.text import quoted

PREEMPT, RECLAIM = "preempt", "reclaim"
_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})
#: The least priority of what is system-critical.
CRITICAL_PRIORITY = 2_000_000_000
_SYSTEM_NAMESPACE = "kube-system"


class QueueShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue uses, with the queues below it, and what it may keep. `ancestors`: nearest first."""

    name: str
    ancestors: tuple[str, ...] = ()
    allocated: ResourceAmounts = {}
    deserved: ResourceAmounts = {}
    guarantee: ResourceAmounts = {}
    reclaimable: bool = True
    priority: int = 0


class Preemptor(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that needs room. Where it counts in its queue already, `requests` is nothing more."""

    queue: str
    priority: int = 0
    requests: ResourceAmounts = {}


class Victim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod that kube-scheduler would evict. `queue`: "" for a pod of no queue. `gang`: the UID of its
    PodGroup; "" where it goes by itself.
    """

    name: str
    uid: str = ""
    namespace: str = ""
    queue: str = ""
    priority: int = 0
    priority_class: str = ""
    requests: ResourceAmounts = {}
    gang: str = ""
    is_preemptable: bool = True


class SharesByQueue(Protocol):
    """Shares by queue, such as a mapping; None for a queue without one."""

    def get(self, name: str, /) -> QueueShare | None: ...


#: What was taken of each queue by name.
_Taken = dict[str, dict[str, Amount]]


class VictimRules:
    """What one pod may have by its policy: for all nodes of one request, on its thread.

    What does not depend on the victims of a node is computed once for each queue, and once for each gang.
    """

    def __init__(
        self,
        policy: Policy,
        preemptor: Preemptor,
        shares: SharesByQueue,
        *,
        gangs: Callable[[str], StartedGang | None] = lambda _uid: None,
        given: Callable[[], Set[str]] = frozenset,
    ) -> None:
        """`gangs`: by the UID of a PodGroup, what runs of it; None where its pods go by themselves. `given`:
        the victims of gangs that other pods were given and that do not leave yet; asked for once, and only
        where a gang would lose a part.
        """
        self._gangs = gangs
        self._read_given = given
        self._given: Set[str] | None = None
        self._counts: dict[str, GangCount] = {}
        self._preemptor = preemptor
        self._shares = shares
        self._asked = asked_by(policy)
        self._short = [resource for resource, amount in preemptor.requests.items() if amount]
        #: By queue: why it lends nothing, or the queues that are to lend.
        self._sides: dict[str, str | _Side] = {}

    def denial(self, victims: Sequence[Victim]) -> str | None:
        """Why the pod may not have all of these victims, which are on one node; None: it may."""
        taken: _Taken = {}
        for victim in victims:
            denial = self._denial(victim, taken)
            if denial is not None:
                return f"pod {quoted(victim.name)}: {denial}"
        return self._gang_denial(victims)

    def _gang_denial(self, victims: Sequence[Victim]) -> str | None:
        """Why these would leave a gang below its minimum. What others were given may go, too, or stay."""
        going: dict[str, set[str]] = {}
        for victim in victims:
            if victim.gang:
                going.setdefault(victim.gang, set()).add(victim.uid)
        for uid, pods in going.items():
            gang = self._gangs(uid)
            if gang is None or gang.is_whole(pods) or self._count(gang).keeps_minimum(pods):
                continue
            name = next(victim.name for victim in victims if victim.gang == uid)
            return f"pod {quoted(name)}: its gang would run with fewer pods than its minimum"
        return None

    def _count(self, gang: StartedGang) -> GangCount:
        """What is left of the gang without what others were given."""
        if self._given is None:
            self._given = self._read_given()
        count = self._counts.get(gang.uid)
        if count is None:
            count = self._counts[gang.uid] = GangCount(gang, gone=self._given)
        return count

    def _denial(self, victim: Victim, taken: _Taken) -> str | None:
        same = victim.queue == self._preemptor.queue
        taking = self._asked.own if same else self._asked.others
        if taking.spares_critical and is_critical(victim.namespace, victim.priority_class, victim.priority):
            return "plugin conformance protects system-critical pods"
        if not victim.queue:
            return None
        if not victim.is_preemptable:
            return f"it says {PREEMPTABLE}: false"
        if not taking.is_allowed:
            action, of = (PREEMPT, "its own queue") if same else (RECLAIM, "another queue")
            return f"the policy has no action {action}, so it takes no victims of {of}"
        if taking.lower_only and victim.priority >= self._preemptor.priority:
            return "plugin priority lets it take only pods of lower priority"
        return None if same else self._reclaim_denial(victim, taken)

    def _reclaim_denial(self, victim: Victim, taken: _Taken) -> str | None:
        """Why the victim's queue does not lend it; records it as taken where it does."""
        side = self._sides.get(victim.queue)
        if side is None:
            side = self._sides[victim.queue] = self._side(victim.queue)
        if isinstance(side, str):
            return side
        denial = self._lent_denial(side, victim.requests, taken)
        if denial is not None:
            return denial
        for share, _ in side.lenders:
            of_queue = taken.setdefault(share.name, {})
            for resource, amount in victim.requests.items():
                of_queue[resource] = of_queue.get(resource, 0) + amount
        return None

    def _lent_denial(self, side: _Side, victim: ResourceAmounts, taken: _Taken) -> str | None:
        for share, standing in side.lenders:
            denial = lending_denial(
                _without(standing, taken.get(share.name)),
                reclaimable=share.reclaimable,
                guarantee=share.guarantee,
                victim=victim,
                short=self._short,
            )
            if denial is not None:
                return denial
        if side.asks is None:
            return None
        share, standing = side.lenders[-1]
        return exchange_denial(
            side.asks,
            _without(standing, taken.get(share.name)),
            requests=self._preemptor.requests,
            victim=victim,
            short=self._short,
        )

    def _side(self, queue: str) -> str | _Side:
        """The victim's side, if the pod's queue may ask anything of it."""
        own, share = self._shares.get(self._preemptor.queue), self._shares.get(queue)
        if own is None or share is None:
            return f"queue {quoted(queue)} or {quoted(self._preemptor.queue)} is not known"
        mine, theirs = (own.name, *own.ancestors), (share.name, *share.ancestors)
        common = next((name for name in theirs if name in mine), None)
        asks = self._known(mine[: mine.index(common)] if common else mine)
        lends = self._known(theirs[: theirs.index(common)] if common else theirs)
        denial = asking_denial(map(_standing, asks), requests=self._preemptor.requests, short=self._short)
        if denial is not None:
            return denial
        last, other = asks[-1], lends[-1] if lends else share
        if other.priority > last.priority:
            return f"queue {quoted(other.name)} has a higher priority than {quoted(last.name)}"
        if not lends:  # its pods stand beside the queues below it, and deserve nothing by themselves
            return _Side() if share.reclaimable else f"queue {quoted(share.name)} is not reclaimable"
        lenders = protected(map(_standing, lends))
        return _Side(tuple(zip(lends, lenders, strict=True)), _standing(last))

    def _known(self, names: Iterable[str]) -> list[QueueShare]:
        return [share for name in names if (share := self._shares.get(name)) is not None]


class _Side(NamedTuple):
    """The victim's queue, and those between it and the nearest queue that is above both; and the last of
    those on the side of the pod that asks.
    """

    lenders: tuple[tuple[QueueShare, LendingState], ...] = ()
    asks: LendingState | None = None


def victim_denial(
    policy: Policy | None, preemptor: Preemptor, victims: Sequence[Victim], shares: SharesByQueue
) -> str | None:
    """Why the pod may not have all of these victims; None: it may. A queue without a share lends nothing."""
    return None if policy is None else VictimRules(policy, preemptor, shares).denial(victims)


def asked_by(policy: Policy) -> AllowedTaking:
    """What the policy lets a pod take."""
    return AllowedTaking(
        own=Taking(
            is_allowed=PREEMPT in policy.actions,
            spares_critical=policy.enables("conformance", "enablePreemptable"),
            lower_only=policy.enables("priority", "enablePreemptable"),
        ),
        others=Taking(
            is_allowed=RECLAIM in policy.actions,
            spares_critical=policy.enables("conformance", "enableReclaimable"),
            lower_only=policy.says("priority", "enableReclaimable"),
        ),
    )


def is_critical(namespace: str, priority_class: str, priority: int) -> bool:
    """Whether plugin `conformance` protects a pod."""
    return priority_class in _CRITICAL or priority >= CRITICAL_PRIORITY or namespace == _SYSTEM_NAMESPACE


def _standing(share: QueueShare) -> LendingState:
    deserved = dict(share.deserved)
    for resource, amount in share.guarantee.items():
        deserved[resource] = max(amount, deserved.get(resource, 0))
    return LendingState(share.name, share.allocated, deserved)


def _without(standing: LendingState, taken: ResourceAmounts | None) -> LendingState:
    """What is left once so much was taken."""
    if not taken:
        return standing
    used = {name: amount - taken.get(name, 0) for name, amount in standing.used.items()}
    return standing._replace(used=used)
