"""JSON patches (RFC 6902) for the few places that the webhooks write to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

PatchStep = dict[str, Any]


@lru_cache(maxsize=1024)
def json_pointer(*keys: str | int) -> str:
    """The JSON pointer of a place (RFC 6901)."""
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in keys)


def patch_map(
    place: str, current: Mapping[str, object] | None, wanted: Mapping[str, str | None]
) -> list[PatchStep]:
    """The steps that give the map at `place` the wanted entries; None removes one.

    `current`: the map as it is; None where there is none. What is right already gets no step.
    """
    if current is None:
        added = {key: value for key, value in wanted.items() if value is not None}
        return [{"op": "add", "path": place, "value": added}] if added else []
    steps: list[PatchStep] = []
    for key, value in wanted.items():
        if value is None and key in current:
            steps.append({"op": "remove", "path": place + json_pointer(key)})
        elif value is not None and current.get(key) != value:
            steps.append({"op": "add", "path": place + json_pointer(key), "value": value})
    return steps


def join_patches(*patches: Iterable[PatchStep]) -> tuple[PatchStep, ...]:
    """One patch of all steps, in this order."""
    return tuple(step for patch in patches for step in patch)
