"""The score of each node by a policy: the sum of what its plugins say, each times its weight.

Invariants
- The sum is Volcano's: binpack, and each part of `nodeorder` with a weight above 0; a part with weight 0 is
  not computed.
- A node that the table does not know scores 0 and is never better than one that it knows.
- The answer depends on the nodes of the call and the table alone, not on their order.

Source: Volcano's `util/scheduler_helper.go` (`PrioritizeNodes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from queues.policies.model import NodeOrder, Policy
from queues.scoring.kept_scores import KeptScores
from queues.scoring.node_matches import NodeMatches
from queues.scoring.node_table import NodeTable, View
from queues.scoring.preference_scores import image_scores, node_affinity_scores, taint_scores
from queues.scoring.preferences import LabelsByNamespace, PodPlacement
from queues.scoring.requests import ScoringRequest
from queues.scoring.resource_scores import (
    Rows,
    Scores,
    balanced_scores,
    binpack_scores,
    least_requested_scores,
    most_requested_scores,
)
from queues.scoring.topology_scores import pod_affinity_scores, spread_scores


class Scorer:
    """Scores the nodes of one table; used by one thread at a time."""

    def __init__(self, table: NodeTable, *, namespace_labels: LabelsByNamespace) -> None:
        self._table = table
        self._matches = NodeMatches()
        self._kept = KeptScores(table)
        self._namespace_labels = namespace_labels

    def scores(
        self, policy: Policy, nodes: Sequence[str], request: ScoringRequest, pod: PodPlacement
    ) -> Scores:
        """One score for each of the nodes: the sum of the `parts`."""
        view, position = self._table.snapshot()
        try:
            rows = view.rows_of(nodes)
        except KeyError:
            rows = view.select(nodes)
        else:  # mostly all are known
            return self._total(policy, view, position, rows, request, pod)
        known, total = rows >= 0, np.zeros(len(rows))
        total[known] = self._total(policy, view, position, rows[known], request, pod)
        return total

    def _total(
        self,
        policy: Policy,
        view: View,
        position: int,
        rows: Rows,
        request: ScoringRequest,
        pod: PodPlacement,
    ) -> Scores:
        """The parts of nodeorder are whole numbers: in which order they are added up makes no difference."""
        weights, binpack, total = policy.node_order, policy.binpack, np.zeros(len(rows))
        if weights is not None:
            if weights.least_requested or weights.most_requested or weights.balanced_resource:
                total = self._kept.scores(weights, request, view, position, rows)
            for score in self._preferences(weights, view, rows, pod).values():
                total += score
        if binpack is not None:
            packed = self._kept.scores(binpack, request, view, position, rows)
            total = packed if weights is None else packed + total
        return total

    def parts(
        self, policy: Policy, view: View, rows: Rows, request: ScoringRequest, pod: PodPlacement
    ) -> Mapping[str, Scores]:
        """What each part adds to the score of each row, its weight included; nothing is kept for it."""
        parts: dict[str, Scores] = {}
        if policy.binpack is not None:
            parts["binpack"] = binpack_scores(view, rows, request, policy.binpack)
        weights = policy.node_order
        if weights is None:
            return parts
        if weights.least_requested:
            least = least_requested_scores(view, rows, request)
            parts["leastrequested"] = weights.least_requested * least
        if weights.most_requested:
            parts["mostrequested"] = weights.most_requested * most_requested_scores(view, rows, request)
        if weights.balanced_resource:
            parts["balancedresource"] = weights.balanced_resource * balanced_scores(view, rows, request)
        parts.update(self._preferences(weights, view, rows, pod))
        return parts

    def _preferences(
        self, weights: NodeOrder, view: View, rows: Rows, pod: PodPlacement
    ) -> Mapping[str, Scores]:
        """The parts of nodeorder that do not depend on resources, each times its weight."""
        matches, classes = self._matches, self._table.classes
        parts: dict[str, Scores] = {}
        if weights.image_locality:
            parts["imagelocality"] = weights.image_locality * image_scores(view, rows, pod, matches)
        if weights.node_affinity:
            parts["nodeaffinity"] = weights.node_affinity * node_affinity_scores(view, rows, pod, matches)
        if weights.pod_affinity:
            parts["podaffinity"] = weights.pod_affinity * pod_affinity_scores(
                view, rows, pod, matches, classes, self._namespace_labels
            )
        if weights.taint_toleration:
            parts["tainttoleration"] = weights.taint_toleration * taint_scores(view, rows, pod, matches)
        if weights.pod_topology_spread:
            parts["podtopologyspread"] = weights.pod_topology_spread * spread_scores(
                view, rows, pod, matches, classes
            )
        return parts
