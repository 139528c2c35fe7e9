"""Which pods go so that those that wait get what their queues deserve, by the rule of `queues.quota.lending`.

| the victims   | where the policy has | rule                                                           |
|---------------|----------------------|----------------------------------------------------------------|
| its own queue | action `preempt`     | of lower priority                                              |
| another queue | action `reclaim`     | what `lending` says of the two queues, and of those above them |

The order of victims: those of the nearest relatives first; of the queue that uses most of what it deserves;
who has no node yet; of the lowest priority; the newest.

One look asks for many pods, one after the other (`GivingBack.ask`). Who gets room counts from then on, and
what was taken for it is gone.

Invariants
- The victims make room for the one that asks, and none of them could be left out; or there are none.
- A victim counts in a queue that has no room, for a resource that lacks there.
- No more pods of a disruption budget are taken in one look than it allows.
- The use of queues is left as it was, once the look is over (`close`).
- A queue that denies a pod denies those with equal requests too, while its use falls and that of the one
  that asks grows: they are asked about once.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from queues.apimachinery.quantities import Amount
from queues.quota.lack import LackKind
from queues.quota.lending import Standing, asking_denial, exchange_denial, lending_denial
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import Requests, Usage, limits_of, negative
from queues.tree import Tree

Amounts = Mapping[str, Amount]
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
    """A pod that might be evicted: one that counts, is not being deleted, and that nothing protects.
    `since`: its creation. `is_placed`: whether it has a node. `budgets`: its disruption budgets.
    """

    uid: str
    queue: str
    requests: Requests
    priority: int = 0
    since: datetime
    is_placed: bool = True
    is_critical: bool = False
    budgets: tuple[str, ...] = ()


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


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a policy lets a pod take: of its own queue, always of lower priority, and of others."""

    own: Taking = Taking()
    others: Taking = Taking()

    def within(self, other: Asked) -> Asked:
        """What both let it take."""
        return Asked(own=self.own.within(other.own), others=self.others.within(other.others))

    @property
    def is_any(self) -> bool:
        return self.own.is_allowed or self.others.is_allowed


class GivingBack:
    """One look at who asks. For one thread; no other may use `usage` meanwhile."""

    def __init__(
        self,
        tree: Tree,
        usage: Usage,
        *,
        pods: Callable[[str], Iterable[Borrowed]],
        queues: Iterable[str],
        deserved: Callable[[str], Amounts],
        reclaimable: Callable[[str], bool],
        allowed: Mapping[str, int] | None = None,
    ) -> None:
        """`usage`: what queues use but for what is being deleted. `pods`: those of a queue that might go,
        asked for once, where its turn comes. `queues`: those with pods. `deserved`: what each queue deserves.
        `allowed`: how many pods each disruption budget lets go.
        """
        self.tree = tree
        self.usage = usage
        self.deserved = deserved
        self.reclaimable = reclaimable
        self.left = dict(allowed or {})
        self.denied: dict[tuple[str, Requests, frozenset[str]], set[tuple[str, Requests]]] = {}
        self._load = pods
        self._queues = tuple(queues)
        self._pods: dict[str, list[Borrowed]] = {}
        self._chains: dict[str, tuple[str, ...]] = {}
        self._tiers: dict[str, dict[int, list[str]]] = {}
        self._counted: list[tuple[str, Requests]] = []

    def ask(self, claimant: WaitingPod, asked: Asked) -> tuple[Borrowed, ...] | None:
        """Those that are to go; none where it has room by now; None where those that may do not suffice."""
        lack = self.usage.lack(claimant.queue, claimant.requests)
        if lack is None:
            self.count(claimant.queue, claimant.requests)
            return ()
        if lack.never or lack.kind in _NOT_MENDED:
            return None
        search = _Search(self, claimant, asked)
        try:
            found = search.run()
        except BaseException:
            search.give_back()
            raise
        if not found:
            search.give_back()
            return None
        for pod in found:
            self._counted.append((pod.queue, negative(pod.requests)))
            self.pods(pod.queue).remove(pod)
        self.count(claimant.queue, claimant.requests)
        return found

    def count(self, queue: str, requests: Requests) -> None:
        """Count this for the rest of the look; amounts below zero are gone."""
        self.usage.add(queue, requests)
        self._counted.append((queue, requests))

    def close(self) -> None:
        """The look is over: the use of queues is as it was."""
        for queue, requests in reversed(self._counted):
            self.usage.add(queue, negative(requests))
        self._counted.clear()

    def pods(self, queue: str) -> list[Borrowed]:
        """Those of the queue that might go; the last one is next."""
        known = self._pods.get(queue)
        if known is None:
            known = self._pods[queue] = sorted(self._load(queue), key=_rank, reverse=True)
        return known

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

    def standing(self, name: str) -> Standing:
        return Standing(name, self.usage.used(name), self.deserved(name))


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


class _Search:
    """The search for one that asks. While it goes on, what was taken does not count."""

    def __init__(self, look: GivingBack, claimant: WaitingPod, asked: Asked) -> None:
        self._look = look
        self._claimant = claimant
        self._asked = asked
        self._requests = dict(claimant.requests)
        self._usage = look.usage
        self._chain = look.chain(claimant.queue)
        #: Where what lacks, as the search begins.
        self._shortages = frozenset(shortages(claimant, tree=look.tree, usage=look.usage))
        self._short = frozenset(resource for _, resource in self._shortages)
        self._taken: list[Borrowed] = []
        self._denied = look.denied.setdefault((claimant.queue, claimant.requests, self._short), set())

    def run(self) -> tuple[Borrowed, ...]:
        """The victims; none where those that may go do not suffice."""
        tiers = self._look.tiers(self._claimant.queue)
        for common in sorted(tiers):
            taking = self._asked.own if common == OWN else self._asked.others
            if taking.is_allowed and self._may_ask(common):
                self._take(tiers[common], common, taking)
                if self._has_room():
                    return self._trimmed()
        return ()

    def give_back(self) -> None:
        """What was taken counts again."""
        for pod in self._taken:
            self._put_back(pod)
        self._taken.clear()
        self._denied.clear()  # queues may lend what they denied once others were taken

    def _take(self, queues: Iterable[str], common: int, taking: Taking) -> None:
        """Take pods of these queues until the claimant has room."""
        waiting: dict[str, int] = {}
        firsts = [(self._key(queue, common), queue) for queue in queues if self._may_lend(queue, common)]
        heapq.heapify(firsts)
        while firsts and not self._has_room():
            key, queue = firsts[0]
            current = self._key(queue, common)
            if current != key:
                heapq.heapreplace(firsts, (current, queue))
                continue
            pods = self._look.pods(queue)
            at = waiting.get(queue, len(pods)) - 1
            if at < 0:
                heapq.heappop(firsts)
                continue
            waiting[queue] = at
            if self._goes(pods[at], common, taking):
                self._remove(pods[at])

    def _remove(self, pod: Borrowed) -> None:
        self._taken.append(pod)
        self._usage.add(pod.queue, negative(pod.requests))
        for budget in pod.budgets:
            self._look.left[budget] -= 1

    def _put_back(self, pod: Borrowed) -> None:
        self._usage.add(pod.queue, pod.requests)
        for budget in pod.budgets:
            self._look.left[budget] += 1

    def _trimmed(self) -> tuple[Borrowed, ...]:
        """What is needed of what was taken. Who was taken last is left out first."""
        for pod in reversed(tuple(self._taken)):
            self._put_back(pod)
            if self._has_room():
                self._taken.remove(pod)
            else:
                self._usage.add(pod.queue, negative(pod.requests))
                for budget in pod.budgets:
                    self._look.left[budget] -= 1
        return tuple(self._taken)

    def _has_room(self) -> bool:
        return self._usage.lack(self._claimant.queue, self._claimant.requests) is None

    def _may_ask(self, common: int) -> bool:
        """Whether the claimant's queue, and those above it below the common one, deserve what it requests."""
        if common == OWN:
            return True
        side = map(self._look.standing, self._chain[:common])
        return asking_denial(side, requests=self._requests, short=self._short) is None

    def _may_lend(self, queue: str, common: int) -> bool:
        """False where it is known without a look at its pods that none of them goes."""
        for name in self._below(queue, common):
            if not self._look.reclaimable(name):
                return False
            used, deserved = self._usage.used(name), self._look.deserved(name)
            listed = [resource for resource in self._short if resource in deserved]
            is_over = any(used.get(each, 0) > deserved[each] for each in listed)
            if len(listed) == len(self._short) and not is_over:
                return False
        return True

    def _goes(self, pod: Borrowed, common: int, taking: Taking) -> bool:
        lower = pod.priority < self._claimant.priority
        if (taking.lower_only or common == OWN) and not lower:
            return False
        if taking.spares_critical and pod.is_critical:
            return False
        if any(self._look.left[budget] <= 0 for budget in pod.budgets):
            return False
        alike = pod.queue, pod.requests
        if alike in self._denied:
            return False
        if self._helps(pod) and self._may_go(pod, common):
            return True
        self._denied.add(alike)
        return False

    def _helps(self, pod: Borrowed) -> bool:
        requests = dict(pod.requests)
        return any(
            requests.get(resource, 0) and (name, resource) in self._shortages
            for name in self._look.chain(pod.queue)
            for resource in self._short
        )

    def _may_go(self, pod: Borrowed, common: int) -> bool:
        if common == OWN:
            return True
        side, victim = self._below(pod.queue, common), dict(pod.requests)
        asks, lends = self._chain[common - 1], side[-1] if side else pod.queue
        if self._look.tree.queues[lends].priority > self._look.tree.queues[asks].priority:
            return False
        if not side:  # it stands beside the queues below its own, and deserves nothing by itself
            return self._look.reclaimable(pod.queue)
        exchange = exchange_denial(
            self._look.standing(asks),
            self._look.standing(lends),
            requests=self._requests,
            victim=victim,
            short=self._short,
        )
        return exchange is None and all(self._lends(name, victim) for name in side)

    def _lends(self, name: str, victim: Amounts) -> bool:
        denial = lending_denial(
            self._look.standing(name),
            reclaimable=self._look.reclaimable(name),
            guarantee=self._usage.guarantees.get(name, {}),
            victim=victim,
            short=self._short,
        )
        return denial is None

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


def _rank(pod: Borrowed) -> tuple[bool, int, float, str]:
    """The smallest is next."""
    return pod.is_placed, pod.priority, -pod.since.timestamp(), pod.uid
