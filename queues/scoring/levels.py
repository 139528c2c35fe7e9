"""Scores to the 0..10 that an extender may answer, without a change of the choice.

- The best node, and each that is equal to it, gets 10; no other does.
- The others get 0..9: of two, the better one never gets less, and gets more as long as ten levels can show
  it (with more than ten different scores, runs of neighbours share a level).

kube-scheduler multiplies by 10 and by the extender's weight, and adds its own plugins' scores. The choice is
ours if one level outweighs them: with the weight of 200 that manifests/scheduler has it is worth 2,000, and
kube-scheduler's plugins have at most 100 times the sum of their weights (14 in Kubernetes 1.36, so 1,400).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import numpy.typing as npt

BEST = 10
#: Numbers of different scores whose levels are cached, a byte for each score.
_CACHED = 256


def to_levels(scores: npt.NDArray[np.float64]) -> list[int]:
    """A level for each score; empty for none."""
    return levels_with_choice(scores, None)[0]


def levels_with_choice(
    scores: npt.NDArray[np.float64], choose: Callable[[int], int] | None
) -> tuple[list[int], int]:
    """The levels, and the place of the chosen score; -1 if none is.

    `choose`: takes one of so many equal best scores, by its number. Its level is then as if it were better
    than the others by the least possible amount. None: no score is chosen.
    """
    if not len(scores):
        return [], -1
    order = scores.argsort()
    ascending = scores.take(order)
    differs = ascending[1:] != ascending[:-1]
    # of each score, how many different ones are below it.
    place = np.zeros(len(scores), dtype=np.intp)
    np.add.accumulate(differs.astype(np.intp), out=place[1:])
    below, chosen = place.item(-1), -1
    if choose is not None:
        first = differs.tobytes().rfind(b"\x01") + 1  # of the best
        equal = len(scores) - first
        chosen = order.item(first + (choose(equal) if equal > 1 else 0))
        below += equal > 1
    levels = np.empty(len(scores), dtype=np.int8)
    levels[order] = _levels(below).take(place)
    if chosen >= 0:
        levels[chosen] = BEST
    return levels.tolist(), chosen


@lru_cache(maxsize=_CACHED)
def _levels(below: int) -> npt.NDArray[np.int8]:
    """The level of each different score in ascending order, where so many are below the best."""
    rank = np.arange(below - 1, -2, -1)  # 0: the best of the others
    levels = 9 - (rank if below <= BEST else rank * BEST // below)
    levels[below] = BEST
    return levels.astype(np.int8)
