"""Scores by resources, kept for all nodes and brought up to date row by row.

What binpack and the resource parts of nodeorder give a node depends on the node's amounts, the pod's request
and the policy alone. Pods of one workload request the same, and between two of them few nodes change. So the
scores of all rows are kept for each pair of a request and weights, and only the rows that changed since are
computed anew.

Invariants
- A score is that of `resource_scores` for the amounts of the view it is asked for, or for newer ones.
- The scores of all rows are computed when a pair comes for the second time. So a pair that comes once costs
  the rows of its call, and no more.
- At most `LIMIT` pairs are kept; those that were used the longest time ago go first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

import numpy as np

from queues.policies.model import Binpack, NodeOrder
from queues.scoring.node_table import NodeTable, View
from queues.scoring.requests import ScoringRequest
from queues.scoring.resource_scores import BinpackFormula, Formula, NodeOrderFormula, Rows, Scores

#: Each has 8 bytes for a row of the table.
LIMIT = 64
#: So many rows are computed faster one by one than at once.
FEW_ROWS = 16

#: Weights by identity: their `_Pair` holds them, so that the number stays theirs.
_Key = tuple[int, ScoringRequest]


class _Pair:
    """The scores of all rows by one formula. `position`: of the table's changes that are in them."""

    def __init__(self, weights: Binpack | NodeOrder) -> None:
        self.weights = weights
        self.formula: Formula | None = None
        self.scores: Scores = np.zeros(0)
        self.position = -1
        self.shape: tuple[int, ...] = ()


class KeptScores:
    """Scores from one table; used by one thread at a time."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._pairs: OrderedDict[_Key, _Pair] = OrderedDict()

    def __len__(self) -> int:
        return len(self._pairs)

    def scores(
        self, weights: Binpack | NodeOrder, request: ScoringRequest, view: View, position: int, rows: Rows
    ) -> Scores:
        """One score for each of the rows. `position`: that of the view."""
        key = (id(weights), request)
        pair = self._pairs.get(key)
        if pair is None:
            self._pairs[key] = _Pair(weights)
            if len(self._pairs) > LIMIT:
                self._pairs.popitem(last=False)
            return _formula(weights, request, view).of_rows(view, rows)
        self._pairs.move_to_end(key)
        formula = pair.formula
        if formula is None or pair.shape != view.used.shape:
            changed = None
            formula = pair.formula = _formula(weights, request, view)
            pair.shape = view.used.shape
        else:
            changed = self._table.changed_rows(pair.position, position)
        if changed is None:
            pair.scores = formula.of_rows(view, np.arange(len(view.used)))
        else:
            _update(pair.scores, formula, view, changed)
        pair.position = position
        return pair.scores.take(rows)


def _formula(weights: Binpack | NodeOrder, request: ScoringRequest, view: View) -> Formula:
    if isinstance(weights, Binpack):
        return BinpackFormula(view.columns, request, weights)
    return NodeOrderFormula(view.columns, request, weights)


def _update(scores: Scores, formula: Formula, view: View, changed: Collection[int]) -> None:
    if len(changed) > FEW_ROWS:
        rows = np.fromiter(changed, dtype=np.intp, count=len(changed))
        scores[rows] = formula.of_rows(view, rows)
        return
    for row in changed:
        scores[row] = formula.of_row(view, row)
