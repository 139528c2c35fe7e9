"""Namespaces that name a queue, that we admitted, and that the watch has not told of yet.

One file may hold a namespace and what goes into it: the second comes a few milliseconds after the first.

Invariants
- A name is kept for `SECONDS`; what the store knows of a namespace goes before it.
- At most `REMEMBERED` are kept; beyond, the oldest go.
Threads: request handlers alone write; each operation is one on a dict.
"""

from __future__ import annotations

from collections.abc import Callable

SECONDS = 12.0
REMEMBERED = 1000


class ComingNamespaces:
    """The queue that each of them names."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._held: dict[str, tuple[str, float]] = {}

    def note(self, namespace: str, queue: str) -> None:
        """One that names this queue is about to be stored."""
        self._held.pop(namespace, None)
        self._held[namespace] = (queue, self._clock())
        while len(self._held) > REMEMBERED:
            self._held.pop(next(iter(self._held)), None)

    def queue_of(self, namespace: str) -> str:
        """The queue that it names; empty where none is known."""
        queue, at = self._held.get(namespace, ("", 0.0))
        return queue if queue and self._clock() < at + SECONDS else ""
