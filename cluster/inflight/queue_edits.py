"""Edits of queues that we admitted and have not seen stored yet.

Two edits that come one after the other may both be judged before the watch has told of the first; each alone
makes no cycle and breaks no sum, and both together do. So the second is judged as if the first were stored.

Invariants
- Edits are judged one at a time: whoever judges holds `lock` from the first look to `record`.
- An edit is kept until the store tells what became of it. That is exact: the API server stores it as the
  version after the one that was judged, or asks us again. What it never stores, since another webhook
  refused it, stands in nobody's way for longer than `SECONDS`.
- A dry run is never noted.

Threads: request handlers, each holding `lock`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

import msgspec

from cluster.objects import QueueObject

#: Longer than the default time-out of other webhooks (10 s) and the delay of the watch.
SECONDS = 12.0
#: More than anybody admits in that time; beyond, the oldest are forgotten.
REMEMBERED = 10_000


class PendingQueueEdit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A queue as it will be, None if it is to be deleted; `at` is monotonic seconds.

    `uid` and `base`: which object, in which version, was edited; empty and 0 where it is new.
    """

    after: QueueObject | None
    uid: str
    base: int
    at: float

    def settled(self, stored: QueueObject | None) -> bool:
        """Whether what the store holds is newer than what was edited."""
        if stored is None:
            return self.after is None
        if not self.uid:
            return True
        return stored.metadata.uid != self.uid or (
            self.after is not None and stored.metadata.version > self.base
        )


class PendingQueueEdits:
    """The latest edit of each queue, by name. See the invariants above."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._latest: dict[str, PendingQueueEdit] = {}
        #: Held while an edit is judged and noted.
        self.lock = threading.Lock()

    def record(self, name: str, *, before: QueueObject | None, after: QueueObject | None) -> None:
        """An edit that was just admitted: from `before` (None: new) to `after` (None: deleted)."""
        while len(self._latest) >= REMEMBERED:
            del self._latest[next(iter(self._latest))]
        self._latest.pop(name, None)
        self._latest[name] = PendingQueueEdit(
            after=after,
            uid=before.metadata.uid if before else "",
            base=before.metadata.version if before else 0,
            at=self._clock(),
        )

    def pending(self, stored: Mapping[str, QueueObject]) -> dict[str, QueueObject | None]:
        """The queues that are not stored yet as they will be; the others are forgotten."""
        for name in list(self._settled_names(stored)):
            del self._latest[name]
        return {name: edit.after for name, edit in self._latest.items()}

    def _settled_names(self, stored: Mapping[str, QueueObject]) -> Iterator[str]:
        until = self._clock() - SECONDS
        return (
            name for name, edit in self._latest.items() if edit.at < until or edit.settled(stored.get(name))
        )
