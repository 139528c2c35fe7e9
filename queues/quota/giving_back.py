"""Which pods go so that those that wait get what their queues deserve, by the rule of `queues.quota.lending`.

| the victims   | where the policy has | rule                                                           |
|---------------|----------------------|----------------------------------------------------------------|
| its own queue | action `preempt`     | of lower priority                                              |
| another queue | action `reclaim`     | what `lending` says of the two queues, and of those above them |

The order of victims: those of the nearest relatives first; of the queue that uses most of what it deserves;
who has no node yet; of the lowest priority; single pods before whole gangs; the newest.

What goes, goes in units (`started_gangs`):

| the pod is                                         | its unit is                                      |
|----------------------------------------------------|--------------------------------------------------|
| of no gang                                         | the pod                                          |
| of a gang that has its minimum without it          | the pod                                          |
| of a gang that would be below its minimum          | all that runs of the gang; it counts as one pod  |
|                                                    | that requests as much as all of them             |
| of such a gang, of which some pod is not to go     | none: it stays                                   |

One look asks for many pods, one after the other (`GivingBack.ask`). Who gets room counts from then on, and
what was taken for it is gone.

Invariants
- The victims make room for the one that asks, and no unit of them could be left out; or there are none.
- A unit counts in a queue that has no room, for a resource that lacks there.
- No gang is left below its minimum with something of it running. A gang that goes, goes whole in one look.
- What a policy spares, and what a queue keeps (its guarantee), is spared and kept after the whole unit.
- No more pods of a disruption budget are taken in one look than it allows.
- The victims are the same in whatever order pods are given.
- The use of queues is left as it was, once the look is over (`close`).
- A queue that denies a pod denies those with equal requests too, while its use falls and that of the one
  that asks grows: they are asked about once.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount, ResourceAmounts
from queues.quota.kept_by import KeptBy
from queues.quota.lack import LackKind
from queues.quota.ledger import Ledger
from queues.quota.lending import LendingState, asking_denial, exchange_denial, lending_denial, protected
from queues.quota.pod_classes import WaitingPod
from queues.quota.started_gangs import GangCount, StartedGang
from queues.quota.usage import Usage, limits_of, negative
from queues.text import quoted
from queues.tree import Tree

#: The claimant's own queue, among those that are above both.
OWN = -1
#: What no eviction mends.
_NOT_MENDED = frozenset(
    {
        *(LackKind.NO_QUEUE, LackKind.DEVICES, LackKind.CLAIM_ABSENT, LackKind.CLAIMS_UNREAD),
        *(LackKind.CLAIM, LackKind.TURN),
    }
)


class Borrowed(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod that counts, and is not being deleted. `since`: its creation. `is_placed`: whether it has a node.
    `budgets`: its disruption budgets. `gang`: the UID of its PodGroup; "" where it goes by itself. `kept`:
    the rule by which it is no victim, whoever asks; None where it might go.
    """

    uid: str
    queue: str
    requests: Requests
    priority: int = 0
    since: datetime
    is_placed: bool = True
    is_critical: bool = False
    budgets: tuple[str, ...] = ()
    gang: str = ""
    kept: KeptBy | None = None


class VictimUnit(msgspec.Struct, frozen=True, kw_only=True):
    """What goes together. `gang`: of which it is; "" for none. `is_whole`: all that runs of the gang."""

    pods: tuple[Borrowed, ...]
    queue: str
    requests: Requests
    gang: str = ""
    is_whole: bool = False

    @property
    def rank(self) -> tuple[bool, int, bool, float, str]:
        """The smallest is next: a gang with its pod that would go last, and as if made with its newest."""
        return (
            any(pod.is_placed for pod in self.pods),
            max(pod.priority for pod in self.pods),
            self.is_whole,
            -max(pod.since.timestamp() for pod in self.pods),
            self.gang or self.pods[0].uid if self.is_whole else self.pods[0].uid,
        )


class Taking(msgspec.Struct, frozen=True, kw_only=True):
    """Which pods a policy lets a pod take. `lower_only`: of lower priority."""

    is_allowed: bool = False
    spares_critical: bool = False
    lower_only: bool = False

    def within(self, other: Taking) -> Taking:
        """What both let it take."""
        return Taking(
            is_allowed=self.is_allowed and other.is_allowed,
            spares_critical=self.spares_critical or other.spares_critical,
            lower_only=self.lower_only or other.lower_only,
        )


class AllowedTaking(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy lets a pod take: of its own queue, always of lower priority, and of others."""

    own: Taking = Taking()
    others: Taking = Taking()

    def within(self, other: AllowedTaking) -> AllowedTaking:
        """What both let it take."""
        return AllowedTaking(own=self.own.within(other.own), others=self.others.within(other.others))

    @property
    def is_any(self) -> bool:
        return self.own.is_allowed or self.others.is_allowed


class GivingBack:
    """One look at who asks. For one thread. It is over once the ledger changes."""

    def __init__(
        self,
        tree: Tree,
        ledger: Ledger,
        *,
        pods: Callable[[str], Iterable[Borrowed]],
        queues: Iterable[str],
        deserved: Callable[[str], ResourceAmounts],
        reclaimable: Callable[[str], bool],
        allowed: Mapping[str, int] | None = None,
        gangs: Callable[[str], StartedGang | None] = lambda _uid: None,
    ) -> None:
        """`ledger`: what counts but for what is being deleted. `pods`: those of a queue, asked for where
        its turn comes. `queues`: those with pods. `deserved`: what each queue deserves. `allowed`: how many
        pods each disruption budget lets go. `gangs`: by the UID of a PodGroup, what runs of it, also of pods
        that might not go; None where its pods go by themselves.
        """
        self.tree = tree
        self.usage = ledger.usage
        #: What counts, or counts no longer, for the rest of the look.
        self.assumed = ledger.assume()
        self.deserved = deserved
        self.reclaimable = reclaimable
        self.left = dict(allowed or {})
        self.denied: dict[tuple[str, Requests, frozenset[str]], set[tuple[str, Requests]]] = {}
        self._load = pods
        self._queues = tuple(queues)
        self._gangs = gangs
        self._started: dict[str, StartedGang | None] = {}
        self._units: dict[str, list[VictimUnit]] = {}
        #: What was taken in this look, by UID; a search adds what it takes (`take`, `put_back`).
        self.gone: set[str] = set()
        self._pods: dict[str, tuple[Borrowed, ...]] = {}
        #: By gang: what is left of it. A gang of thousands is counted once.
        self._counts: dict[str, GangCount] = {}
        self._chains: dict[str, tuple[str, ...]] = {}
        self._tiers: dict[str, dict[int, list[str]]] = {}

    def ask(self, claimant: WaitingPod, asked: AllowedTaking) -> tuple[Borrowed, ...] | None:
        """Those that are to go; none where it has room by now; None where those that may do not suffice."""
        lack = self.usage.lack(claimant.queue, claimant.requests)
        if lack is None:
            self.count(claimant.queue, claimant.requests)
            return ()
        if lack.never or lack.kind in _NOT_MENDED:
            return None
        search = Search(self, claimant, asked)
        try:
            found = search.run()
        except BaseException:
            search.give_back()
            raise
        if not found:
            search.give_back()
            return None
        for queue in {pod.queue for pod in found}:
            self._units[queue] = [unit for unit in self._units[queue] if self.left_of(unit)]
        self.count(claimant.queue, claimant.requests)
        return found

    def count(self, queue: str, requests: Requests) -> None:
        """Count this for the rest of the look; amounts below zero are gone."""
        self.assumed.add(queue, requests)

    def close(self) -> None:
        """The look is over: the use of queues is as it was."""
        self.assumed.undo()

    def units(self, queue: str) -> list[VictimUnit]:
        """What of the queue might go; the last one is next. Pods of gangs are there by themselves, and with
        all of their gang where all of that might go.
        """
        known = self._units.get(queue)
        if known is None:
            might_go = (pod for pod in self.pods(queue) if pod.kept is None)
            known = self._units[queue] = sorted(
                _units_of(might_go, self.started), key=lambda unit: unit.rank, reverse=True
            )
        return known

    def pods(self, queue: str) -> Sequence[Borrowed]:
        """All of the queue that count, also those that are no victims. They are read once."""
        known = self._pods.get(queue)
        if known is None:
            known = self._pods[queue] = tuple(self._load(queue))
        return known

    def started(self, gang: str) -> StartedGang | None:
        """What runs of the gang; None where its pods go by themselves."""
        if gang not in self._started:
            self._started[gang] = self._gangs(gang) if gang else None
        return self._started[gang]

    def may_lose(self, gang: StartedGang, pods: Iterable[Borrowed]) -> bool:
        """Whether the gang may lose these, none of which was taken, together: its minimum stays, or none."""
        count = self._counts.get(gang.uid)
        if count is None:
            count = self._counts[gang.uid] = GangCount(gang, gone=self.gone)
        return count.may_lose({pod.uid for pod in pods})

    def take(self, pod: Borrowed) -> None:
        """It counts as taken from now on."""
        self.gone.add(pod.uid)
        if (count := self._counts.get(pod.gang)) is not None:
            count.remove(pod.uid)

    def put_back(self, pod: Borrowed) -> None:
        """It was not taken."""
        self.gone.discard(pod.uid)
        if (count := self._counts.get(pod.gang)) is not None:
            count.add(pod.uid)

    def left_of(self, unit: VictimUnit) -> tuple[Borrowed, ...]:
        """What of the unit was not taken yet."""
        return tuple(pod for pod in unit.pods if pod.uid not in self.gone)

    def tiers(self, queue: str) -> Mapping[int, list[str]]:
        """The queues whose pods might go, by the place in this queue's chain of the queue that is above both;
        by `OWN` the queue itself.
        """
        known = self._tiers.get(queue)
        if known is None:
            known = self._tiers[queue] = {OWN: [queue]}
            places = {name: place for place, name in enumerate(self.chain(queue))}
            for other in self._queues:
                place = next((places[name] for name in self.chain(other) if name in places), None)
                if place is not None and other != queue:
                    known.setdefault(place, []).append(other)
        return known

    def chain(self, queue: str) -> tuple[str, ...]:
        known = self._chains.get(queue)
        if known is None:
            names = [each.name for each in self.tree.chain(queue).queues] if queue in self.tree else []
            known = self._chains[queue] = tuple(names)
        return known

    def standing(self, name: str) -> LendingState:
        return LendingState(name, self.usage.used(name), self.deserved(name))


def shortages(claimant: WaitingPod, *, tree: Tree, usage: Usage) -> Iterator[tuple[str, str]]:
    """The queues and resources that lack room for it, some of them twice; of what is set aside for others the
    nearest queue.
    """
    limits = limits_of(tree.chain(claimant.queue))
    for resource, amount in claimant.requests:
        for limit in limits:
            most = limit.capability.get(resource)
            if most is not None and usage.used(limit.queue).get(resource, 0) + amount > most:
                yield limit.queue, resource
        lack = usage.lack(claimant.queue, ((resource, amount),))
        if lack is not None:
            yield lack.queue, resource


class Search:
    """The search for one that asks. While it goes on, what was taken does not count."""

    def __init__(self, look: GivingBack, claimant: WaitingPod, asked: AllowedTaking) -> None:
        self._look = look
        self._claimant = claimant
        self._asked = asked
        self._requests = dict(claimant.requests)
        self._usage = look.usage
        self._chain = look.chain(claimant.queue)
        #: Where what lacks, as the search begins.
        self._shortages = frozenset(shortages(claimant, tree=look.tree, usage=look.usage))
        self._short = frozenset(resource for _, resource in self._shortages)
        self._taken: list[VictimUnit] = []
        self._denied = look.denied.setdefault((claimant.queue, claimant.requests, self._short), set())

    def run(self) -> tuple[Borrowed, ...]:
        """The victims; none where those that may go do not suffice."""
        tiers = self._look.tiers(self._claimant.queue)
        for common in sorted(tiers):
            taking = self._asked.own if common == OWN else self._asked.others
            if taking.is_allowed and self.asking_text(common) is None:
                self._take(tiers[common], common, taking)
                if self._has_room():
                    return self._trimmed()
        return ()

    def give_back(self) -> None:
        """What was taken counts again."""
        for unit in self._taken:
            self._put_back(unit)
        self._taken.clear()
        self._denied.clear()  # queues may lend what they denied once others were taken

    def _take(self, queues: Iterable[str], common: int, taking: Taking) -> None:
        """Take units of these queues until the claimant has room."""
        waiting: dict[str, int] = {}
        firsts = [(self._key(queue, common), queue) for queue in queues if self._may_lend(queue, common)]
        heapq.heapify(firsts)
        while firsts and not self._has_room():
            key, queue = firsts[0]
            current = self._key(queue, common)
            if current != key:
                heapq.heapreplace(firsts, (current, queue))
                continue
            units = self._look.units(queue)
            at = waiting.get(queue, len(units)) - 1
            if at < 0:
                heapq.heappop(firsts)
                continue
            waiting[queue] = at
            unit = self.present(units[at])
            if unit is not None and self._goes(unit, common, taking):
                self._remove(unit)

    def present(self, unit: VictimUnit) -> VictimUnit | None:
        """What of the unit may go now; None where nothing of it is left, or its gang keeps it."""
        left = self._look.left_of(unit)
        if not left:
            return None
        gang = self._look.started(unit.gang)
        if gang is not None and not self._look.may_lose(gang, left):
            return None
        return unit if len(left) == len(unit.pods) else unit_of(left, gang=unit.gang, is_whole=unit.is_whole)

    def _remove(self, unit: VictimUnit) -> None:
        self._taken.append(unit)
        self._count_gone(unit)

    def _count_gone(self, unit: VictimUnit) -> None:
        self._look.count(unit.queue, negative(unit.requests))
        for pod in unit.pods:
            self._look.take(pod)
            for budget in pod.budgets:
                self._look.left[budget] -= 1

    def _put_back(self, unit: VictimUnit) -> None:
        self._look.count(unit.queue, unit.requests)
        for pod in unit.pods:
            self._look.put_back(pod)
            for budget in pod.budgets:
                self._look.left[budget] += 1

    def _trimmed(self) -> tuple[Borrowed, ...]:
        """What is needed of what was taken. What was taken last is left out first. Pods of a gang that goes
        whole stay with it: they are no units any more.
        """
        whole: set[str] = set()
        for unit in reversed(tuple(self._taken)):
            if unit.gang in whole:
                continue
            self._put_back(unit)
            if self._has_room():
                self._taken.remove(unit)
                continue
            self._count_gone(unit)
            if unit.is_whole:
                whole.add(unit.gang)
        return tuple(pod for unit in self._taken for pod in unit.pods)

    def _has_room(self) -> bool:
        return self._usage.lack(self._claimant.queue, self._claimant.requests) is None

    def asking_text(self, common: int) -> str | None:
        """Why the claimant's queue, and those above it below the common one, do not deserve what it requests;
        None where they do.
        """
        if common == OWN:
            return None
        side = map(self._look.standing, self._chain[:common])
        return asking_denial(side, requests=self._requests, short=self._short)

    def _may_lend(self, queue: str, common: int) -> bool:
        """False where it is known without a look at its pods that none of them goes."""
        for name, used, deserved in self._standings(self._below(queue, common)):
            if not self._look.reclaimable(name):
                return False
            listed = [resource for resource in self._short if resource in deserved]
            is_over = any(used.get(each, 0) > deserved[each] for each in listed)
            if len(listed) == len(self._short) and not is_over:
                return False
        return True

    def _goes(self, unit: VictimUnit, common: int, taking: Taking) -> bool:
        if self.kept_by(unit, common, taking) is not None:
            return False
        alike = unit.queue, unit.requests
        if alike in self._denied:
            return False
        if self.helps(unit) and self.lending_text(unit, common) is None:
            return True
        self._denied.add(alike)
        return False

    def kept_by(self, unit: VictimUnit, common: int, taking: Taking) -> KeptBy | None:
        """The rule by which one of its pods does not go for the claimant, whatever its queue lends."""
        if (taking.lower_only or common == OWN) and any(
            pod.priority >= self._claimant.priority for pod in unit.pods
        ):
            return KeptBy.PRIORITY
        if taking.spares_critical and any(pod.is_critical for pod in unit.pods):
            return KeptBy.CRITICAL
        needed = Counter(budget for pod in unit.pods for budget in pod.budgets)
        if any(self._look.left[budget] < number for budget, number in needed.items()):
            return KeptBy.BUDGET
        return None

    def helps(self, unit: VictimUnit) -> bool:
        requests = dict(unit.requests)
        return any(
            requests.get(resource, 0) and (name, resource) in self._shortages
            for name in self._look.chain(unit.queue)
            for resource in self._short
        )

    def lending_text(self, unit: VictimUnit, common: int) -> str | None:
        """Why the queues of the unit do not lend it to the claimant; None where they do."""
        if common == OWN:
            return None
        side, victim = self._below(unit.queue, common), dict(unit.requests)
        asks, lends = self._chain[common - 1], side[-1] if side else unit.queue
        if self._look.tree.queues[lends].priority > self._look.tree.queues[asks].priority:
            return f"queue {quoted(lends)} has a higher priority than {quoted(asks)}"
        if not side:  # it stands beside the queues below its own, and deserves nothing by itself
            is_reclaimable = self._look.reclaimable(unit.queue)
            return None if is_reclaimable else f"queue {quoted(unit.queue)} is not reclaimable"
        for lender in self._standings(side):
            denial = lending_denial(
                lender,
                reclaimable=self._look.reclaimable(lender.name),
                guarantee=self._usage.guarantees.get(lender.name, {}),
                victim=victim,
                short=self._short,
            )
            if denial is not None:
                return denial
        return exchange_denial(
            self._look.standing(asks),
            self._look.standing(lends),
            requests=self._requests,
            victim=victim,
            short=self._short,
        )

    def _standings(self, side: Iterable[str]) -> tuple[LendingState, ...]:
        return protected(map(self._look.standing, side))

    def _below(self, queue: str, common: int) -> tuple[str, ...]:
        """The queue, and those above it below the common one."""
        chain = self._look.chain(queue)
        return () if common == OWN else chain[: chain.index(self._chain[common])]

    def _key(self, queue: str, common: int) -> tuple[tuple[float, float], ...]:
        """Where the queue stands: which uses the most of what it deserves is next, from the top down."""
        return tuple(self._over(name) for name in reversed(self._below(queue, common)))

    def _over(self, name: str) -> tuple[float, float]:
        """Of a short resource; what it does not list it deserves none of."""
        used, deserved, whole = self._usage.used(name), self._look.deserved(name), self._usage.whole
        listed = [used.get(each, 0) / deserved[each] for each in self._short if deserved.get(each)]
        parts = [
            float(used.get(each, 0) / whole[each]) if whole.get(each) else float(used.get(each, 0))
            for each in self._short
        ]
        return (-float(max(listed)) if listed else -float("inf")), -max(parts, default=0.0)


def _units_of(pods: Iterable[Borrowed], started: Callable[[str], StartedGang | None]) -> Iterator[VictimUnit]:
    """Each pod, and each gang of which all that runs is there."""
    of_gangs: dict[str, list[Borrowed]] = {}
    for pod in pods:
        gang = started(pod.gang)
        if gang is None:
            yield unit_of((pod,))
            continue
        yield unit_of((pod,), gang=pod.gang)
        of_gangs.setdefault(pod.gang, []).append(pod)
    for uid, present in of_gangs.items():
        gang = started(uid)
        if gang is not None and gang.running.keys() <= {pod.uid for pod in present}:
            yield unit_of(sorted(present, key=lambda pod: pod.uid), gang=uid, is_whole=True)


def unit_of(pods: Sequence[Borrowed], *, gang: str = "", is_whole: bool = False) -> VictimUnit:
    first = pods[0]
    requests = first.requests
    if len(pods) > 1:
        amounts: dict[str, Amount] = {}
        for pod in pods:
            for resource, amount in pod.requests:
                amounts[resource] = amounts.get(resource, 0) + amount
        requests = tuple(sorted(amounts.items()))
    return VictimUnit(pods=tuple(pods), queue=first.queue, requests=requests, gang=gang, is_whole=is_whole)
