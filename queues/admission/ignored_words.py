"""What Volcano reads of an object and we do not, and who is told.

| what Volcano reads                           | here                                              |
|----------------------------------------------|---------------------------------------------------|
| annotation `volcano.sh/hierarchy` of a Queue | ignored; who sets it is warned: use `spec.parent` |
| annotation `volcano.sh/hierarchy-weights`    | the same                                          |
| annotations `volcano.sh/jdb-*`               | ignored: drains keep to PodDisruptionBudgets      |
| two tiers of one `networkTopology`           | ignored, as all of it; there they are refused     |
| `weight` of a Queue                          | orders, and gives no share; who sets it is warned |
| `extendClusters` of a Queue                  | ignored; who sets it is warned                    |
| work in `root`                               | taken; refused there                              |
| work in a queue with queues below it         | taken; refused there                              |

Invariant: only an edit that sets or changes an annotation or a field is warned of, so that a controller that
writes the object again and again is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queues.fields.table import FIELDS

HIERARCHY = ("volcano.sh/hierarchy", "volcano.sh/hierarchy-weights")


def hierarchy_warnings(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """The admission warnings for the annotations of a Queue before and after an edit."""
    return tuple(
        f"annotation {key} has no effect: name the parent of the queue in spec.parent"
        for key in HIERARCHY
        if after.get(key) and after.get(key) != before.get(key)
    )


def field_warnings(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[str, ...]:
    """The admission warnings for fields that do not do what people expect of them (`QueueField.notice`).

    `before`, `after`: the spec as JSON has it.
    """
    return tuple(
        f"spec.{row.name} {row.notice.text}"
        for row in FIELDS
        if row.notice is not None
        and _is_said(value := after.get(row.name))
        and value not in row.notice.unless
        and value != before.get(row.name)
    )


def _is_said(value: Any) -> bool:
    """Whether a value says anything: an object of empty objects does not."""
    if isinstance(value, Mapping):
        return any(map(_is_said, value.values()))
    return value is not None and value not in ("", [])
