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

from collections.abc import Callable, Mapping

from queues.apimachinery.pod_requests import Requests
from queues.quota.ledger import AmountReason, Ledger
from queues.quota.pod_classes import WaitingPod
from queues.quota.waiting_index import WaitingIndex

#: Pods of one queue with equal requests.
ReservationKey = tuple[str, Requests]


class Reservations:
    """For one thread. The ledger has what is set aside (`AmountReason.SET_ASIDE`); here is for how many."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        #: For how many pods, in the order in which they go.
        self._numbers: dict[ReservationKey, int] = {}

    def __bool__(self) -> bool:
        return bool(self._numbers)

    @property
    def numbers(self) -> Mapping[ReservationKey, int]:
        """For how many pods of each class."""
        return self._numbers

    def replace(self, numbers: Mapping[ReservationKey, int]) -> None:
        """Set room aside for so many, and for no others."""
        before = self._numbers
        self._numbers = {key: number for key, number in numbers.items() if number > 0}
        for key in before.keys() | self._numbers.keys():
            self._count(*key)

    def release(self, index: WaitingIndex, *, most: int, goes_on: Callable[[], bool]) -> list[WaitingPod]:
        """Begin the release of those for which there is room by now, at most so many pods; they are in the
        index no more.
        """
        released: list[WaitingPod] = []
        usage = self._ledger.usage
        with self._ledger.together(), self._ledger.without(AmountReason.SET_ASIDE):
            for queue, requests in tuple(self._numbers):
                while most > 0 and self._numbers.get((queue, requests)) and goes_on():
                    pod = index.first_of(queue, requests)
                    if pod is None or pod.size > most or usage.lack(queue, requests) is not None:
                        break
                    index.release(pod)
                    self._ledger.begin(pod)
                    most -= pod.size
                    self._use(queue, requests)
                    released.append(pod)
        return released

    def _use(self, queue: str, requests: Requests) -> None:
        self._numbers[queue, requests] -= 1
        if not self._numbers[queue, requests]:
            del self._numbers[queue, requests]
        self._count(queue, requests)

    def _count(self, queue: str, requests: Requests) -> None:
        number = self._numbers.get((queue, requests), 0)
        amounts = [(resource, number * amount) for resource, amount in requests]
        self._ledger.set_one(queue, AmountReason.SET_ASIDE, requests, amounts)
