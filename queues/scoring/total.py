"""The score of each node by a policy: the sum of what its plugins say, each times its weight.

Invariants
- The sum is Volcano's: binpack, and each part of `nodeorder` with a weight above 0; a part with weight 0 is
  not computed.
- A node that the table does not know scores 0 and is never better than one that it knows.
- The answer depends on the nodes of the call and the table alone, not on their order.

Source: Volcano's `util/scheduler_helper.go` (`PrioritizeNodes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from queues.policies.model import NodeOrder, Policy
from queues.scoring.node_matches import NodeMatches
from queues.scoring.node_table import NodeTable, View
from queues.scoring.preference_scores import image_scores, node_affinity_scores, taint_scores
from queues.scoring.preferences import NamespaceLabels, PodPlacement
from queues.scoring.requests import Request
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

    def __init__(self, table: NodeTable, *, namespace_labels: NamespaceLabels) -> None:
        self._table = table
        self._matches = NodeMatches()
        self._namespace_labels = namespace_labels

    def scores(self, policy: Policy, nodes: Sequence[str], request: Request, pod: PodPlacement) -> Scores:
        """One score for each of the nodes."""
        view = self._table.view()
        rows = view.select(nodes)
        known = rows >= 0
        found = rows if known.all() else rows[known]
        total = np.zeros(len(found))
        for score in self.parts(policy, view, found, request, pod).values():
            total += score
        if found is rows:
            return total
        with_unknown = np.zeros(len(rows))
        with_unknown[known] = total
        return with_unknown

    def parts(
        self, policy: Policy, view: View, rows: Rows, request: Request, pod: PodPlacement
    ) -> Mapping[str, Scores]:
        """What each part adds to the score of each row, its weight included."""
        parts: dict[str, Scores] = {}
        if policy.binpack is not None:
            parts["binpack"] = binpack_scores(view, rows, request, policy.binpack)
        if policy.node_order is not None:
            parts.update(self._node_order(policy.node_order, view, rows, request, pod))
        return parts

    def _node_order(
        self, weights: NodeOrder, view: View, rows: Rows, request: Request, pod: PodPlacement
    ) -> Mapping[str, Scores]:
        matches, classes = self._matches, self._table.classes
        score: Mapping[str, tuple[int, Callable[[], Scores]]] = {
            "imagelocality": (weights.image_locality, lambda: image_scores(view, rows, pod, matches)),
            "leastrequested": (weights.least_requested, lambda: least_requested_scores(view, rows, request)),
            "mostrequested": (weights.most_requested, lambda: most_requested_scores(view, rows, request)),
            "balancedresource": (weights.balanced_resource, lambda: balanced_scores(view, rows, request)),
            "nodeaffinity": (weights.node_affinity, lambda: node_affinity_scores(view, rows, pod, matches)),
            "podaffinity": (
                weights.pod_affinity,
                lambda: pod_affinity_scores(view, rows, pod, matches, classes, self._namespace_labels),
            ),
            "tainttoleration": (weights.taint_toleration, lambda: taint_scores(view, rows, pod, matches)),
            "podtopologyspread": (
                weights.pod_topology_spread,
                lambda: spread_scores(view, rows, pod, matches, classes),
            ),
        }
        return {name: weight * part() for name, (weight, part) in score.items() if weight}
