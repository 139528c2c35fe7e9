"""Pods that changed while their release was under way, or that may not be released: one that keeps changing,
or that an admission policy refuses, is tried less and less often.

Each try costs a write of the book and a patch that is refused. While such a pod is postponed, others may use
its room.

The table is no part of `controller.requests.RequestTables`: what keeps changing a pod does so in any term.
"""

from __future__ import annotations

from cluster.backoff import Backoff
from controller.requests import RequestState, RequestTable

#: The first change is of ourselves or of a scheduler, as a rule: the condition that says why the pod waits.
BACKOFF = Backoff(0.5, longest=30.0)
#: Pods of which it is remembered how often they changed; then all are forgotten.
MAX_REMEMBERED = 10_000


class _Voided(RequestState, kw_only=True):
    queue: str = ""


class VoidedReleases:
    """For one thread. `now`: monotonic seconds."""

    def __init__(self) -> None:
        self._releases = RequestTable(_Voided)

    def record(self, uid: str, *, queue: str, now: float, seconds: float = 0.0) -> None:
        """Its release could not happen any more, since it has changed; or it was refused. `seconds`: it is
        not tried again before that.
        """
        if len(self._releases) >= MAX_REMEMBERED and uid not in self._releases:
            self._releases.clear()
        wait = max(seconds, BACKOFF.seconds(self._releases.failures(uid)))
        self._releases.refuse(uid, now=now, seconds=wait).queue = queue

    def is_postponed(self, uid: str, *, now: float) -> bool:
        return self._releases.is_postponed(uid, now=now)

    def postponed(self, now: float) -> frozenset[str]:
        """The pods that are not to be tried now, by UID."""
        return self._releases.postponed(now)

    def times(self, uid: str) -> int:
        """How often its release could not happen."""
        return self._releases.failures(uid)

    def forget(self, uid: str) -> None:
        """It was released, or is gone."""
        self._releases.forget(uid)

    @property
    def due(self) -> float:
        """When one may be tried again."""
        return self._releases.due

    def take_due(self, now: float) -> list[tuple[str, str]]:
        """Those that may be tried again, each with its queue first."""
        return [(state.queue, uid) for uid, state in self._releases.take_due(now)]
