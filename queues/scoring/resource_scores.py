"""Scores of nodes by what is requested of their resources: binpack, least and most requested, balanced.

Each function gives one score for each row of a call, from 0 to 100 (binpack: times its weight), as Volcano
computes it for one node: whole numbers are divided as integers, fractions in the order of its formulae.
Sources: Volcano's `plugins/binpack/binpack.go`; Kubernetes' `plugins/noderesources`, which Volcano's
`nodeorder` calls with CPU and memory (balanced: `nvidia.com/gpu` too, for pods that request it).

A difference: Kubernetes 1.30 leaves the sidecars of running pods out of what least and most requested count
as used; later versions count them, and so do we.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from queues.policies.model import Binpack
from queues.scoring.node_table import CPU, MEMORY, Units, View
from queues.scoring.requests import Request

Scores = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

MAX_SCORE = 100
_GPU = "nvidia.com/gpu"


def binpack_scores(view: View, rows: Rows, request: Request, weights: Binpack) -> Scores:
    """The fuller a node gets, the better; 0 for a node with too little of any resource that counts."""
    requested = {name: units for name, units in _requested(request).items() if name in weights.resources}
    counted = [name for name in requested if name in view.columns and weights.resources[name]]
    if not counted:
        return np.zeros(len(rows))
    columns = _per_column(view.columns[name] for name in counted)
    capacity = _amounts(view.allocatable, rows, columns)
    used = _amounts(view.used, rows, columns) + _per_column(requested[name] for name in counted)
    exists = capacity > 0
    fits = (~exists | (used <= capacity)).all(axis=0)
    weighted = used.astype(np.float64) * _per_column(weights.resources[name] for name in counted)
    score = np.divide(weighted, capacity, out=np.zeros(used.shape), where=exists).sum(axis=0)
    score /= sum(weights.resources[name] for name in requested)
    score *= MAX_SCORE * weights.weight
    return np.where(fits, score, 0.0)


def least_requested_scores(view: View, rows: Rows, request: Request) -> Scores:
    """The more is left of CPU and memory, the better."""
    return _mean_of_shares(view, rows, request, least=True)


def most_requested_scores(view: View, rows: Rows, request: Request) -> Scores:
    """The less is left of CPU and memory, the better."""
    return _mean_of_shares(view, rows, request, least=False)


def _mean_of_shares(view: View, rows: Rows, request: Request, *, least: bool) -> Scores:
    """Over the resources that a node has. Kubernetes gives both the same weight, which cancels out."""
    columns = _per_column((CPU, MEMORY))
    capacity = _amounts(view.allocatable, rows, columns)
    used = _amounts(view.padded, rows, columns) + _per_column((request.padded_cpu, request.padded_memory))
    used = np.minimum(used, capacity)
    shares = (capacity - used if least else used) * MAX_SCORE // np.maximum(capacity, 1)
    count = (capacity > 0).sum(axis=0)
    mean: Scores = (shares.sum(axis=0) // np.maximum(count, 1)).astype(np.float64)
    return mean


def balanced_scores(view: View, rows: Rows, request: Request) -> Scores:
    """The more alike the used shares of the resources are, the better."""
    wanted = {CPU: request.cpu, MEMORY: request.memory}
    gpus = dict(request.others).get(_GPU, 0)
    if gpus and _GPU in view.columns:
        wanted[view.columns[_GPU]] = gpus
    columns = _per_column(wanted)
    capacity = _amounts(view.allocatable, rows, columns)
    used = (_amounts(view.used, rows, columns) + _per_column(wanted.values())).astype(np.float64)
    exists = capacity > 0
    shares = np.minimum(np.divide(used, capacity, out=np.zeros(used.shape), where=exists), 1.0)
    spread = _spread(shares, exists)
    return np.trunc((1 - spread) * MAX_SCORE)


def _spread(shares: Scores, exists: npt.NDArray[np.bool_]) -> Scores:
    """The standard deviation of the shares that exist, by node; of two, half of their difference."""
    if len(shares) == 2:
        return np.where(exists.all(axis=0), np.abs(shares[0] - shares[1]) / 2, 0.0)
    count = exists.sum(axis=0)
    divisor = np.maximum(count, 1)
    mean = shares.sum(axis=0) / divisor
    squares = np.where(exists, (shares - mean) ** 2, 0.0).sum(axis=0)
    high = np.where(exists, shares, -np.inf).max(axis=0)
    low = np.where(exists, shares, np.inf).min(axis=0)
    pairs = count == 2
    difference = np.subtract(high, low, out=np.zeros(len(count)), where=pairs)
    return np.where(pairs, difference / 2, np.sqrt(squares / divisor))


def _amounts(table: Units, rows: Rows, columns: Units) -> Units:
    """The same as `table[rows, columns]`, in a third of the time."""
    amounts: Units = table.take(rows * table.shape[1] + columns)
    return amounts


def _per_column(amounts: Iterable[int]) -> Units:
    """One amount for each row of an array that has a row for each resource."""
    return np.array([[amount] for amount in amounts], dtype=np.int64)


def _requested(request: Request) -> Mapping[str, int]:
    """The resources of which anything is requested."""
    amounts = {"cpu": request.cpu, "memory": request.memory, **dict(request.others)}
    return {resource: units for resource, units in amounts.items() if units}
