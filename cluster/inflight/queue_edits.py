"""Edits of queues that we admitted and have not seen stored yet.

Two edits in quick succession may both be judged before the watch has brought the first. Each alone makes no
cycle and exceeds no sum, but both together may. So the second is judged as if the first were stored.

Invariants
- Edits are judged one at a time: a handler holds `lock` from its first read to `record`.
- An edit is kept until the store shows its outcome. That is exact: the API server stores the edit on top of
  the version that was judged, or calls us again. An edit that is never stored, because another webhook denied
  it, is forgotten after `SECONDS`.
- A dry run is never recorded.

Threads: request handlers, each of which holds `lock`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping

import msgspec

from cluster.objects import QueueObject

#: Longer than the default time-out of other webhooks (10 s) and the delay of the watch.
SECONDS = 12.0
#: More edits than are admitted in that time. Beyond, the oldest are forgotten.
REMEMBERED = 10_000


class PendingQueueEdit(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A queue as it will be stored; None if it is to be deleted. `at`: monotonic seconds.

    `uid` and `base`: the edited object and its version; empty and 0 for a new queue.
    """

    after: QueueObject | None
    uid: str
    base: int
    at: float

    def settled(self, stored: QueueObject | None) -> bool:
        """Return whether the stored object is newer than the edited one."""
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
        #: Held while an edit is judged and recorded.
        self.lock = threading.Lock()

    def record(self, name: str, *, before: QueueObject | None, after: QueueObject | None) -> None:
        """Record an admitted edit from `before` (None: a new queue) to `after` (None: deleted)."""
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
        """Return the queues that are not stored yet, as they will be; forget the settled edits."""
        for name in list(self._settled_names(stored)):
            del self._latest[name]
        return {name: edit.after for name, edit in self._latest.items()}

    def _settled_names(self, stored: Mapping[str, QueueObject]) -> Iterator[str]:
        until = self._clock() - SECONDS
        return (
            name for name, edit in self._latest.items() if edit.at < until or edit.settled(stored.get(name))
        )
