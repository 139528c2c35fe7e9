"""Which classes of pods wait for room in which resource of which queue.

| what lacks (`LackKind`) | there may be room once                      | of one queue the first is      |
|-------------------------|---------------------------------------------|--------------------------------|
| CAPABILITY              | the queue uses no more than its capability  | the class that needs least     |
|                         | leaves beside the requests of the class     |                                |
| GUARANTEES, where a pod | the same of what is used and set aside      | the class that needs least     |
| adds all that it        | (`set_aside`)                               |                                |
| requests to that        |                                             |                                |
| any other, and by       | the queue uses less of the resource, or     | the class that was looked at   |
| claims of devices       | something else has changed (`look_at`)      | least recently                 |

Invariants
- A class has one subscription at most.
- To take what may have room costs what is taken, and not what waits.
- Of one queue no more are taken at once than asked for. The others stay due.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount
from queues.quota.lack import Lack, LackKind
from queues.quota.pod_classes import MIN_DROPPED, PodClass
from queues.quota.usage import Usage

#: A queue, one of its resources, and the kind of lack, if a number of that kind says whether there is room
#: (`Usage.amount_of`).
SubscriptionKey = tuple[str, str, LackKind | None]
#: Where it stands: of such a number the most that it may be, negative; else the round in which the class was
#: looked at. What it needs. Its requests.
Subscription = tuple[Amount, Amount, Requests]


class _OfQueue:
    """The subscribers of one queue. Dropped entries are left in the heap until they come up."""

    __slots__ = ("_heap", "classes")

    def __init__(self) -> None:
        self.classes: dict[Requests, tuple[Subscription, PodClass]] = {}
        self._heap: list[Subscription] = []

    def add(self, entry: Subscription, pods: PodClass) -> None:
        self.classes[pods.requests] = entry, pods
        heapq.heappush(self._heap, entry)
        if len(self._heap) > 2 * len(self.classes) + MIN_DROPPED:
            self._heap = [each for each, _ in self.classes.values()]
            heapq.heapify(self._heap)

    @property
    def first(self) -> Subscription | None:
        while self._heap:
            entry = self._heap[0]
            known = self.classes.get(entry[2])
            if known is not None and known[0] == entry:
                return entry
            heapq.heappop(self._heap)
        return None

    def take(self, *, until: Amount, most: int) -> list[PodClass]:
        taken: list[PodClass] = []
        while len(taken) < most and (entry := self.first) is not None and entry[0] <= until:
            heapq.heappop(self._heap)
            taken.append(self.classes.pop(entry[2])[1])
        return taken


class _OfKey:
    """The subscribers to one resource of one queue, by their own queue."""

    __slots__ = ("_firsts", "queues", "round")

    def __init__(self) -> None:
        self.queues: dict[str, _OfQueue] = {}
        #: How often there may have been room. Who was looked at in this round waits for the next one.
        self.round = 0
        #: The first entry of each queue; an outdated one is put right once it comes up.
        self._firsts: list[tuple[Subscription, str]] = []

    def add(self, entry: Subscription, pods: PodClass) -> None:
        queue = pods.line.queue
        of_queue = self.queues.setdefault(queue, _OfQueue())
        of_queue.add(entry, pods)
        if of_queue.first == entry:
            self._push(entry, queue)

    def _push(self, entry: Subscription, queue: str) -> None:
        heapq.heappush(self._firsts, (entry, queue))
        if len(self._firsts) > 2 * len(self.queues) + MIN_DROPPED:
            firsts = ((each.first, name) for name, each in self.queues.items())
            self._firsts = [(first, name) for first, name in firsts if first is not None]
            heapq.heapify(self._firsts)

    @property
    def first(self) -> tuple[Subscription, str] | None:
        while self._firsts:
            entry, queue = self._firsts[0]
            of_queue = self.queues.get(queue)
            current = of_queue.first if of_queue is not None else None
            if current == entry:
                return entry, queue
            heapq.heappop(self._firsts)
            if current is not None:
                heapq.heappush(self._firsts, (current, queue))
        return None

    def take(self, *, until: Amount, most: int) -> Iterator[list[PodClass]]:
        """By queue."""
        looked_at: set[str] = set()
        while (first := self.first) is not None and first[0][0] <= until:
            heapq.heappop(self._firsts)
            queue = first[1]
            if queue not in looked_at:
                looked_at.add(queue)
                yield self.queues[queue].take(until=until, most=most)
        for queue in looked_at:
            left = self.queues[queue].first
            if left is not None:
                self._push(left, queue)


class Subscriptions:
    """Owner: the index."""

    def __init__(self) -> None:
        self._by_key: dict[SubscriptionKey, _OfKey] = {}
        self._key_of: dict[PodClass, SubscriptionKey] = {}
        #: The resources of each queue in which no number says whether there is room.
        self._inexact: dict[str, set[str]] = {}
        #: Where there may be room for some class.
        self._fallen: set[SubscriptionKey] = set()

    @property
    def is_due(self) -> bool:
        return bool(self._fallen)

    def add(self, pods: PodClass, lack: Lack, *, amount: Amount | None) -> None:
        """`amount`: the number that says whether there is room, as it was when that was found to lack; None:
        there is none.
        """
        self.remove(pods)
        key = lack.queue, lack.resource, None if amount is None else lack.kind
        of_key = self._by_key.setdefault(key, _OfKey())
        need = next((amount for resource, amount in pods.requests if resource == lack.resource), 0)
        place = of_key.round if amount is None else lack.missing - amount
        of_key.add((place, need, pods.requests), pods)
        self._key_of[pods] = key
        if amount is None:
            self._inexact.setdefault(lack.queue, set()).add(lack.resource)

    def remove(self, pods: PodClass) -> None:
        key = self._key_of.pop(pods, None)
        if key is not None:
            del self._by_key[key].queues[pods.line.queue].classes[pods.requests]
            self._forget_empty(key, pods.line.queue)

    def fell(self, queue: str, resource: str) -> None:
        """The queue uses less of the resource."""
        for kind in (LackKind.CAPABILITY, LackKind.GUARANTEES):
            if (exact := (queue, resource, kind)) in self._by_key:
                self._fallen.add(exact)
        self._begin_round(queue, resource)

    def look_at(self, queue: str) -> None:
        """There may be room in the queue for another reason."""
        for resource in self._inexact.get(queue, ()):
            self._begin_round(queue, resource)

    def _begin_round(self, queue: str, resource: str) -> None:
        key = queue, resource, None
        of_key = self._by_key.get(key)
        if of_key is not None:
            of_key.round += 1
            self._fallen.add(key)

    def take(self, usage: Usage, *, most: int, pause: Callable[[], object] = lambda: None) -> list[PodClass]:
        """Remove and return the classes that may have room, now that so much is used; `most` of a queue.
        `pause`: called between two queues.
        """
        taken: list[PodClass] = []
        for key in list(self._fallen):
            of_key = self._by_key.get(key)
            if of_key is None:
                self._fallen.discard(key)
                continue
            queue, resource, kind = key
            until = of_key.round - 1 if kind is None else -usage.amount_of(kind, queue, resource)
            found: list[PodClass] = []
            for of_queue in of_key.take(until=until, most=most):
                found += of_queue
                pause()
            first = of_key.first
            if first is None or first[0][0] > until:
                self._fallen.discard(key)
            for pods in found:
                del self._key_of[pods]
            for queue in {pods.line.queue: None for pods in found}:
                self._forget_empty(key, queue)
            pause()
            taken += found
        return taken

    def _forget_empty(self, key: SubscriptionKey, queue: str) -> None:
        of_key = self._by_key.get(key)
        if of_key is None or queue not in of_key.queues or of_key.queues[queue].classes:
            return
        del of_key.queues[queue]
        if of_key.queues:
            return
        del self._by_key[key]
        self._fallen.discard(key)
        if key[2] is None:
            self._inexact[key[0]].discard(key[1])
            if not self._inexact[key[0]]:
                del self._inexact[key[0]]
