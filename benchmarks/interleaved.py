"""Several ways measured in turns, as often as there is time for.

Every other round goes backwards, and every two begin with another way: what is left of one measurement
(heaps, caches, what was just installed) is not always felt by the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from benchmarks import scale
from localcluster.build import Say

T = TypeVar("T")


def in_turns(
    ways: Mapping[str, Callable[[], T]], *, told: Callable[[T], str], say: Say, usual: int = scale.USUAL
) -> dict[str, list[T]]:
    """What each way gave, round after round: the n-th of all are a pair. `told`: one of them in words;
    `usual`: how many rounds a run that is no trial makes.
    """
    seen: dict[str, list[T]] = {way: [] for way in ways}
    names = list(ways)
    for number in scale.rounds(usual):
        first = (number - 1) // 2 % len(names)
        order = names[first:] + names[:first]
        for way in order if number % 2 else reversed(order):
            seen[way].append(ways[way]())
            say(f"pair {number}: {way}: {told(seen[way][-1])}")
    return seen
