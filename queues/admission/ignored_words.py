"""What Volcano reads of an object and we do not, and who is told.

| what Volcano reads                           | here                                              |
|----------------------------------------------|---------------------------------------------------|
| annotation `volcano.sh/hierarchy` of a Queue | ignored; who sets it is warned: use `spec.parent` |
| annotation `volcano.sh/hierarchy-weights`    | the same                                          |
| annotations `volcano.sh/jdb-*`               | ignored: drains keep to PodDisruptionBudgets      |
| two tiers of one `networkTopology`           | ignored, as all of it; there they are refused     |
| work in `root`                               | taken; refused there                              |
| work in a queue with queues below it         | taken; refused there                              |

Invariant: only an edit that sets or changes an annotation is warned of, so that a controller that writes the
object again and again is not.
"""

from __future__ import annotations

from collections.abc import Mapping

HIERARCHY = ("volcano.sh/hierarchy", "volcano.sh/hierarchy-weights")


def hierarchy_warnings(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """The admission warnings for the annotations of a Queue before and after an edit."""
    return tuple(
        f"annotation {key} has no effect: name the parent of the queue in spec.parent"
        for key in HIERARCHY
        if after.get(key) and after.get(key) != before.get(key)
    )
