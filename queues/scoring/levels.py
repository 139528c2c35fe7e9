"""Scores to the 0..10 that an extender may answer, without a change of the choice.

- The best node, and each that is equal to it, gets 10; no other does.
- The others get 0..9: of two, the better one never gets less, and gets more as long as ten levels can show
  it (with more than ten different scores, runs of neighbours share a level).

kube-scheduler multiplies by 10 and by the extender's weight, and adds its own plugins' scores. The choice is
ours if one level outweighs them: with the weight of 200 that manifests/scheduler has it is worth 2,000, and
kube-scheduler's plugins have at most 100 times the sum of their weights (14 in Kubernetes 1.36, so 1,400).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BEST = 10


def to_levels(scores: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """A level for each score; empty for none."""
    if not len(scores):
        return np.zeros(0, dtype=np.int64)
    order = scores.argsort()
    ascending = scores[order]
    # of each score, how many different ones are below it.
    place = np.zeros(len(scores), dtype=np.int64)
    np.cumsum(ascending[1:] != ascending[:-1], out=place[1:])
    below = int(place[-1])
    rank = below - 1 - place  # 0: the best of the others
    ordered = 9 - (rank if below <= BEST else rank * BEST // below)
    ordered[place == below] = BEST
    levels = np.empty_like(ordered)
    levels[order] = ordered
    return levels
