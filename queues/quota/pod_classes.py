"""The pods of a queue that wait for room, class by class: pods of one queue with equal requests are a class.

Invariants
- The first pod of a class is the one that is next: of higher priority, then who has waited longest, then by
  UID.
- What is dropped from a heap is left in it until it comes up, or until more than half of it was dropped.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime

import msgspec

from queues.apimachinery.pod_requests import Requests
from queues.quota.lack import Lack
from queues.quota.usage import asks_for_turn

#: A heap has so many dropped entries at least before it is built again.
MIN_DROPPED = 64

#: The smallest is next.
Rank = tuple[int, datetime, str]


class WaitingPod(msgspec.Struct, frozen=True, gc=False):
    """A pod that waits for room. `requests`: as `quota_requests` gives them. `since`: its creation.

    Or the minimum of a gang, which is released whole (`gangs`): `uid` is that of the PodGroup, `requests` are
    those of all `pods` together.
    """

    uid: str
    queue: str
    requests: Requests
    priority: int
    since: datetime
    pods: tuple[str, ...] = ()

    @property
    def uids(self) -> tuple[str, ...]:
        """The pods that are released with it."""
        return self.pods or (self.uid,)

    @property
    def size(self) -> int:
        """How many pods are released with it."""
        return len(self.pods) or 1

    @property
    def rank(self) -> Rank:
        return -self.priority, self.since, self.uid


class SharedLack:
    """What was last told to pods that are blocked together, without resource and amount, and to which of them
    it was not told yet.
    """

    __slots__ = ("shown", "untold")

    def __init__(self) -> None:
        self.shown: Lack | None = None
        self.untold: set[str] = set()


class PodClass:
    """The pods of one queue with equal requests; never empty but for a moment. Owner: its line.

    `lack`: why it is blocked; None while it is open. `counted`: so many of its pods are in what all request.
    """

    __slots__ = (
        "_own_reason",
        "_ranks",
        "asks_for_turn",
        "counted",
        "entry",
        "lack",
        "line",
        "pods",
        "reason",
        "requests",
    )

    def __init__(self, line: Line, requests: Requests) -> None:
        self.line = line
        self.requests = requests
        self.asks_for_turn = asks_for_turn(requests)
        self.pods: dict[str, WaitingPod] = {}
        self._ranks: list[Rank] = []
        #: By which rank its line has it among the open classes; None: not at all, or it is empty.
        self.entry: Rank | None = None
        self.lack: Lack | None = None
        self.counted = 0
        self._own_reason = SharedLack()
        #: In a fifo queue that of the line, but for a class that holds up no other.
        self.reason = line.reason if line.is_fifo else self._own_reason

    def put(self, pod: WaitingPod) -> None:
        self.pods[pod.uid] = pod
        heapq.heappush(self._ranks, pod.rank)
        if len(self._ranks) > 2 * len(self.pods) + MIN_DROPPED:
            self._ranks = [each.rank for each in self.pods.values()]
            heapq.heapify(self._ranks)

    def put_first(self, pods: Sequence[WaitingPod]) -> None:
        """The first pods of an empty class."""
        self.pods = {pod.uid: pod for pod in pods}
        self._ranks = sorted([pod.rank for pod in pods])

    def add_untold(self, uids: Collection[str]) -> None:
        """These pods were not told why they wait."""
        for reason in (self._own_reason, self.reason):
            reason.untold.update(uids)

    def discard(self, uid: str) -> None:
        """Drop the pod. Its rank is left until it comes up."""
        for reason in (self._own_reason, self.line.reason):
            reason.untold.discard(uid)
        del self.pods[uid]

    def take_own_reason(self) -> None:
        """In a fifo queue: it holds up no other class, and has a reason of its own. Pods that were told that
        before are told again only if they were told the reason of the line since.
        """
        own, of_line = self._own_reason, self.line.reason
        if self.reason is own:
            return
        if not of_line.untold.issuperset(self.pods):
            own.shown = None
        of_line.untold.difference_update(self.pods)
        self.reason = own

    def take_reason_of_line(self) -> None:
        """In a fifo queue: it may hold up other classes, or waits behind one that does."""
        if self.reason is not self.line.reason:
            self.reason = self.line.reason
            self.reason.untold.update(self.pods)

    def forget_reason(self) -> None:
        """Its queue has another strategy: its pods are told again."""
        self._own_reason = SharedLack()
        self.reason = self.line.reason if self.line.is_fifo else self._own_reason
        self.reason.untold.update(self.pods)

    @property
    def rank(self) -> Rank:
        """Of the pod that is next. A pod has the same rank for as long as it is there."""
        while (rank := self._ranks[0])[2] not in self.pods:
            heapq.heappop(self._ranks)
        return rank

    @property
    def head(self) -> WaitingPod:
        """The pod that is next."""
        return self.pods[self.rank[2]]


class Line:
    """The pods of one queue, class by class. Owner: the index. `closed_by`: the class that closes the queue,
    where its strategy is fifo.
    """

    __slots__ = ("_numbers", "_open", "classes", "closed_by", "is_fifo", "queue", "reason")

    def __init__(self, queue: str, *, is_fifo: bool) -> None:
        self.queue = queue
        self.is_fifo = is_fifo
        self.classes: dict[Requests, PodClass] = {}
        self.closed_by: PodClass | None = None
        self.reason = SharedLack()
        #: The first pod of each open class, by rank; an outdated rank is put right once it comes up. The
        #: number makes entries comparable.
        self._open: list[tuple[Rank, int, PodClass]] = []
        self._numbers = itertools.count()

    @property
    def first(self) -> PodClass | None:
        """The open class whose pod is next; None if no pod is to be looked at."""
        if self.closed_by is not None:
            return None
        while self._open:
            entry, _, pods = self._open[0]
            if pods.entry is not entry:
                heapq.heappop(self._open)
            elif pods.lack is not None:
                pods.entry = None
                heapq.heappop(self._open)
            elif (rank := pods.rank) is not entry:
                pods.entry = rank
                heapq.heapreplace(self._open, (rank, next(self._numbers), pods))
            else:
                return pods
        return None

    def open(self, pods: PodClass) -> None:
        """The class is to be looked at."""
        pods.lack = None
        if self.closed_by is pods:
            self.closed_by = None
        if self.is_fifo:
            pods.take_reason_of_line()
        rank = pods.rank
        if pods.entry is not rank:
            pods.entry = rank
            heapq.heappush(self._open, (rank, next(self._numbers), pods))
            if len(self._open) > 2 * len(self.classes) + MIN_DROPPED:
                self._open = [entry for entry in self._open if entry[2].entry is entry[0]]
                heapq.heapify(self._open)

    def set_strategy(self, *, is_fifo: bool) -> None:
        """Open all classes, with this strategy from now on."""
        if is_fifo != self.is_fifo:
            self.is_fifo = is_fifo
            self.reason = SharedLack()
            for pods in self.classes.values():
                pods.forget_reason()
        self.closed_by = None
        for pods in self.classes.values():
            self.open(pods)

    def held_uids(self) -> Iterator[str]:
        """The pods of the class that closes the queue, and those behind it."""
        for pods in self.classes.values():
            if pods.reason is self.reason:
                yield from pods.pods

    def uids(self) -> Iterator[str]:
        for pods in self.classes.values():
            yield from pods.pods

    def lack_of(self, pods: PodClass) -> Lack | None:
        """Its own lack; else that of the class which closes the queue."""
        if pods.lack is not None or self.closed_by is None:
            return pods.lack
        return self.closed_by.lack
