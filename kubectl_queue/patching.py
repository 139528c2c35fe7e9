"""JSON merge patch (RFC 7386), for what --dry-run=client prints."""

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
