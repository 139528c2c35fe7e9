"""Pods that changed while their release was under way, or that may not be released: one that keeps changing,
or that an admission policy refuses, is tried less and less often.

Each try costs a write of the book and a patch that is refused. While such a pod is postponed, others may use
its room.
"""

from __future__ import annotations

import heapq
import math

import msgspec

from cluster.backoff import Backoff

#: The first change is of ourselves or of a scheduler, as a rule: the condition that says why the pod waits.
BACKOFF = Backoff(0.5, longest=30.0)
#: Pods of which it is remembered how often they changed; then all are forgotten.
MAX_REMEMBERED = 10_000


class _Voided(msgspec.Struct):
    times: int = 0
    until: float = -math.inf


class VoidedReleases:
    """For one thread. `now`: monotonic seconds."""

    def __init__(self) -> None:
        self._by_uid: dict[str, _Voided] = {}
        #: When which pod may be tried again; an outdated entry is dropped once it comes up.
        self._heap: list[tuple[float, str, str]] = []

    def record(self, uid: str, *, queue: str, now: float, seconds: float = 0.0) -> None:
        """Its release could not happen any more, since it has changed; or it was refused. `seconds`: it is
        not tried again before that.
        """
        if len(self._by_uid) >= MAX_REMEMBERED and uid not in self._by_uid:
            self._by_uid.clear()
        voided = self._by_uid.setdefault(uid, _Voided())
        voided.times += 1
        voided.until = now + max(seconds, BACKOFF.seconds(voided.times - 1))
        if voided.until > now:
            heapq.heappush(self._heap, (voided.until, queue, uid))

    def is_postponed(self, uid: str, *, now: float) -> bool:
        voided = self._by_uid.get(uid)
        return voided is not None and voided.until > now

    def postponed(self, now: float) -> set[str]:
        """The pods that are not to be tried now, by UID."""
        return {uid for _, _, uid in self._heap if self.is_postponed(uid, now=now)}

    def times(self, uid: str) -> int:
        """How often its release could not happen."""
        voided = self._by_uid.get(uid)
        return 0 if voided is None else voided.times

    def forget(self, uid: str) -> None:
        """It was released, or is gone."""
        self._by_uid.pop(uid, None)

    @property
    def due(self) -> float:
        """When one may be tried again."""
        return self._heap[0][0] if self._heap else math.inf

    def take_due(self, now: float) -> list[tuple[str, str]]:
        """Those that may be tried again, each with its queue first."""
        taken = []
        while self._heap and self._heap[0][0] <= now:
            _, queue, uid = heapq.heappop(self._heap)
            taken.append((queue, uid))
        return taken
