"""The fields that Volcano reads and we do not, and who is told. Labels and annotations: `queues.metadata`.

| what Volcano reads                           | here                                              |
|----------------------------------------------|---------------------------------------------------|
| two tiers of one `networkTopology`           | ignored, as all of it; there they are refused     |
| `weight` of a Queue                          | a share with plugin `proportion` alone; it is said |
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
