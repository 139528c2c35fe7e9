"""Admitted edits of queues, and admitted namespaces that name a queue, that we have not seen stored yet.

Two edits of queues in quick succession may both be judged before the watch has brought the first. Each alone
makes no cycle and exceeds no sum, but both together may. So the second is judged as if the first were stored.
One manifest may contain a namespace and the objects in it: these follow a few milliseconds later.

Invariants
- Edits are judged one at a time: a handler holds `lock` from its first read to `record`.
- An edit is kept until the store shows its outcome. That is exact: the API server stores the edit on top of
  the version that was judged, or calls us again. An edit that is never stored, because another webhook denied
  it, is forgotten after `SECONDS`.
- A namespace is kept for `SECONDS`, with its labels. Once the store has a newer version than was edited, the
  store is used instead; for what is stored already, once the store has any version of it.
- At most `REMEMBERED` edits and `REMEMBERED_NAMESPACES` are kept; beyond, the oldest are dropped.
- A dry run is never recorded.

Threads: only request handlers write. Each holds `lock` for an edit; of namespaces each operation is one on a
dict.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import msgspec

from cluster.objects import QueueObject

#: Longer than the default time-out of other webhooks (10 s) and the delay of the watch.
SECONDS = 12.0
#: More than are admitted in that time.
REMEMBERED = 10_000
REMEMBERED_NAMESPACES = 1000
NO_LABELS: Mapping[str, str] = MappingProxyType({})


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
        if stored.metadata.uid != self.uid:
            return True
        if self.after is None:  # a finalizer keeps what is deleted
            return stored.metadata.deletion_timestamp is not None
        return stored.metadata.version > self.base


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

    def is_deleted(self, name: str) -> bool:
        """Return whether its latest edit is a deletion that may not be stored yet. Any thread may ask."""
        edit = self._latest.get(name)
        return edit is not None and edit.after is None and self._clock() < edit.at + SECONDS

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


class _PendingNamespace(msgspec.Struct, frozen=True):
    """`base`: the version that was edited; 0 for a new namespace. `at`: monotonic seconds.

    `binding`: the value of its annotation `sluice.dev/binding`.
    """

    queue: str
    base: int
    labels: Mapping[str, str]
    binding: str
    at: float


class PendingNamespaces:
    """The queue and the labels of each admitted namespace, before the watch brings it."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pending: dict[str, _PendingNamespace] = {}

    def record(
        self,
        namespace: str,
        queue: str,
        labels: Mapping[str, str] = NO_LABELS,
        *,
        base: int = 0,
        binding: str = "",
    ) -> None:
        """Record that a namespace is about to be stored that names this queue, or none. `base`: over what."""
        self._pending.pop(namespace, None)
        self._pending[namespace] = _PendingNamespace(queue, base, labels, binding, self._clock())
        while len(self._pending) > REMEMBERED_NAMESPACES:
            self._pending.pop(next(iter(self._pending)), None)

    def queue_of(self, namespace: str) -> str:
        """Return the queue that the namespace names; empty if unknown."""
        known = self._known(namespace)
        return known.queue if known is not None else ""

    def queue_after(self, namespace: str, stored: int) -> str | None:
        """Return the queue that the namespace names once an edit of this version of it, or of a later one, is
        stored, "" for none; None if no such edit is known.
        """
        known = self._known(namespace)
        return known.queue if known is not None and known.base >= stored else None

    def binding_after(self, namespace: str, stored: int) -> tuple[str, str] | None:
        """Return the queue that it names then, as `queue_after` does, with its `sluice.dev/binding`."""
        known = self._known(namespace)
        return (known.queue, known.binding) if known is not None and known.base >= stored else None

    def labels_of(self, namespace: str) -> Mapping[str, str] | None:
        """Return the labels of the namespace; None if unknown."""
        known = self._known(namespace)
        return known.labels if known is not None else None

    def _known(self, namespace: str) -> _PendingNamespace | None:
        known = self._pending.get(namespace)
        return known if known is not None and self._clock() < known.at + SECONDS else None
