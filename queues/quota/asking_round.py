"""One round in which each pod that waits asks once for room, over as many looks as it takes (`giving_back`).

A look ends with its time slice. The next look goes on with the pods that were not asked yet. So a pod whose
search takes longer than a slice delays the others by one look each round.

| in this round a pod       | later in the round                                                           |
|---------------------------|------------------------------------------------------------------------------|
| has not asked             | asks; until then its class keeps what was set aside for it before            |
| was given room            | does not ask again; its room counts as used for the others that ask          |
| was denied                | does not ask again, nor do others of its class                               |
| was deferred: its victims | asks again, as soon as what it waits for is known                            |
| go with a later look      |                                                                              |

Invariants
- Each look asks at least one pod that has not asked in this round. So each round ends.
- A queue whose pods have asked does not ask again in the same round, and no more than `MOST_ASKING` of its
  pods ask: pods that keep coming to one queue do not delay the others.
- At the end of a round room is set aside for the pods that were given room in it, and for no others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping

from queues.quota.giving_back import AllowedTaking
from queues.quota.pod_classes import WaitingPod
from queues.quota.reclaim_preview import MOST_ASKING
from queues.quota.reservations import ReservationKey


class AskingRound:
    """For one thread. A class of pods is a queue with requests (`ReservationKey`)."""

    def __init__(self) -> None:
        #: The first pod of each class that was denied, and what its policies let it take.
        self.denied: dict[ReservationKey, tuple[WaitingPod, AllowedTaking]] = {}
        #: By queue, the UIDs of those that have asked.
        self._asked: dict[str, set[str]] = {}
        #: Queues whose pods have all asked.
        self._done: set[str] = set()
        #: The queues of those that ask again, by their UID.
        self._deferred: dict[str, str] = {}
        #: The classes of the pods for which room is set aside, by UID.
        self._given: dict[str, ReservationKey] = {}
        #: By class: for how many pods room is set aside.
        self._kept: Counter[ReservationKey] = Counter()

    def resume(
        self,
        reserved: Mapping[ReservationKey, int],
        *,
        queues: Collection[str],
        number_of: Callable[[ReservationKey], int],
    ) -> dict[ReservationKey, int]:
        """A look begins. Returns what counts as used by those that were given room, by class.

        `reserved`: for how many pods of each class room is set aside. `queues`: those with pods that may ask;
        what was denied or given in others is forgotten. `number_of`: how many pods of a class wait.
        """
        self.denied = {key: asked for key, asked in self.denied.items() if key[0] in queues}
        left = {key: min(number, number_of(key)) for key, number in reserved.items() if key[0] in queues}
        given, self._given, self._kept = self._given, {}, Counter()
        for uid, key in given.items():
            if left.get(key, 0) > 0:
                left[key] -= 1
                self._give(uid, key)
        return Counter(key for uid, key in self._given.items() if uid not in self._deferred)

    def keep(self, key: ReservationKey, number: int) -> int:
        """Keep room for so many pods of a class that is not known to lack it. Returns how many of these do
        not count as used yet.
        """
        more = max(0, number - self._kept[key])
        self._kept[key] += more
        return more

    def asks(self, pod: WaitingPod, *, again: bool) -> bool:
        """Whether the pod is to ask. `again`: also if it was deferred."""
        if pod.uid in self._deferred:
            return again
        if pod.queue in self._done:
            return False
        asked = self._asked.get(pod.queue, ())
        return pod.uid not in asked and len(asked) < MOST_ASKING

    def is_deferred(self, pod: WaitingPod) -> bool:
        return pod.uid in self._deferred

    def is_over(self, queue: str) -> bool:
        """Whether no pod of the queue asks any more in this round."""
        return queue in self._done and queue not in self._deferred.values()

    def finish(self, queue: str) -> None:
        """No pod of the queue asks any more, but those that were deferred."""
        self._done.add(queue)

    @property
    def has_asked(self) -> bool:
        """Whether somebody has asked in this round."""
        return bool(self._asked)

    def ask(self, pod: WaitingPod) -> None:
        """It asks now."""
        self._asked.setdefault(pod.queue, set()).add(pod.uid)
        self._deferred.pop(pod.uid, None)
        if (key := self._given.pop(pod.uid, None)) is not None:
            self._kept[key] -= 1

    def deny(self, pod: WaitingPod, asked: AllowedTaking) -> None:
        self.denied[_key(pod)] = pod, asked

    def give(self, pod: WaitingPod) -> None:
        """Its victims go."""
        self._give(pod.uid, _key(pod))

    def retain(self, pod: WaitingPod, reserved: Mapping[ReservationKey, int]) -> None:
        """It has room by now, or its victims go later: it keeps what was set aside before."""
        key = _key(pod)
        if self._kept[key] < reserved.get(key, 0):
            self._give(pod.uid, key)

    def _give(self, uid: str, key: ReservationKey) -> None:
        self._given[uid] = key
        self._kept[key] += 1

    def defer(self, pod: WaitingPod) -> None:
        """It asks again in this round."""
        self._deferred[pod.uid] = pod.queue

    def was_served(self, key: ReservationKey) -> bool:
        """Whether the class was not denied, and room is kept for it."""
        return key not in self.denied and self._kept[key] > 0

    def numbers(self, reserved: Mapping[ReservationKey, int], *, is_over: bool) -> dict[ReservationKey, int]:
        """For how many pods of each class room is set aside after this look. `is_over`: all have asked."""
        numbers = {key: number for key, number in self._kept.items() if number > 0}
        for key, number in {} if is_over else reserved.items():
            if key not in self.denied:
                numbers[key] = max(number, numbers.get(key, 0))
        return numbers


def _key(pod: WaitingPod) -> ReservationKey:
    return pod.queue, pod.requests
