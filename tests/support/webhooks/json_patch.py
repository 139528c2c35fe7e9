"""RFC 6902 as the API server applies it, as far as we write patches: strict where a place is not there."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any


def applied(patch: Sequence[dict[str, Any]], obj: Any) -> Any:
    """The object after the patch. Fails where the API server would."""
    result = copy.deepcopy(obj)
    for step in patch:
        parent, last = _place(result, step["path"])
        {"add": _add, "remove": _remove, "replace": _replace}[step["op"]](parent, last, step)
    return result


def _place(obj: Any, path: str) -> tuple[Any, str]:
    assert path.startswith("/"), path
    *way, last = [key.replace("~1", "/").replace("~0", "~") for key in path[1:].split("/")]
    for key in way:
        obj = obj[int(key)] if isinstance(obj, list) else obj[key]
        assert isinstance(obj, dict | list), f"{path}: nothing at {key}"
    return obj, last


def _add(parent: Any, last: str, step: dict[str, Any]) -> None:
    value = copy.deepcopy(step["value"])
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else int(last), value)
    else:
        parent[last] = value


def _remove(parent: Any, last: str, step: dict[str, Any]) -> None:
    del parent[int(last) if isinstance(parent, list) else last]


def _replace(parent: Any, last: str, step: dict[str, Any]) -> None:
    key = int(last) if isinstance(parent, list) else last
    assert parent[key] is not None or key in parent
    parent[key] = copy.deepcopy(step["value"])
