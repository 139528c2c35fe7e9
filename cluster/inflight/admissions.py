"""Objects that a webhook admitted and that have not been seen stored yet.

A pod, workload or PodGroup that was admitted may be stored at any later moment, or never: a later webhook may
be slow, or deny it. A queue is not reported Closed while an object that was admitted to it may still be
stored.

Each object carries the UID of its admission request (annotation `sluice.dev/admission`), by which it is
recognised when the watch brings it. An admission whose object never comes is forgotten once the API server's
request time-out has passed.

What a replica that is gone had admitted is unknown. So for the same time an object may come to any queue
(`assume_any`).

Invariants
- An admission is recorded before the snapshot that decides it is read. So a thread that publishes a close and
  then sees no open admission knows that nothing admitted by the former snapshot is still on its way.
- Threads: request handlers record and withdraw, reflectors' threads close, the controller and the replica's
  Lease read. Each is one operation on a dict, which the interpreter does in one step.
- Nothing is kept for longer than a request may take (`request_seconds`), however many objects never come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice

from cluster.inflight.binds import REQUEST_SECONDS
from cluster.objects import Metadata
from queues import well_known

FORGOTTEN_AT_ONCE = 4


def admission_request(meta: Metadata) -> str:
    """Return the request that brought an object, as admission recorded it; "" if it has none.

    Users can edit a stored object. They cannot guess the UID of another user's request. They can guess the
    key of a scale-up (`cluster.cache.workloads.scale_up_key`); it contains slashes, which no UID does, and is
    ignored here.
    """
    text = meta.annotation(well_known.ADMISSION)
    return "" if "/" in text else text


class PendingAdmissions:
    """The open admissions, by the UID of their request."""

    def __init__(self, *, clock: Callable[[], float], request_seconds: float = REQUEST_SECONDS) -> None:
        self._clock = clock
        self.request_seconds = request_seconds
        #: By request: its queue, and when it was admitted.
        self._open: dict[str, tuple[str, float]] = {}
        self._assumed_until = float("-inf")

    def record(self, request: str, queue: str) -> None:
        """Record that we are about to admit an object to the queue."""
        now = self._clock()
        self._forget(now)
        self._open[request] = (queue, now)

    def withdraw(self, request: str) -> None:
        self._open.pop(request, None)

    def is_open(self, request: str, queue: str) -> bool:
        """Return whether the request is open for this queue: a webhook called again keeps the first one."""
        open_queue, at = self._open.get(request, ("", 0.0))
        return open_queue == queue and at > self._clock() - self.request_seconds

    def close(self, request: str) -> None:
        if request:
            self._open.pop(request, None)

    def assume_any(self) -> None:
        """Assume that a replica that is gone admitted an object to any queue just now."""
        self._assumed_until = self._clock() + self.request_seconds

    @property
    def any_assumed(self) -> bool:
        return self._clock() < self._assumed_until

    def queues(self) -> frozenset[str]:
        """Return the queues in which an admitted object may still be stored."""
        since = self._clock() - self.request_seconds
        return frozenset(queue for queue, at in list(self._open.values()) if at > since)

    def any_open_in(self, queues: Collection[str]) -> bool:
        return self.any_assumed or not self.queues().isdisjoint(queues)

    def _forget(self, now: float) -> None:
        """Drop a few expired admissions, the oldest first: more than one for each that is recorded."""
        for request, (_, at) in list(islice(self._open.items(), FORGOTTEN_AT_ONCE)):
            if at <= now - self.request_seconds:
                self._open.pop(request, None)
