"""Gangs that got too few nodes before are tried one at a time in each scope. A scope is the queue whose
capability they share; and, for those with pods on nodes, the cluster (`CLUSTER`), since these hold what the
others lack. A gang that no node takes has no part in that.

Of those that have room the gang goes next whose queue had its turn least recently; of one queue, the one that
has waited longest. So one queue with many such gangs has no more turns than another one of its scope.

Invariant: no turn of a queue delays a gang of another scope.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

#: The scope of all gangs with pods on nodes. No queue has this name.
CLUSTER = ""


class GangTurns:
    """For one thread. `taken`: the scopes of which a gang is being tried."""

    def __init__(self) -> None:
        self.taken: frozenset[str] = frozenset()
        #: Which turn each queue had last, of all.
        self._last: dict[str, int] = {}
        self._numbers = itertools.count(1)

    def take(self, scopes: Iterable[str], queue: str) -> None:
        """A gang of the queue is tried."""
        self.taken = self.taken.union(scopes)
        self._last[queue] = next(self._numbers)

    def last(self, queue: str) -> int:
        """Its last turn; 0: it had none."""
        return self._last.get(queue, 0)
