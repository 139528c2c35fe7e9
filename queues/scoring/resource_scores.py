"""Scores of nodes by what is requested of their resources: binpack, least and most requested, balanced.

Each function gives one score for each row of a call, from 0 to 100 (binpack: times its weight), as Volcano
computes it for one node: whole numbers are divided as integers, fractions in the order of its formulae.
Sources: Volcano's `plugins/binpack/binpack.go`; Kubernetes' `plugins/noderesources`, which Volcano's
`nodeorder` calls with CPU and memory (balanced: `nvidia.com/gpu` too, for pods that request it).

A formula of one request and one policy is there twice: over many rows at once, and for a single row in plain
Python, which takes a twentieth of the time. Both give the same number, to the last bit: the plain one takes
the same steps in the same order, and turns whole numbers into floats where numpy does.

A difference: Kubernetes 1.30 leaves the sidecars of running pods out of what least and most requested count
as used; later versions count them, and so do we.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from queues.policies.model import Binpack, NodeOrder
from queues.scoring.node_table import CPU, MEMORY, Units, View
from queues.scoring.requests import ScoringRequest

Scores = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

MAX_SCORE = 100
_GPU = "nvidia.com/gpu"


class Formula(Protocol):
    """The scores that some weights give a request. The columns of the views are those it was made for."""

    def of_rows(self, view: View, rows: Rows) -> Scores: ...
    def of_row(self, view: View, row: int) -> float: ...


class BinpackFormula:
    """The fuller a node gets, the better; 0 for a node with too little of any resource that counts."""

    def __init__(self, columns: Mapping[str, int], request: ScoringRequest, weights: Binpack) -> None:
        resources = weights.resources
        requested = {name: units for name, units in _requested(request).items() if name in resources}
        counted = [name for name in requested if name in columns and resources[name]]
        self._terms = [(columns[name], requested[name], float(resources[name])) for name in counted]
        self._divisor = float(sum(resources[name] for name in requested))
        self._factor = float(MAX_SCORE * weights.weight)

    def of_rows(self, view: View, rows: Rows) -> Scores:
        if not self._terms:
            return np.zeros(len(rows))
        columns = _per_column(column for column, _, _ in self._terms)
        capacity = _amounts(view.allocatable, rows, columns)
        used = _amounts(view.used, rows, columns) + _per_column(units for _, units, _ in self._terms)
        exists = capacity > 0
        fits = (~exists | (used <= capacity)).all(axis=0)
        weighted = used.astype(np.float64) * np.array([[weight] for _, _, weight in self._terms])
        score = np.divide(weighted, capacity, out=np.zeros(used.shape), where=exists).sum(axis=0)
        score /= self._divisor
        score *= self._factor
        return np.where(fits, score, 0.0)

    def of_row(self, view: View, row: int) -> float:
        capacities, amounts = view.allocatable, view.used
        score = 0.0
        for column, units, weight in self._terms:
            capacity = capacities.item(row, column)
            if capacity > 0:
                used = amounts.item(row, column) + units
                if used > capacity:
                    return 0.0
                score += float(used) * weight / float(capacity)
        return score / self._divisor * self._factor if self._terms else 0.0


class NodeOrderFormula:
    """The parts of nodeorder that depend on resources, each times its weight; a whole number."""

    def __init__(self, columns: Mapping[str, int], request: ScoringRequest, weights: NodeOrder) -> None:
        self._request = request
        self._least, self._most = weights.least_requested, weights.most_requested
        self._balanced = weights.balanced_resource
        self._padded = ((CPU, request.padded_cpu), (MEMORY, request.padded_memory))
        self._wanted = tuple(_balanced_columns(columns, request).items())

    def of_rows(self, view: View, rows: Rows) -> Scores:
        score = np.zeros(len(rows))
        if self._least:
            score += self._least * least_requested_scores(view, rows, self._request)
        if self._most:
            score += self._most * most_requested_scores(view, rows, self._request)
        if self._balanced:
            score += self._balanced * balanced_scores(view, rows, self._request)
        return score

    def of_row(self, view: View, row: int) -> float:
        score = self._share_scores(view, row) if self._least or self._most else 0
        if self._balanced:
            score += self._balanced * self._balanced_score(view, row)
        return float(score)

    def _share_scores(self, view: View, row: int) -> int:
        """Least and most requested."""
        count = least = most = 0
        for column, units in self._padded:
            capacity = view.allocatable.item(row, column)
            if capacity > 0:
                used = view.padded.item(row, column) + units
                used = min(used, capacity)
                least += (capacity - used) * MAX_SCORE // capacity
                most += used * MAX_SCORE // capacity
                count += 1
        return self._least * (least // count) + self._most * (most // count) if count else 0

    def _balanced_score(self, view: View, row: int) -> int:
        shares: list[float] = []
        for column, units in self._wanted:
            capacity = view.allocatable.item(row, column)
            if capacity > 0:
                shares.append(min(float(view.used.item(row, column) + units) / float(capacity), 1.0))
        return math.trunc((1 - _spread_of(shares)) * MAX_SCORE)


def binpack_scores(view: View, rows: Rows, request: ScoringRequest, weights: Binpack) -> Scores:
    """The fuller a node gets, the better; 0 for a node with too little of any resource that counts."""
    return BinpackFormula(view.columns, request, weights).of_rows(view, rows)


def least_requested_scores(view: View, rows: Rows, request: ScoringRequest) -> Scores:
    """The more is left of CPU and memory, the better."""
    return _mean_of_shares(view, rows, request, least=True)


def most_requested_scores(view: View, rows: Rows, request: ScoringRequest) -> Scores:
    """The less is left of CPU and memory, the better."""
    return _mean_of_shares(view, rows, request, least=False)


def _mean_of_shares(view: View, rows: Rows, request: ScoringRequest, *, least: bool) -> Scores:
    """Over the resources that a node has. Kubernetes gives both the same weight, which cancels out."""
    columns = _per_column((CPU, MEMORY))
    capacity = _amounts(view.allocatable, rows, columns)
    used = _amounts(view.padded, rows, columns) + _per_column((request.padded_cpu, request.padded_memory))
    used = np.minimum(used, capacity)
    shares = (capacity - used if least else used) * MAX_SCORE // np.maximum(capacity, 1)
    count = (capacity > 0).sum(axis=0)
    mean: Scores = (shares.sum(axis=0) // np.maximum(count, 1)).astype(np.float64)
    return mean


def balanced_scores(view: View, rows: Rows, request: ScoringRequest) -> Scores:
    """The more alike the used shares of the resources are, the better."""
    wanted = _balanced_columns(view.columns, request)
    columns = _per_column(wanted)
    capacity = _amounts(view.allocatable, rows, columns)
    used = (_amounts(view.used, rows, columns) + _per_column(wanted.values())).astype(np.float64)
    exists = capacity > 0
    shares = np.minimum(np.divide(used, capacity, out=np.zeros(used.shape), where=exists), 1.0)
    spread = _spread(shares, exists)
    return np.trunc((1 - spread) * MAX_SCORE)


def _balanced_columns(columns: Mapping[str, int], request: ScoringRequest) -> Mapping[int, int]:
    """What is requested, by the columns that balanced counts."""
    wanted = {CPU: request.cpu, MEMORY: request.memory}
    gpus = dict(request.others).get(_GPU, 0)
    if gpus and _GPU in columns:
        wanted[columns[_GPU]] = gpus
    return wanted


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


def _spread_of(shares: Sequence[float]) -> float:
    """The same for one node: the shares that exist."""
    if len(shares) < 2:
        return 0.0
    if len(shares) == 2:
        return abs(shares[0] - shares[1]) / 2
    total = squares = 0.0
    for share in shares:  # no `sum`, which rounds in another way since Python 3.12
        total += share
    mean = total / len(shares)
    for share in shares:
        squares += (share - mean) * (share - mean)
    return math.sqrt(squares / len(shares))


def _amounts(table: Units, rows: Rows, columns: Units) -> Units:
    """The same as `table[rows, columns]`, in a third of the time."""
    amounts: Units = table.take(rows * table.shape[1] + columns)
    return amounts


def _per_column(amounts: Iterable[int]) -> Units:
    """One amount for each row of an array that has a row for each resource."""
    return np.array([[amount] for amount in amounts], dtype=np.int64)


def _requested(request: ScoringRequest) -> Mapping[str, int]:
    """The resources of which anything is requested."""
    amounts = {"cpu": request.cpu, "memory": request.memory, **dict(request.others)}
    return {resource: units for resource, units in amounts.items() if units}
