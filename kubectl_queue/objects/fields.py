"""Objects of the API server as its JSON has them, and their fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queues.text import printable

Object = dict[str, Any]


def value_at(item: Object, path: str) -> Any:
    """The value at a dotted path, None where there is none."""
    value: Any = item
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def spec_of(item: Object) -> Mapping[str, Any]:
    return item.get("spec") or {}


def status_of(item: Object) -> Mapping[str, Any]:
    return item.get("status") or {}


def name_of(item: Object) -> str:
    return str(item["metadata"]["name"])


def generation_of(item: Object) -> int:
    return int(item["metadata"].get("generation") or 0)


def condition_of(item: Object, kind: str) -> Mapping[str, Any]:
    """The condition of a type; empty where there is none."""
    conditions = status_of(item).get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def condition_since(item: Object, kind: str) -> str:
    """When the condition got the status that it has (RFC 3339); "" where that is not there."""
    return printable(str(condition_of(item, kind).get("lastTransitionTime") or ""))


def annotations_of(item: Object) -> Mapping[str, str]:
    return value_at(item, "metadata.annotations") or {}


def labels_of(item: Object) -> Mapping[str, str]:
    return value_at(item, "metadata.labels") or {}


def controller_of(item: Object) -> Mapping[str, Any]:
    """The owner reference of the controller, which makes the object again; empty where there is none."""
    references = value_at(item, "metadata.ownerReferences") or ()
    return next((each for each in references if each.get("controller")), {})
