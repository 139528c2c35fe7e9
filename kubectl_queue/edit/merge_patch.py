"""JSON merge patch (RFC 7386): applied, for what --dry-run=client prints, and made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def patched(target: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """The target with the patch applied; neither is changed. None removes."""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, Mapping):
            before = result.get(key)
            result[key] = patched(before if isinstance(before, Mapping) else {}, value)
        else:
            result[key] = value
    return result


def replacing(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that makes `after` of `before`, with nothing in it that is so already."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        present = before.get(key)
        if isinstance(value, Mapping) and isinstance(present, Mapping):
            inner = replacing(present, value)
            patch |= {key: inner} if inner else {}
        elif present != value:
            patch[key] = value
    return patch
