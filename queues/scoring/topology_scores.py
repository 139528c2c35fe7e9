"""Scores by where other pods are: preferred pod affinity and anti-affinity, topology spread.

One score from 0 to 100 for each row of a call, normalised over the nodes of the call. Sources: Kubernetes'
`plugins/interpodaffinity` and `plugins/podtopologyspread`, as Volcano's `nodeorder` calls them (hard terms
of running pods have no weight; the default constraints of kube-scheduler hold for pods without any).

A difference: the default constraints spread the pods of one ReplicaSet, ReplicationController or StatefulSet.
Kubernetes also spreads pods that only a Service selects; Services are not watched here.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from queues.apimachinery.label_selectors import Selector
from queues.scoring.node_matches import Flags, NodeMatches
from queues.scoring.node_table import View
from queues.scoring.pod_classes import PodClass, PodClasses
from queues.scoring.preferences import (
    PREFER_NO_SCHEDULE,
    NamespaceLabels,
    PodPlacement,
    SpreadConstraint,
    spread_selector,
)
from queues.scoring.resource_scores import MAX_SCORE, Rows, Scores

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
_ANYWAY = "ScheduleAnyway"
#: What kube-scheduler spreads pods by that have no constraint of their own.
DEFAULT_CONSTRAINTS = (
    SpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=_ANYWAY, max_skew=3),
    SpreadConstraint(topology_key=ZONE, when_unsatisfiable=_ANYWAY, max_skew=5),
)

_Numbers = npt.NDArray[np.int64]


def pod_affinity_scores(
    view: View,
    rows: Rows,
    pod: PodPlacement,
    matches: NodeMatches,
    classes: PodClasses,
    namespace_labels: NamespaceLabels,
) -> Scores:
    """The sum of the weights of the preferred terms, the pod's and those of running pods, by domain."""
    own = pod.preferred_pods
    by_label = any(term.by_label is not None for term in own)
    named = {namespace for term in own for namespace in term.namespaces}
    concerned = {one.key: one for one in classes.with_terms()}
    if own:
        concerned.update((one.key, one) for one in classes.of_namespaces(None if by_label else named))
    labels_here = namespace_labels(pod.namespace)
    totals: dict[str, _Numbers] = {}
    for one in concerned.values():
        weights: dict[str, int] = {}
        for term in own:
            if term.matches(one.namespace, one.labels, namespace_labels(one.namespace) if by_label else None):
                weights[term.topology_key] = weights.get(term.topology_key, 0) + term.weight
        for term in one.terms:
            if term.matches(pod.namespace, pod.labels, labels_here):
                weights[term.topology_key] = weights.get(term.topology_key, 0) + term.weight
        for key, weight in weights.items():
            _add_by_domain(totals, key, weight, one, view, matches)
    if not totals or not len(rows):
        return np.zeros(len(rows))
    score = np.zeros(len(rows), dtype=np.int64)
    for key, total in totals.items():
        of_row = matches.domains(view, key).of_row[rows]
        score += np.where(of_row >= 0, total[of_row], 0)
    least, most = int(score.min()), int(score.max())
    if most == least:
        return np.zeros(len(rows))
    return np.trunc(MAX_SCORE * ((score - least) / float(most - least)))


def _add_by_domain(
    totals: dict[str, _Numbers], key: str, weight: int, one: PodClass, view: View, matches: NodeMatches
) -> None:
    domains = matches.domains(view, key)
    for node, count in list(one.nodes.items()):
        row = view.rows.get(node)
        domain = domains.of_row[row] if row is not None else -1
        if domain >= 0:
            total = totals.get(key)
            if total is None:
                total = totals[key] = np.zeros(domains.count, dtype=np.int64)
            total[domain] += weight * count


def spread_scores(
    view: View, rows: Rows, pod: PodPlacement, matches: NodeMatches, classes: PodClasses
) -> Scores:
    """The fewer pods of its kind are in a node's domains already, the better; 0 without soft constraints."""
    constraints = [one for one in pod.spread if one.when_unsatisfiable == _ANYWAY]
    strict = bool(pod.spread)
    if not pod.spread and pod.spread_by:
        constraints = list(DEFAULT_CONSTRAINTS)
    if not constraints or not len(rows):
        return np.zeros(len(rows))
    everywhere = np.array([facts is not None for facts in view.facts])
    if strict:  # nodes that lack one of the keys are not scored, nor are their pods counted
        for one in constraints:
            everywhere &= matches.domains(view, one.topology_key).of_row >= 0
    candidate = everywhere[rows]
    score = np.zeros(len(rows))
    for one in constraints:
        counts, size = _pods_of_kind(one, view, rows, pod, matches, classes, everywhere, candidate)
        has_label = matches.domains(view, one.topology_key).of_row[rows] >= 0
        weight = math.log(size + 2)
        score += np.where(has_label, counts * weight + (one.max_skew - 1), 0.0)
    rounded = np.floor(score + 0.5).astype(np.int64)
    return _normalised(rounded, candidate)


def _normalised(score: _Numbers, candidate: Flags) -> Scores:
    if not candidate.any():
        return np.zeros(len(score))
    least, most = int(score[candidate].min()), max(0, int(score[candidate].max()))
    if most == 0:
        return np.where(candidate, float(MAX_SCORE), 0.0)
    return np.where(candidate, MAX_SCORE * (most + least - score) // most, 0).astype(np.float64)


def _pods_of_kind(
    constraint: SpreadConstraint,
    view: View,
    rows: Rows,
    pod: PodPlacement,
    matches: NodeMatches,
    classes: PodClasses,
    everywhere: Flags,
    candidate: Flags,
) -> tuple[_Numbers, int]:
    """How many pods of the kind are in the domain of each row, and how many domains the candidates have."""
    of_kind = _kind(constraint, pod)
    by_node = np.zeros(len(view.facts), dtype=np.int64)
    for one in classes.of_namespaces([pod.namespace]):
        if not one.terminating and of_kind(one):
            for node, count in list(one.nodes.items()):
                row = view.rows.get(node)
                if row is not None:
                    by_node[row] += count
    if constraint.topology_key == HOSTNAME:
        return by_node[rows], int(candidate.sum())
    domains = matches.domains(view, constraint.topology_key)
    counted = everywhere & _included(constraint, view, pod, matches)
    # nodes without the label are a domain of their own, the last one
    of_row = np.where(domains.of_row >= 0, domains.of_row, domains.count)
    total = np.bincount(of_row[counted], weights=by_node[counted], minlength=domains.count + 1)
    return total[of_row[rows]].astype(np.int64), len(np.unique(of_row[rows][candidate]))


def _kind(constraint: SpreadConstraint, pod: PodPlacement) -> Callable[[PodClass], bool]:
    if not pod.spread:
        return lambda one: one.spread_by == pod.spread_by
    selector: Selector | None = spread_selector(constraint, pod.labels)
    return lambda one: selector is not None and selector.selects(one.labels)


def _included(constraint: SpreadConstraint, view: View, pod: PodPlacement, matches: NodeMatches) -> Flags:
    """The nodes whose pods count: by default those that the pod's own node affinity lets it go to."""
    included = np.ones(len(view.facts), dtype=bool)
    if constraint.node_affinity_policy in (None, "Honor"):
        if pod.node_selector:
            included &= matches.selector(view, pod.node_selector)
        if pod.required_nodes is not None:
            any_term = np.zeros(len(view.facts), dtype=bool)
            for term in pod.required_nodes:
                any_term |= matches.term(view, term)
            included &= any_term
    if constraint.node_taints_policy == "Honor":
        hard = tuple(one for one in pod.tolerations if one.effect != PREFER_NO_SCHEDULE)
        included &= matches.intolerable(view, hard, soft=False) == 0
    return included
