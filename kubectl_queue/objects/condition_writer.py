"""Who wrote a condition, as the API server recorded it in `metadata.managedFields`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kubectl_queue.objects.fields import Object, value_at


def condition_writer(item: Object, kind: str) -> str:
    """The field manager that owns the message of the condition, or its reason where it has no message; ""
    where nobody is recorded, as of what the API server itself wrote when the object was created.
    """
    entries = list(_conditions(item, kind))
    for field in ("f:message", "f:reason"):
        for manager, owned in entries:
            if field in owned:
                return manager
    return ""


def _conditions(item: Object, kind: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The managers that own fields of the condition, with these fields."""
    key = f'k:{{"type":"{kind}"}}'
    for entry in value_at(item, "metadata.managedFields") or ():
        conditions = value_at(entry, "fieldsV1.f:status.f:conditions")
        if isinstance(conditions, dict) and isinstance(conditions.get(key), dict):
            yield str(entry.get("manager") or ""), conditions[key]
