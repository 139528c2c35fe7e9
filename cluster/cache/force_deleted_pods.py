"""What pods of each queue use that were deleted by force, for as long as they count
(`queues.quota.force_deletion`).

Each replica hears of each deletion itself, so a new leader knows of them, too. Not known are deletions of
before this replica has listed the pods, and of those that a new list lacks: such pods count no longer.

Invariants
- What one deletion adds, counts until its end and not for longer; to the next whole second.
- One entry for each queue and second: no more than the seconds of the longest time, however many are deleted.
- One writer: the pod reflector's thread. What it writes is never changed: readers on any thread copy in one
  step. What has ended is not read any more, and is dropped with the next deletion.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping

from queues.apimachinery.quantities import Amount
from queues.quota.usage import Requests

_NONE: Mapping[int, Mapping[str, Amount]] = {}


class ForceDeletedPods:
    def __init__(self, *, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        #: By queue and the second in which it ends.
        self._by_queue: dict[str, dict[int, Mapping[str, Amount]]] = {}
        self._ends: list[tuple[int, str]] = []

    def record(self, queue: str, requests: Requests, *, seconds: float) -> None:
        """A pod of the queue was deleted that counts for so long."""
        now = self._clock()
        self._drop_ended(now)
        end = math.ceil(now + seconds)
        of_queue = self._by_queue.setdefault(queue, {})
        if end not in of_queue:
            heapq.heappush(self._ends, (end, queue))
        amounts = dict(of_queue.get(end, {}))
        for resource, amount in requests:
            amounts[resource] = amounts.get(resource, 0) + amount
        of_queue[end] = amounts

    def _drop_ended(self, now: float) -> None:
        while self._ends and self._ends[0][0] <= now:
            end, queue = heapq.heappop(self._ends)
            of_queue = self._by_queue[queue]
            del of_queue[end]
            if not of_queue:
                del self._by_queue[queue]

    # Readers

    def queues(self) -> list[str]:
        """The queues that may have some."""
        return list(self._by_queue)

    def used(self, queue: str) -> dict[str, Amount]:
        """What those of the queue use now, `PODS` among it."""
        now, total = self._clock(), dict[str, Amount]()
        for end, amounts in list(self._by_queue.get(queue, _NONE).items()):
            if end > now:
                for resource, amount in amounts.items():
                    total[resource] = total.get(resource, 0) + amount
        return total

    def next_end(self, queue: str) -> float:
        """When some of that counts no longer, in monotonic seconds; infinite where there is none."""
        now = self._clock()
        return min((end for end in list(self._by_queue.get(queue, _NONE)) if end > now), default=math.inf)
