"""Which pods would go so that one that waits gets what its queue deserves: a search by the rule of
`queues.quota.lending`, which the tests of that rule need. Nothing evicts by it yet.

| the victims   | where the policy has | rule                                                           |
|---------------|----------------------|----------------------------------------------------------------|
| its own queue | action `preempt`     | of lower priority                                              |
| another queue | action `reclaim`     | what `lending` says of the two queues, and of those above them |

The order of victims: those of the nearest relatives first; of the queue that uses most of what it deserves;
who has no node yet; of the lowest priority; the newest.

Invariants
- The victims make room for the one that asks, and none of them could be left out; or there are none.
- A victim counts in a queue that has no room, for a resource that lacks there.
- The use of queues is left as it was.
- Victims are chosen one after the other: what was taken of a queue for one is gone for the next.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from queues.apimachinery.quantities import Amount
from queues.quota.lack import LackKind
from queues.quota.lending import Standing, asking_denial, exchange_denial, lending_denial
from queues.quota.usage import Requests, Usage, limits_of
from queues.tree import Tree

Amounts = Mapping[str, Amount]
#: The claimant's own queue, among those that are above both.
OWN = -1
#: What no eviction mends.
_NOT_MENDED = frozenset(
    {LackKind.NO_QUEUE, LackKind.DEVICES, LackKind.CLAIM_ABSENT, LackKind.CLAIMS_UNREAD, LackKind.CLAIM}
)


class Claimant(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that waits for room. `requests`: as a quota counts them."""

    queue: str
    requests: Requests
    priority: int = 0


class Borrowed(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that might be evicted: one that counts, is not being deleted, and that nothing protects.
    `since`: its creation. `is_placed`: whether it has a node.
    """

    uid: str
    queue: str
    requests: Requests
    priority: int = 0
    since: datetime
    is_placed: bool = True


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What the claimant's policy lets it take."""

    preempt: bool = False
    reclaim: bool = False


def victims(
    claimant: Claimant,
    pods: Iterable[Borrowed],
    *,
    tree: Tree,
    usage: Usage,
    deserved: Callable[[str], Amounts],
    reclaimable: Callable[[str], bool],
    asked: Asked,
) -> tuple[Borrowed, ...]:
    """Those that are to go; empty where it has room, or where no pods that may go would suffice.

    `usage`: what queues use but for what is being deleted. `deserved`: what each queue deserves.
    """
    lack = usage.lack(claimant.queue, claimant.requests)
    if lack is None or lack.never or lack.kind in _NOT_MENDED:
        return ()
    search = _Search(claimant, tree=tree, usage=usage, deserved=deserved, reclaimable=reclaimable)
    try:
        for common, tier in search.tiers(pods, asked):
            if search.may_ask(common):
                search.take(tier, common)
            if search.has_room():
                return search.trimmed()
        return ()
    finally:
        search.give_back()


def shortages(claimant: Claimant, *, tree: Tree, usage: Usage) -> Iterator[tuple[str, str]]:
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
    """One search. While it goes on, what was taken does not count."""

    def __init__(
        self,
        claimant: Claimant,
        *,
        tree: Tree,
        usage: Usage,
        deserved: Callable[[str], Amounts],
        reclaimable: Callable[[str], bool],
    ) -> None:
        self._claimant = claimant
        self._requests = dict(claimant.requests)
        self._usage = usage
        self._tree = tree
        self._deserved = deserved
        self._reclaimable = reclaimable
        self._chain = _names(tree, claimant.queue)
        #: Where what lacks, as the search begins.
        self._shortages = frozenset(shortages(claimant, tree=tree, usage=usage))
        self._short = {resource for _, resource in self._shortages}
        self._taken: list[Borrowed] = []

    def tiers(self, pods: Iterable[Borrowed], asked: Asked) -> Iterator[tuple[int, list[Borrowed]]]:
        """The pods that might help, the nearest relatives first: with each tier `OWN`, or the place of the
        queue that is above both in the claimant's chain.
        """
        tiers: dict[int, list[Borrowed]] = {}
        places = {name: place for place, name in enumerate(self._chain)}
        for pod in pods:
            if pod.queue == self._claimant.queue:
                if asked.preempt and pod.priority < self._claimant.priority:
                    tiers.setdefault(OWN, []).append(pod)
            elif asked.reclaim:
                place = next((places[name] for name in _names(self._tree, pod.queue) if name in places), None)
                if place is not None:
                    tiers.setdefault(place, []).append(pod)
        for place in sorted(tiers):
            yield place, tiers[place]

    def take(self, pods: Iterable[Borrowed], common: int) -> None:
        """Take of these pods until the claimant has room."""
        waiting: dict[str, list[Borrowed]] = {}
        for pod in sorted(pods, key=_rank, reverse=True):  # the last one is next
            waiting.setdefault(pod.queue, []).append(pod)
        firsts = [(self._key(queue, common), queue) for queue in waiting]
        heapq.heapify(firsts)
        while firsts and not self.has_room():
            key, queue = firsts[0]
            current = self._key(queue, common)
            if current != key:
                heapq.heapreplace(firsts, (current, queue))
                continue
            pod = waiting[queue].pop()
            if self._helps(pod) and self._may_go(pod, common):
                self._taken.append(pod)
                self._usage.add(pod.queue, _negative(pod.requests))
            if not waiting[queue]:
                heapq.heappop(firsts)

    def trimmed(self) -> tuple[Borrowed, ...]:
        """What is needed of what was taken. Who was taken last is left out first."""
        for pod in reversed(tuple(self._taken)):
            self._usage.add(pod.queue, pod.requests)
            if self.has_room():
                self._taken.remove(pod)
            else:
                self._usage.add(pod.queue, _negative(pod.requests))
        return tuple(self._taken)

    def give_back(self) -> None:
        """The search is over: what was taken counts again."""
        for pod in self._taken:
            self._usage.add(pod.queue, pod.requests)

    def has_room(self) -> bool:
        return self._usage.lack(self._claimant.queue, self._claimant.requests) is None

    def may_ask(self, common: int) -> bool:
        """Whether the claimant's queue, and those above it below the common one, deserve what it requests."""
        if common == OWN:
            return True
        side = map(self._standing, self._chain[:common])
        return asking_denial(side, requests=self._requests, short=self._short) is None

    def _helps(self, pod: Borrowed) -> bool:
        requests = dict(pod.requests)
        return any(
            requests.get(resource, 0) and (name, resource) in self._shortages
            for name in _names(self._tree, pod.queue)
            for resource in self._short
        )

    def _may_go(self, pod: Borrowed, common: int) -> bool:
        if common == OWN:
            return True
        side, victim = self._below(pod.queue, common), dict(pod.requests)
        asks, lends = self._chain[common - 1], side[-1] if side else pod.queue
        if self._tree.queues[lends].priority > self._tree.queues[asks].priority:
            return False
        if not side:  # it stands beside the queues below its own, and deserves nothing by itself
            return self._reclaimable(pod.queue)
        exchange = exchange_denial(
            self._standing(asks),
            self._standing(lends),
            requests=self._requests,
            victim=victim,
            short=self._short,
        )
        return exchange is None and all(self._lends(name, victim) for name in side)

    def _lends(self, name: str, victim: Amounts) -> bool:
        denial = lending_denial(
            self._standing(name),
            reclaimable=self._reclaimable(name),
            guarantee=self._usage.guarantees.get(name, {}),
            victim=victim,
            short=self._short,
        )
        return denial is None

    def _standing(self, name: str) -> Standing:
        return Standing(name, self._usage.used(name), self._deserved(name))

    def _below(self, queue: str, common: int) -> list[str]:
        """The queue, and those above it below the common one."""
        chain = _names(self._tree, queue)
        return chain[: chain.index(self._chain[max(common, 0)])]

    def _key(self, queue: str, common: int) -> tuple[tuple[float, float], ...]:
        """Where the queue stands: which uses the most of what it deserves is next, from the top down."""
        return tuple(self._over(name) for name in reversed(self._below(queue, common)))

    def _over(self, name: str) -> tuple[float, float]:
        """Of a short resource; what it does not list it deserves none of."""
        used, deserved, whole = self._usage.used(name), self._deserved(name), self._usage.whole
        listed = [used.get(each, 0) / deserved[each] for each in self._short if deserved.get(each)]
        parts = [
            float(used.get(each, 0) / whole[each]) if whole.get(each) else float(used.get(each, 0))
            for each in self._short
        ]
        return (-float(max(listed)) if listed else -float("inf")), -max(parts, default=0.0)


def _names(tree: Tree, queue: str) -> list[str]:
    return [each.name for each in tree.chain(queue).queues] if queue in tree else []


def _negative(requests: Requests) -> list[tuple[str, Amount]]:
    return [(resource, -amount) for resource, amount in requests]


def _rank(pod: Borrowed) -> tuple[bool, int, float, str]:
    """The smallest is next."""
    return pod.is_placed, pod.priority, -pod.since.timestamp(), pod.uid
