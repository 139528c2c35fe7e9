"""Namespaces that name a queue, that we admitted, and that the watch has not told of yet; and their labels.

One file may hold a namespace and what goes into it: the second comes a few milliseconds after the first.

Invariants
- A name is kept for `SECONDS`; what the store knows of a namespace goes before it.
- At most `REMEMBERED` are kept; beyond, the oldest go.
Threads: request handlers alone write; each operation is one on a dict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

SECONDS = 12.0
REMEMBERED = 1000
NO_LABELS: Mapping[str, str] = MappingProxyType({})


class PendingNamespaces:
    """The queue that each of them names, and its labels."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pending: dict[str, tuple[str, float, Mapping[str, str]]] = {}

    def record(self, namespace: str, queue: str, labels: Mapping[str, str] = NO_LABELS) -> None:
        """One that names this queue is about to be stored."""
        self._pending.pop(namespace, None)
        self._pending[namespace] = (queue, self._clock(), labels)
        while len(self._pending) > REMEMBERED:
            self._pending.pop(next(iter(self._pending)), None)

    def queue_of(self, namespace: str) -> str:
        """The queue that it names; empty where none is known."""
        known = self._known(namespace)
        return known[0] if known is not None else ""

    def labels_of(self, namespace: str) -> Mapping[str, str] | None:
        """Its labels; None where it is not known."""
        known = self._known(namespace)
        return known[2] if known is not None else None

    def _known(self, namespace: str) -> tuple[str, float, Mapping[str, str]] | None:
        known = self._pending.get(namespace)
        return known if known is not None and self._clock() < known[1] + SECONDS else None
