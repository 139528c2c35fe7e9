"""Room that is set aside for pods that wait, while others end to make it (`giving_back`).

| who looks for room              | what counts                                             |
|---------------------------------|---------------------------------------------------------|
| a pod for which it is set aside | what is used                                            |
| any other pod                   | what is used, and all that is set aside                 |

Invariants
- Nobody takes what was freed for another: what is set aside counts as used for all others, while those that
  make the room still count too.
- What is set aside allows nothing: who has it is released only once there is room without it.
- Room goes to pods of a class, by queue and requests, and among them to the first: who comes later and goes
  before the others takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from queues.apimachinery.quantities import Amount
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import Requests, Usage
from queues.quota.waiting_index import WaitingIndex

#: Pods of one queue with equal requests.
Key = tuple[str, Requests]


class Reservations:
    """For one thread. The use that it is given has all of them counted, but within its own calls."""

    def __init__(self) -> None:
        #: For how many pods, in the order in which they go.
        self._numbers: dict[Key, int] = {}

    def __bool__(self) -> bool:
        return bool(self._numbers)

    @property
    def numbers(self) -> Mapping[Key, int]:
        """For how many pods of each class."""
        return self._numbers

    def of_queue(self, queue: str) -> int:
        """For how many pods of this queue."""
        return sum(number for (name, _), number in self._numbers.items() if name == queue)

    def replace(self, numbers: Mapping[Key, int], usage: Usage) -> list[Key]:
        """Set room aside for so many, and for no others. Returns the classes that have less than before."""
        before = self._numbers
        self.take_from(usage)
        self._numbers = {key: number for key, number in numbers.items() if number > 0}
        self.add_to(usage)
        return [key for key, number in before.items() if self._numbers.get(key, 0) < number]

    def add_to(self, usage: Usage) -> None:
        """They count as used: of a use that was counted anew."""
        for (queue, requests), number in self._numbers.items():
            usage.add(queue, _times(requests, number))

    def take_from(self, usage: Usage) -> None:
        """They count no longer, until they are added again."""
        for (queue, requests), number in self._numbers.items():
            usage.add(queue, _times(requests, -number))

    def release(
        self, index: WaitingIndex, usage: Usage, *, most: int, goes_on: Callable[[], bool]
    ) -> Iterator[WaitingPod]:
        """Yield those for which there is room by now, at most so many pods; each counts, and is in the index
        no more. Nothing else may be done with `usage` before the last one.
        """
        self.take_from(usage)
        try:
            for queue, requests in tuple(self._numbers):
                while most > 0 and self._numbers.get((queue, requests)) and goes_on():
                    pod = index.first_of(queue, requests)
                    if pod is None or len(pod.uids) > most or usage.lack(queue, requests) is not None:
                        break
                    index.release(pod)
                    usage.add(queue, requests)
                    usage.unplaced += len(pod.uids)
                    most -= len(pod.uids)
                    self._use(queue, requests)
                    yield pod
        finally:
            self.add_to(usage)

    def _use(self, queue: str, requests: Requests) -> None:
        self._numbers[queue, requests] -= 1
        if not self._numbers[queue, requests]:
            del self._numbers[queue, requests]


def _times(requests: Requests, number: int) -> Collection[tuple[str, Amount]]:
    return [(resource, number * amount) for resource, amount in requests]
