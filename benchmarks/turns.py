"""Several ways measured in turns, as often as there is time for.

Each round begins with the way that was second in the one before: what is left of one measurement (heaps,
caches, what was just installed) is so felt by all of them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from benchmarks import sizes
from localcluster.building import Say

T = TypeVar("T")


def in_turns(
    ways: Mapping[str, Callable[[], T]], *, told: Callable[[T], str], say: Say, pairs: int = 0
) -> dict[str, list[T]]:
    """What each way gave, round after round: the n-th of all are a pair.

    `told`: one of them in words. `pairs`: how many rounds are wanted where that is more than usual.
    """
    seen: dict[str, list[T]] = {way: [] for way in ways}
    names = list(ways)
    for number in sizes.rounds(pairs):
        first = (number - 1) % len(names)
        for way in names[first:] + names[:first]:
            seen[way].append(ways[way]())
            say(f"pair {number}: {way}: {told(seen[way][-1])}")
    return seen
