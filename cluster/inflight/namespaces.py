"""Admitted namespaces that name a queue and that the watch has not brought yet, with their labels.

One manifest may contain a namespace and the objects in it: these follow a few milliseconds later.

Invariants
- A namespace is kept for `SECONDS`. If the store has the namespace, the store is used instead.
- At most `REMEMBERED` namespaces are kept; beyond, the oldest are dropped.

Threads: only request handlers write; each operation is one on a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

SECONDS = 12.0
REMEMBERED = 1000
NO_LABELS: Mapping[str, str] = MappingProxyType({})


class PendingNamespaces:
    """The queue and the labels of each admitted namespace."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pending: dict[str, tuple[str, float, Mapping[str, str]]] = {}

    def record(self, namespace: str, queue: str, labels: Mapping[str, str] = NO_LABELS) -> None:
        """Record that a namespace that names this queue is about to be stored."""
        self._pending.pop(namespace, None)
        self._pending[namespace] = (queue, self._clock(), labels)
        while len(self._pending) > REMEMBERED:
            self._pending.pop(next(iter(self._pending)), None)

    def queue_of(self, namespace: str) -> str:
        """Return the queue that the namespace names; empty if unknown."""
        known = self._known(namespace)
        return known[0] if known is not None else ""

    def labels_of(self, namespace: str) -> Mapping[str, str] | None:
        """Return the labels of the namespace; None if unknown."""
        known = self._known(namespace)
        return known[2] if known is not None else None

    def _known(self, namespace: str) -> tuple[str, float, Mapping[str, str]] | None:
        known = self._pending.get(namespace)
        return known if known is not None and self._clock() < known[1] + SECONDS else None
