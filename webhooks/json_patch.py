"""JSON patches (RFC 6902) for the few places that we write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PatchStep = dict[str, Any]


def json_pointer(*keys: str | int) -> str:
    """The JSON pointer of a place (RFC 6901)."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)


def patch_map(
    place: str, held: Mapping[str, object] | None, wanted: Mapping[str, str | None]
) -> list[PatchStep]:
    """The steps that give the map at `place` the wanted entries; None removes one."""
    missing = {key: value for key, value in wanted.items() if value is not None}
    if held is None:
        return [{"op": "add", "path": place, "value": missing}] if missing else []
    steps: list[PatchStep] = []
    for key, value in wanted.items():
        path = place + json_pointer(key)
        if value is None and key in held:
            steps.append({"op": "remove", "path": path})
        elif value is not None and held.get(key) != value:
            steps.append({"op": "add", "path": path, "value": value})
    return steps
