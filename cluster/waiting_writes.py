"""The writes that wait for a thread: in which order they are sent. No threads, no clock.

Invariants
- At most one write for each key waits or is under way.
- Writes are sent by rank (`cluster.write_ranks`), then by `order`, then by arrival. One that is tried again
  arrives anew: those of its rank that were not tried yet come before it, so that many that fail hold up no
  other.
- No rank waits for ever: a write that has been ready for `longest_wait` goes before all others, in the order
  of arrival. Of these one is under way at a time, so that the other threads go on by rank.
- Of the writes of one lane, one at a time is under way. The others do not block writes of other lanes.
- A write that waits can be withdrawn, to be submitted with other content and another rank.

Owner: a `WriteQueue`, under its lock. Times are monotonic seconds.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from cluster.object_reference import ObjectReference
from cluster.write_ranks import WriteRank

WriteKey = tuple[str, Hashable]
SendWrite = Callable[[], object]
OnWritten = Callable[[bool], None]


class PendingWrite(msgspec.Struct, frozen=True, order=True):
    """A write that waits or is under way. `tries`: so far. `since`: when it was submitted. `order`: those of
    one rank must be comparable.
    """

    rank: WriteRank
    order: tuple[Any, ...]
    arrival: int
    key: WriteKey
    write: SendWrite
    done: OnWritten | None = None
    lane: Hashable = None
    queue: str | None = None
    subject: ObjectReference | None = None
    tries: int = 0
    since: float = 0.0


class WaitingWrites:
    """Those that wait, and those that are under way."""

    def __init__(self, *, longest_wait: float = math.inf) -> None:
        self._longest_wait = longest_wait
        #: By key. What is in one of the containers below and not in here was sent or withdrawn meanwhile.
        self._waiting: dict[WriteKey, PendingWrite] = {}
        self._under_way: dict[WriteKey, PendingWrite] = {}
        #: How many of each rank wait or are under way.
        self._ranks: Counter[WriteRank] = Counter()
        self._ready: list[PendingWrite] = []
        #: The same by arrival, with the time.
        self._arrived: deque[tuple[float, PendingWrite]] = deque()
        #: Those to be tried again, with their time; equal times are ordered by arrival.
        self._later: list[tuple[float, int, PendingWrite]] = []
        #: The lanes with a write under way, and the ready writes that wait for each of them.
        self._busy: set[Hashable] = set()
        self._blocked: dict[Hashable, list[PendingWrite]] = {}
        #: The write under way that was sent before its turn, since it had waited for too long.
        self._overdue: WriteKey | None = None

    def __contains__(self, key: WriteKey) -> bool:
        return key in self._waiting or key in self._under_way

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    @property
    def under_way(self) -> int:
        return len(self._under_way)

    def count_before(self, rank: WriteRank) -> int:
        """Return how many of smaller ranks wait or are under way."""
        return sum(count for each, count in self._ranks.items() if each < rank)

    def add(self, write: PendingWrite, *, now: float) -> None:
        """Have it wait. Its key must neither wait nor be under way."""
        self._ranks[write.rank] += 1
        self._waiting[write.key] = write
        self._make_ready(write, now=now)

    def withdraw(self, key: WriteKey) -> bool:
        """Drop the write of this key if it waits; returns whether it did."""
        write = self._waiting.pop(key, None)
        if write is not None:
            self._ranks[write.rank] -= 1
        return write is not None

    def first(self, *, now: float) -> PendingWrite | None:
        """Return the write to be sent next; None while none is ready."""
        while self._later and self._later[0][0] <= now:
            self._make_ready(heapq.heappop(self._later)[2], now=now)
        overdue = self._first_overdue(now)
        if overdue is not None:
            return overdue
        while self._ready:
            first = self._ready[0]
            if self._is_waiting(first) and self._is_free(first.lane):
                return first
            heapq.heappop(self._ready)
            if self._is_waiting(first):
                heapq.heappush(self._blocked.setdefault(first.lane, []), first)
        return None

    def seconds_until_due(self, *, now: float) -> float | None:
        """In how many seconds one that is to be tried again is ready; None where there is none."""
        return max(0.0, self._later[0][0] - now) if self._later else None

    def begin(self, write: PendingWrite) -> None:
        """Note that this one, which is the first, is under way."""
        if not self._ready or self._ready[0] is not write:
            self._overdue = write.key
        self._under_way[write.key] = self._waiting.pop(write.key)
        if write.lane is not None:
            self._busy.add(write.lane)

    def end(self, write: PendingWrite) -> None:
        """Note that it has ended for good."""
        self._ranks[write.rank] -= 1
        self._release(write)

    def put_back(self, write: PendingWrite, *, arrival: int, at: float) -> None:
        """Note that it has failed, and is to be tried again at that time."""
        self._release(write)
        again = msgspec.structs.replace(write, tries=write.tries + 1, arrival=arrival)
        self._waiting[write.key] = again
        heapq.heappush(self._later, (at, arrival, again))

    def clear(self) -> None:
        """Drop all that wait."""
        for key in list(self._waiting):
            self.withdraw(key)

    def _make_ready(self, write: PendingWrite, *, now: float) -> None:
        if self._is_waiting(write):
            heapq.heappush(self._ready, write)
            if self._longest_wait != math.inf:
                self._arrived.append((now, write))

    def _first_overdue(self, now: float) -> PendingWrite | None:
        while self._arrived and not self._is_waiting(self._arrived[0][1]):
            self._arrived.popleft()
        if not self._arrived or self._overdue is not None:
            return None
        arrived_at, write = self._arrived[0]
        is_overdue = now >= arrived_at + self._longest_wait and self._is_free(write.lane)
        return write if is_overdue else None

    def _is_waiting(self, write: PendingWrite) -> bool:
        return self._waiting.get(write.key) is write

    def _is_free(self, lane: Hashable) -> bool:
        return lane is None or lane not in self._busy

    def _release(self, write: PendingWrite) -> None:
        self._under_way.pop(write.key, None)
        if self._overdue == write.key:
            self._overdue = None
        self._busy.discard(write.lane)
        for blocked in self._blocked.pop(write.lane, ()):
            heapq.heappush(self._ready, blocked)
