"""What has changed of a queue, as the store passes it to those who listen.

Changes are small values that are equal where they mean the same:

| change                 | what has changed                                                          |
|------------------------|---------------------------------------------------------------------------|
| `QueueChange.SPEC`     | its spec, the spec of a queue above it, or anything that all of it needs  |
| `QueueChange.STATUS`   | its status, or an object that its status counts                           |
| `QueueChange.COMMANDS` | the Commands that name it                                                 |
| `PodChange`            | one of its pods                                                           |
| `PodGroupChange`       | one of its PodGroups, or the pods of one                                  |
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from cluster.cache.podgroups import GroupKey


class QueueChange(Enum):
    """A change of the queue as a whole."""

    SPEC = auto()
    STATUS = auto()
    COMMANDS = auto()


class PodChange(msgspec.Struct, frozen=True, gc=False):
    """A pod came, changed or is gone."""

    uid: str


class PodGroupChange(msgspec.Struct, frozen=True, gc=False):
    """A PodGroup changed, or one of its pods."""

    key: GroupKey


Change = QueueChange | PodChange | PodGroupChange
