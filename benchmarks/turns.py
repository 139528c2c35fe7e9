"""Several ways measured in turns, as often as there is time for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from benchmarks import sizes
from localcluster.building import Say

T = TypeVar("T")


def in_turns(
    ways: Mapping[str, Callable[[], T]], *, told: Callable[[T], str], say: Say
) -> dict[str, list[T]]:
    """What each way gave, round after round: the n-th of all are a pair. `told`: one of them in words."""
    seen: dict[str, list[T]] = {way: [] for way in ways}
    for number in sizes.rounds():
        for way, measured in ways.items():
            seen[way].append(measured())
            say(f"pair {number}: {way}: {told(seen[way][-1])}")
    return seen
