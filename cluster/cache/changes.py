"""The changes that the store passes to its listeners.

Changes are small values; two changes with the same meaning are equal:

| change                 | what has changed                                                          |
|------------------------|---------------------------------------------------------------------------|
| `QueueChange.SPEC`     | the queue's spec, or the spec of a queue above it                         |
| `QueueChange.RESYNC`   | something that all of the queue depends on, such as the namespaces that   |
|                        | it selects; or nothing, and all of it is to be looked at again            |
| `QueueChange.MEMBERS`  | nothing of each member, but all that wait are to be looked at again       |
| `QueueChange.STATUS`   | its status, or an object that its status counts                           |
| `QueueChange.COMMANDS` | the Commands that name it                                                 |
| `PodChange`            | one of its pods                                                           |
| `PodGroupChange`       | one of its PodGroups, or the pods of one                                  |
| `ClusterChange`        | something that concerns no single queue; it comes with `NO_QUEUE`         |
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from cluster.cache.podgroups import PodGroupKey

#: Stands for the queue of members that have none, since their PodGroup does not exist yet, and of what
#: concerns no single queue.
NO_QUEUE = ""


class QueueChange(Enum):
    """A change of the queue as a whole."""

    SPEC = auto()
    RESYNC = auto()
    MEMBERS = auto()
    STATUS = auto()
    COMMANDS = auto()


class ClusterChange(Enum):
    """`NAMESPACES`: one of the namespaces, or all of them. `NODES`: what all nodes have together. `DEVICES`:
    what all claims of devices count.
    """

    NAMESPACES = auto()
    NODES = auto()
    DEVICES = auto()


class PodChange(msgspec.Struct, frozen=True, gc=False):
    """A pod was added, changed or removed."""

    uid: str


class PodGroupChange(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup, or one of its pods, was added, changed or removed."""

    key: PodGroupKey


StoreChange = QueueChange | ClusterChange | PodChange | PodGroupChange
