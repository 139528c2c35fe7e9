"""The changes that the store passes to its listeners.

Changes are small values; two changes with the same meaning are equal:

| change                 | what has changed                                                          |
|------------------------|---------------------------------------------------------------------------|
| `QueueChange.SPEC`     | the queue's spec, the spec of a queue above it, or something else that    |
|                        | makes all of the queue be reconciled                                      |
| `QueueChange.STATUS`   | its status, or an object that its status counts                           |
| `QueueChange.COMMANDS` | the Commands that name it                                                 |
| `PodChange`            | one of its pods                                                           |
| `PodGroupChange`       | one of its PodGroups, or the pods of one                                  |
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from cluster.cache.podgroups import PodGroupKey


class QueueChange(Enum):
    """A change of the queue as a whole."""

    SPEC = auto()
    STATUS = auto()
    COMMANDS = auto()


class PodChange(msgspec.Struct, frozen=True, gc=False):
    """A pod was added, changed or removed."""

    uid: str


class PodGroupChange(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup, or one of its pods, was added, changed or removed."""

    key: PodGroupKey


Change = QueueChange | PodChange | PodGroupChange
