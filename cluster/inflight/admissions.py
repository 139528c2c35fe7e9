"""Objects that a webhook admitted and that have not been seen to arrive.

A pod, workload or PodGroup that was admitted may be stored at any moment after, or never: a later webhook
may be slow, or refuse it. A queue is not reported Closed while something that was admitted to it may still
come.

Each object carries the UID of the request that brought it (annotation `sluice.dev/admission`), which shows
that it has come. One that never comes is forgotten once the API server's time for a request has passed.

What a replica admitted that is gone now is unknown: for as long, anything may come to any queue
(`assume_any`).

Invariants
- An admission is recorded before the snapshot that decides it is read. So a thread that publishes a close and
  then finds no open admission knows that nothing admitted from the former snapshot is still on its way.
- Threads: request handlers open and drop, reflectors' threads close, the controller and the presence
  read. Each is one operation on a dict, which the interpreter does whole.
- Nothing is kept for longer than a request may take (`request_seconds`), however many never come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import islice

from cluster.inflight.binds import REQUEST_SECONDS
from cluster.objects import Metadata
from queues import labels as names

FORGOTTEN_AT_ONCE = 4


def admission_request(meta: Metadata) -> str:
    """The request that brought an object, as admission wrote it down; "" for what names none.

    Users can edit what is stored. They cannot guess the UID of another user's request. They can guess the key
    of a scale-up (`cluster.cache.workloads.scale_up_key`); it has slashes, which no UID has, and counts for
    nothing here.
    """
    text = meta.annotation(names.ADMISSION)
    return "" if "/" in text else text


class PendingAdmissions:
    """The open admissions, by the UID of their request."""

    def __init__(self, *, clock: Callable[[], float], request_seconds: float = REQUEST_SECONDS) -> None:
        self._clock = clock
        self.request_seconds = request_seconds
        #: Their queue, and when they were admitted.
        self._open: dict[str, tuple[str, float]] = {}
        self._assumed_until = float("-inf")

    def record(self, request: str, queue: str) -> None:
        """We are about to admit something to the queue."""
        now = self._clock()
        self._forget(now)
        self._open[request] = (queue, now)

    def withdraw(self, request: str) -> None:
        self._open.pop(request, None)

    def is_open(self, request: str, queue: str) -> bool:
        """Whether it is open for this queue: a webhook called again for one request keeps the first name."""
        open_queue, at = self._open.get(request, ("", 0.0))
        return open_queue == queue and at > self._clock() - self.request_seconds

    def close(self, request: str) -> None:
        if request:
            self._open.pop(request, None)

    def assume_any(self) -> None:
        """Somebody who is gone may have admitted something just now."""
        self._assumed_until = self._clock() + self.request_seconds

    @property
    def any_assumed(self) -> bool:
        return self._clock() < self._assumed_until

    def queues(self) -> frozenset[str]:
        """The queues that something may still come to."""
        since = self._clock() - self.request_seconds
        return frozenset(queue for queue, at in list(self._open.values()) if at > since)

    def any_open_in(self, queues: Collection[str]) -> bool:
        return self.any_assumed or not self.queues().isdisjoint(queues)

    def _forget(self, now: float) -> None:
        """The oldest come first; a few at each call are more than come with it."""
        for request, (_, at) in list(islice(self._open.items(), FORGOTTEN_AT_ONCE)):
            if at <= now - self.request_seconds:
                self._open.pop(request, None)
