"""Scores of nodes by what is requested of their resources: binpack, least and most requested, balanced.

Each function gives one score for each row of a call, from 0 to 100 (binpack: times its weight), as Volcano
computes it for one node: whole numbers are divided as integers, fractions in the order of its formulae.
Sources: Volcano's `plugins/binpack/binpack.go`; Kubernetes' `plugins/noderesources`, which Volcano's
`nodeorder` calls with CPU and memory (balanced: `nvidia.com/gpu` too, for pods that request it).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from queues.policies.model import Binpack
from queues.scoring.node_table import CPU, MEMORY, View
from queues.scoring.requests import Request

Scores = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

MAX_SCORE = 100
_GPU = "nvidia.com/gpu"


def binpack_scores(view: View, rows: Rows, request: Request, weights: Binpack) -> Scores:
    """The fuller a node gets, the better; 0 for a node with too little of any resource that counts."""
    score = np.zeros(len(rows))
    fits = np.ones(len(rows), dtype=bool)
    weight_sum = 0
    for resource, units in _requested(request).items():
        weight = weights.resources.get(resource)
        if weight is None:
            continue
        weight_sum += weight
        column = view.columns.get(resource)
        if column is None or weight == 0:
            continue
        capacity = view.allocatable[rows, column]
        used = view.used[rows, column] + units
        exists = capacity > 0
        fits &= ~exists | (used <= capacity)
        score += np.divide(used.astype(np.float64) * weight, capacity, out=np.zeros(len(rows)), where=exists)
    if weight_sum:
        score /= weight_sum
    score *= MAX_SCORE * weights.weight
    return np.where(fits, score, 0.0)


def least_requested_scores(view: View, rows: Rows, request: Request) -> Scores:
    """The more is left of CPU and memory, the better."""
    return _mean_of_shares(view, rows, request, least=True, weight=50)


def most_requested_scores(view: View, rows: Rows, request: Request) -> Scores:
    """The less is left of CPU and memory, the better."""
    return _mean_of_shares(view, rows, request, least=False, weight=1)


def _mean_of_shares(view: View, rows: Rows, request: Request, *, least: bool, weight: int) -> Scores:
    total = np.zeros(len(rows), dtype=np.int64)
    weight_sum = np.zeros(len(rows), dtype=np.int64)
    for column, units in ((CPU, request.padded_cpu), (MEMORY, request.padded_memory)):
        capacity = view.allocatable[rows, column]
        used = np.minimum(view.padded[rows, column] + units, capacity)
        exists = capacity > 0
        share = (capacity - used if least else used) * MAX_SCORE // np.where(exists, capacity, 1)
        total += np.where(exists, share * weight, 0)
        weight_sum += np.where(exists, weight, 0)
    mean: Scores = (total // np.maximum(weight_sum, 1)).astype(np.float64)
    return mean


def balanced_scores(view: View, rows: Rows, request: Request) -> Scores:
    """The more alike the used shares of the resources are, the better."""
    columns = [(CPU, request.cpu), (MEMORY, request.memory)]
    gpus = dict(request.others).get(_GPU, 0)
    if gpus and _GPU in view.columns:
        columns.append((view.columns[_GPU], gpus))
    fractions, exists = [], []
    for column, units in columns:
        capacity = view.allocatable[rows, column]
        there = capacity > 0
        used = (view.used[rows, column] + units).astype(np.float64)
        share = np.divide(used, capacity, out=np.zeros(len(rows)), where=there)
        fractions.append(np.minimum(share, 1.0))
        exists.append(there)
    share, there = np.array(fractions), np.array(exists)
    count = there.sum(axis=0)
    mean = np.divide(share.sum(axis=0), count, out=np.zeros(len(rows)), where=count > 0)
    squares = np.where(there, (share - mean) ** 2, 0.0).sum(axis=0)
    spread = np.sqrt(np.divide(squares, count, out=np.zeros(len(rows)), where=count > 0))
    pairs = count == 2
    if pairs.any():
        high = np.where(there, share, -np.inf).max(axis=0)
        low = np.where(there, share, np.inf).min(axis=0)
        spread = np.where(pairs, (high - low) / 2, spread)
    spread = np.where(count > 1, spread, 0.0)
    score: Scores = np.trunc((1 - spread) * MAX_SCORE)
    return score


def _requested(request: Request) -> Mapping[str, int]:
    """The resources of which anything is requested."""
    amounts = {"cpu": request.cpu, "memory": request.memory, **dict(request.others)}
    return {resource: units for resource, units in amounts.items() if units}
