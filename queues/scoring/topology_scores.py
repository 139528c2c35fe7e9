"""Scores by where other pods are: preferred pod affinity and anti-affinity, topology spread.

One score from 0 to 100 for each row of a call, normalised over the nodes of the call. Sources: Kubernetes'
`plugins/interpodaffinity` and `plugins/podtopologyspread`, as Volcano's `nodeorder` calls them (hard terms
of running pods have no weight; the default constraints of kube-scheduler hold for pods without any).

A difference: the default constraints spread the pods of one ReplicaSet, ReplicationController or StatefulSet.
Kubernetes also spreads pods that only a Service selects; Services are not watched here.

A call compares at most `CHECK_LIMIT` terms with classes of pods, and what is beyond does not count: so a
pod with many terms, or a namespace with many unlike pods, does not make others wait. The pod's own terms go
first, then the terms of pods of its own namespace: no other namespace can take their share.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from queues.apimachinery.label_selectors import Selector
from queues.scoring.node_matches import NodeFlags, NodeMatches
from queues.scoring.node_table import View
from queues.scoring.pod_classes import PodClasses, ScoringPodClass
from queues.scoring.preferences import (
    PREFER_NO_SCHEDULE,
    SCHEDULE_ANYWAY,
    SKEW_LIMIT,
    LabelsByNamespace,
    PodPlacement,
    SpreadConstraint,
    WeightedPodTerm,
    spread_selector,
)
from queues.scoring.resource_scores import MAX_SCORE, Rows, Scores

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
#: Comparisons of a term with a class of pods, a microsecond or two each.
CHECK_LIMIT = 20_000
#: Nodes of a class that are counted in the time of one such comparison.
_NODES_A_CHECK = 4
#: What kube-scheduler spreads pods by that have no constraint of their own.
DEFAULT_CONSTRAINTS = (
    SpreadConstraint(topology_key=HOSTNAME, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=3),
    SpreadConstraint(topology_key=ZONE, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=5),
)

_Numbers = npt.NDArray[np.int64]


def pod_affinity_scores(
    view: View,
    rows: Rows,
    pod: PodPlacement,
    matches: NodeMatches,
    classes: PodClasses,
    namespace_labels: LabelsByNamespace,
) -> Scores:
    """The sum of the weights of the preferred terms, the pod's and those of running pods, by domain."""
    totals: dict[str, _Numbers] = {}
    checks = _Checks()
    for one, weights in _weights(pod, classes, namespace_labels, checks):
        if not checks.allow(len(one.nodes) // _NODES_A_CHECK):
            break
        at, number = _where(one, view)
        for key, weight in weights.items():
            domains = matches.domains(view, key)
            if domains.count:
                total = totals.setdefault(key, np.zeros(domains.count + 1, dtype=np.int64))
                np.add.at(total, domains.of_row[at], weight * number)  # the last: nodes without the label
    if not totals or not len(rows):
        return np.zeros(len(rows))
    score = np.zeros(len(rows), dtype=np.int64)
    for key, total in totals.items():
        total[-1] = 0
        score += total[matches.domains(view, key).of_row[rows]]
    least, most = int(score.min()), int(score.max())
    if most == least:
        return np.zeros(len(rows))
    return np.trunc(MAX_SCORE * ((score - least) / float(most - least)))


class _Checks:
    """What is left of the work that a call may cause."""

    def __init__(self) -> None:
        self._left = CHECK_LIMIT

    def allow(self, checks: int) -> bool:
        self._left -= checks
        return self._left >= 0


def _weights(
    pod: PodPlacement, classes: PodClasses, namespace_labels: LabelsByNamespace, checks: _Checks
) -> Iterator[tuple[ScoringPodClass, Mapping[str, int]]]:
    """The weights by topology key that classes give to their nodes; first by the pod's own terms."""
    own = pod.preferred_pods
    by_label = any(term.by_label is not None for term in own)
    named = {namespace for term in own for namespace in term.namespaces}
    for one in classes.of_namespaces(None if by_label else named) if own else ():
        if not checks.allow(len(own)):
            return
        labels = namespace_labels(one.namespace) if by_label else None
        yield from _weighted(one, [term for term in own if term.matches(one.namespace, one.labels, labels)])
    labels_here = namespace_labels(pod.namespace)
    for one in classes.with_terms_about(pod.namespace):
        if not checks.allow(len(one.terms)):
            return
        terms = [term for term in one.terms if term.matches(pod.namespace, pod.labels, labels_here)]
        yield from _weighted(one, terms)


def _weighted(
    one: ScoringPodClass, terms: Sequence[WeightedPodTerm]
) -> Iterator[tuple[ScoringPodClass, Mapping[str, int]]]:
    weights: dict[str, int] = {}
    for term in terms:
        weights[term.topology_key] = weights.get(term.topology_key, 0) + term.weight
    if weights:
        yield one, weights


def _where(one: ScoringPodClass, view: View) -> tuple[_Numbers, _Numbers]:
    """The rows on which pods of a class are, and how many on each."""
    row = view.rows.get
    here = [(at, count) for node, count in list(one.nodes.items()) if (at := row(node)) is not None]
    both = np.array(here, dtype=np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def spread_scores(
    view: View, rows: Rows, pod: PodPlacement, matches: NodeMatches, classes: PodClasses
) -> Scores:
    """The fewer pods of its kind are in a node's domains already, the better; 0 without soft constraints."""
    constraints = pod.soft_constraints
    strict = bool(pod.spread)
    if not pod.spread and pod.spread_by:
        constraints = DEFAULT_CONSTRAINTS
    if not constraints or not len(rows):
        return np.zeros(len(rows))
    everywhere = matches.exist(view)
    if strict:  # nodes that lack one of the keys are not scored, nor are their pods counted
        everywhere = everywhere.copy()
        for one in constraints:
            everywhere &= matches.domains(view, one.topology_key).of_row >= 0
    candidate = everywhere[rows]
    score = np.zeros(len(rows))
    by_node = _PodsByNode(view, pod, classes)
    for one in constraints:
        of_row = matches.domains(view, one.topology_key).of_row
        if one.topology_key == HOSTNAME:
            counts, size = by_node.of_kind(one)[rows], int(candidate.sum())
        else:
            counted = everywhere & _included(one, view, pod, matches)
            counts, size = _by_domain(of_row, by_node.of_kind(one), counted, rows, candidate)
        weight = math.log(size + 2)
        skew = max(0, min(one.max_skew, SKEW_LIMIT))
        score += np.where(of_row[rows] >= 0, counts * weight + (skew - 1), 0.0)
    rounded = np.floor(score + 0.5).astype(np.int64)
    return _normalised(rounded, candidate)


def _normalised(score: _Numbers, candidate: NodeFlags) -> Scores:
    if not candidate.any():
        return np.zeros(len(score))
    least, most = int(score[candidate].min()), max(0, int(score[candidate].max()))
    if most == 0:
        return np.where(candidate, float(MAX_SCORE), 0.0)
    return np.where(candidate, MAX_SCORE * (most + least - score) // most, 0).astype(np.float64)


def _by_domain(
    of_row: _Numbers, by_node: _Numbers, counted: NodeFlags, rows: Rows, candidate: NodeFlags
) -> tuple[_Numbers, int]:
    """How many pods are in the domain of each row, and how many domains the candidates have."""
    # nodes without the label are a domain of their own, the last one
    domain = np.where(of_row >= 0, of_row, of_row.max(initial=-1) + 1)
    total = np.bincount(domain[counted], weights=by_node[counted], minlength=int(domain.max()) + 1)
    return total[domain[rows]].astype(np.int64), len(np.unique(domain[rows][candidate]))


class _PodsByNode:
    """How many pods of the kind of a constraint are on each row; counted once for each kind."""

    def __init__(self, view: View, pod: PodPlacement, classes: PodClasses) -> None:
        self._view, self._pod, self._classes = view, pod, classes
        self._checks = _Checks()
        self._kinds: dict[bytes, _Numbers] = {}

    def of_kind(self, constraint: SpreadConstraint) -> _Numbers:
        kind = b""
        if self._pod.spread:
            kind = msgspec.json.encode((constraint.label_selector, constraint.match_label_keys))
        if kind not in self._kinds:
            self._kinds[kind] = self._count(constraint)
        return self._kinds[kind]

    def _count(self, constraint: SpreadConstraint) -> _Numbers:
        by_node = np.zeros(len(self._view.facts), dtype=np.int64)
        for one in self._of_kind(constraint):
            if not self._checks.allow(len(one.nodes) // _NODES_A_CHECK):
                break
            at, number = _where(one, self._view)
            by_node[at] += number  # each row once
        return by_node

    def _of_kind(self, constraint: SpreadConstraint) -> Iterator[ScoringPodClass]:
        pod = self._pod
        if not pod.spread:
            candidates = self._classes.of_owner(pod.spread_by)
            selects: Callable[[Mapping[str, str]], bool] = lambda _labels: True  # noqa: E731 - one of two
        else:
            selector: Selector | None = spread_selector(constraint, pod.labels)
            if selector is None or not (selector.match_labels or selector.match_expressions):
                return  # one that selects all counts none, as in Kubernetes
            candidates, selects = self._classes.of_namespaces([pod.namespace]), selector.selects
        for one in candidates:
            if not self._checks.allow(1):
                return
            if not one.terminating and one.namespace == pod.namespace and selects(one.labels):
                yield one


def _included(constraint: SpreadConstraint, view: View, pod: PodPlacement, matches: NodeMatches) -> NodeFlags:
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
