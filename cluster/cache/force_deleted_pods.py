"""What pods of each queue use that were deleted by force, for as long as they count
(`queues.quota.force_deletion`).

Each replica hears of each deletion itself, so a new leader knows of them, too. Not known are deletions of
before this replica has listed the pods, and of those that a new list lacks: such pods count no longer.

Invariants
- What one deletion adds, counts until its end and not for longer; to the next whole second.
- Of what counts, a part is going: that of pods which a drain would still wait for (`seconds_going`).
- What an admin says has ended counts no longer (`have_ended`): an entry whose last deletion was until then.
  One with a later deletion counts on, whole.
- One entry for each queue and second: no more than the seconds of the longest time, however many are deleted.
- One writer: the pod reflector's thread; of what admins say, that of queues. What they write is never
  changed: readers on any thread copy in one step. What has ended is not read any more, and is dropped with
  the next deletion.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount
from queues.quota.force_deletion import seconds_going


class _Entry(NamedTuple):
    """What was deleted that counts until one second. `last`: the time of the last deletion."""

    amounts: Mapping[str, Amount]
    last: float


_NONE: Mapping[int, _Entry] = {}
_NOTHING = _Entry({}, -math.inf)


class _EndingAmounts:
    """By queue, amounts that count until a second."""

    def __init__(self) -> None:
        self.by_queue: dict[str, dict[int, _Entry]] = {}
        self.ends: list[tuple[int, str]] = []

    def add(self, queue: str, requests: Requests, *, end: int, now: float) -> None:
        of_queue = self.by_queue.setdefault(queue, {})
        if end not in of_queue:
            heapq.heappush(self.ends, (end, queue))
        amounts = dict(of_queue.get(end, _NOTHING).amounts)
        for resource, amount in requests:
            amounts[resource] = amounts.get(resource, 0) + amount
        of_queue[end] = _Entry(amounts, now)

    def drop_ended(self, now: float) -> None:
        while self.ends and self.ends[0][0] <= now:
            end, queue = heapq.heappop(self.ends)
            of_queue = self.by_queue[queue]
            del of_queue[end]
            if not of_queue:
                del self.by_queue[queue]

    def counting(self, queue: str, *, now: float, ended: float) -> dict[int, _Entry]:
        """By their ends. `ended`: what was deleted until then has."""
        entries = list(self.by_queue.get(queue, _NONE).items())
        return {end: entry for end, entry in entries if end > now and entry.last > ended}

    def together(self, queue: str, *, now: float, ended: float) -> dict[str, Amount]:
        total: dict[str, Amount] = {}
        for entry in self.counting(queue, now=now, ended=ended).values():
            for resource, amount in entry.amounts.items():
                total[resource] = total.get(resource, 0) + amount
        return total


class ForceDeletedPods:
    def __init__(self, *, clock: Callable[[], float], grace_limit: float) -> None:
        """`clock`: monotonic seconds. `grace_limit`: the setting `drain_grace_limit`."""
        self._clock = clock
        self._grace_limit = grace_limit
        self._counted = _EndingAmounts()
        self._going = _EndingAmounts()
        #: By queue, in monotonic seconds: what was deleted until then has ended, as an admin says.
        self._ended: dict[str, float] = {}

    def record(self, queue: str, requests: Requests, *, seconds: float) -> None:
        """A pod of the queue was deleted that counts for so long."""
        now = self._clock()
        going = seconds_going(seconds, grace_limit=self._grace_limit)
        for amounts, until in ((self._counted, seconds), (self._going, going)):
            amounts.drop_ended(now)
            amounts.add(queue, requests, end=math.ceil(now + until), now=now)

    def have_ended(self, queue: str, *, until: float) -> bool:
        """What was deleted in the queue until then, in monotonic seconds, has ended. Returns whether some of
        it has counted.
        """
        before = self._counting(queue)
        self._ended[queue] = max(until, self._ended_until(queue))
        return self._counting(queue) != before

    # Readers

    def queues(self) -> list[str]:
        """The queues that may have some."""
        return list(self._counted.by_queue)

    def used(self, queue: str) -> dict[str, Amount]:
        """What those of the queue use now, `PODS` among it."""
        return self._counted.together(queue, now=self._clock(), ended=self._ended_until(queue))

    def going(self, queue: str) -> dict[str, Amount]:
        """The part of that for which a drain would still wait."""
        return self._going.together(queue, now=self._clock(), ended=self._ended_until(queue))

    def next_end(self, queue: str) -> float:
        """When some of that counts no longer, in monotonic seconds; infinite where there is none."""
        return min(self._counting(queue), default=math.inf)

    def _counting(self, queue: str) -> dict[int, _Entry]:
        return self._counted.counting(queue, now=self._clock(), ended=self._ended_until(queue))

    def _ended_until(self, queue: str) -> float:
        return self._ended.get(queue, -math.inf)
