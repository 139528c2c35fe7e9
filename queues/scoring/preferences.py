"""What a pod prefers and what a node has to offer: the fields that plugin `nodeorder` reads.

What is decoded has the API's shapes.

Source: `core/v1` (`Affinity`, `Toleration`, `TopologySpreadConstraint`). Every field may be missing or null.

A pod may be as large as etcd takes. What counts of it is limited, in the order in which it is written, so
that no pod makes others wait; no ordinary pod comes near:

| of a pod                                       | counts                                             |
|------------------------------------------------|----------------------------------------------------|
| terms of node affinity, preferred or required  | `TERM_LIMIT`, with `REQUIREMENT_LIMIT` in all      |
| preferred terms of pod affinity, anti-affinity | `TERM_LIMIT` and `TERM_BYTES` of JSON, each        |
| topology spread constraints                    | `TERM_LIMIT` and `TERM_BYTES` of JSON              |
| images                                         | `IMAGE_LIMIT`                                      |
| weights, `maxSkew`                             | what the API server lets through, at most          |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from queues.apimachinery.label_selectors import BadSelector, Requirement, Selector, parse_selector
from queues.apimachinery.label_selectors import Operator as LabelOperator

TERM_LIMIT, REQUIREMENT_LIMIT, TERM_BYTES, IMAGE_LIMIT = 64, 256, 16 * 1024, 64
#: Characters of a number: a label's value has no more.
NUMBER_LIMIT = 63
#: The greatest weight of a preferred term, and the greatest `maxSkew`.
PREFERENCE_LIMIT, SKEW_LIMIT = 100, 2**31 - 1
#: The labels of a namespace; None if it is not known.
LabelsByNamespace = Callable[[str], Mapping[str, str] | None]
PREFER_NO_SCHEDULE, SCHEDULE_ANYWAY = "PreferNoSchedule", "ScheduleAnyway"
T = TypeVar("T")


class _Wire(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """The common shape: camelCase on the wire, hashable here."""


class NodeRequirement(_Wire, frozen=True):
    """A requirement on a label or a field of a node; `node_matches` says which nodes meet it."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeTerm(_Wire, frozen=True):
    """`NodeSelectorTerm`; one without requirements matches no node."""

    match_expressions: tuple[NodeRequirement, ...] | None = None
    match_fields: tuple[NodeRequirement, ...] | None = None


class PreferredNodeTerm(_Wire, frozen=True):
    weight: int = 0
    preference: NodeTerm = NodeTerm()


class NodeSelector(_Wire, frozen=True):
    node_selector_terms: tuple[NodeTerm, ...] | None = None


class NodeAffinity(_Wire, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredNodeTerm, ...] | None = None


class PodTerm(_Wire, frozen=True):
    """`PodAffinityTerm`. Selectors stay as they were decoded; `parse_selector` reads them."""

    label_selector: Any = None
    topology_key: str = ""
    namespaces: tuple[str, ...] | None = None
    namespace_selector: Any = None


class PreferredPodTerm(_Wire, frozen=True):
    weight: int = 0
    pod_affinity_term: PodTerm = PodTerm()


class PodAffinity(_Wire, frozen=True):
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredPodTerm, ...] | None = None


class Affinity(_Wire, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(_Wire, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Taint(_Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


def tolerates(tolerations: Iterable[Toleration]) -> Callable[[Taint], bool]:
    """Whether any of the tolerations tolerates a taint; it takes as long for many of them as for few."""
    exists: set[tuple[str, str]] = set()
    equal: set[tuple[str, str, str]] = set()
    for one in tolerations:
        key, effect = one.key or "", one.effect or ""
        if one.operator == "Exists":
            exists.add((key, effect))
        elif one.operator in (None, "", "Equal") and key:
            equal.add((key, one.value or "", effect))

    def tolerated(taint: Taint) -> bool:
        return any(
            (taint.key, effect) in exists
            or ("", effect) in exists
            or (taint.key, taint.value, effect) in equal
            for effect in ("", taint.effect)
        )

    return tolerated


class NodeFacts(msgspec.Struct, frozen=True):
    """What scores read of a node beside its resources. `images`: their sizes in bytes, by name.

    `taints`: all of them, whatever their effect.
    """

    labels: Mapping[str, str] = {}
    taints: tuple[Taint, ...] = ()
    images: Mapping[str, int] = {}


NO_FACTS = NodeFacts()


class SpreadConstraint(_Wire, frozen=True):
    """`TopologySpreadConstraint`."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: Any = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class PodPlacement(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A pod as the scores see it. `images`: of all its containers; `spread_by`: the UID of its ReplicaSet,
    ReplicationController or StatefulSet, "" without one.
    """

    namespace: str = ""
    labels: Mapping[str, str] = {}
    spread_by: str = ""
    node_selector: Mapping[str, str] = {}
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    images: tuple[str, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()

    @property
    def preferred_nodes(self) -> tuple[PreferredNodeTerm, ...]:
        affinity = self.affinity.node_affinity
        terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
        return (terms or ())[: _that_count([term.preference for term in (terms or ())[:TERM_LIMIT]])]

    @property
    def required_nodes(self) -> tuple[NodeTerm, ...] | None:
        """Of these terms a node must match one; None: there is no such rule."""
        affinity = self.affinity.node_affinity
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        if required is None:
            return None
        terms = (required.node_selector_terms or ())[:TERM_LIMIT]
        return terms[: _that_count(terms)]

    @property
    def preferred_pods(self) -> tuple[WeightedPodTerm, ...]:
        """Its preferred affinity terms, and its preferred anti-affinity terms with a negative weight."""
        terms: list[WeightedPodTerm] = []
        for affinity, sign in ((self.affinity.pod_affinity, 1), (self.affinity.pod_anti_affinity, -1)):
            preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
            for term in _within_bytes((preferred or ())[:TERM_LIMIT]):
                weight = sign * max(0, min(term.weight, PREFERENCE_LIMIT))
                readable = read_pod_term(term.pod_affinity_term, weight, self.namespace)
                if readable is not None:
                    terms.append(readable)
        return tuple(terms)

    @property
    def soft_constraints(self) -> tuple[SpreadConstraint, ...]:
        """Its constraints that only prefer nodes (`ScheduleAnyway`)."""
        soft = [one for one in self.spread if one.when_unsatisfiable == SCHEDULE_ANYWAY]
        return tuple(_within_bytes(soft[:TERM_LIMIT]))


def _that_count(terms: Sequence[NodeTerm]) -> int:
    """How many of the terms, from the first, have at most `REQUIREMENT_LIMIT` requirements together."""
    requirements = 0
    for number, term in enumerate(terms):
        requirements += len(term.match_expressions or ()) + len(term.match_fields or ())
        if requirements > REQUIREMENT_LIMIT:
            return number
    return len(terms)


def _within_bytes(terms: Sequence[T]) -> list[T]:
    """The terms, from the first, that are at most `TERM_BYTES` of JSON together."""
    size, kept = 0, []
    for term in terms:
        size += len(msgspec.json.encode(term))
        if size > TERM_BYTES:
            break
        kept.append(term)
    return kept


class WeightedPodTerm(msgspec.Struct, frozen=True):
    """A preferred term that can be read. `namespaces`: by name; `by_label`: and those that it selects."""

    weight: int
    topology_key: str
    selector: Selector | None
    namespaces: frozenset[str]
    by_label: Selector | None

    def matches(
        self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str] | None
    ) -> bool:
        """Whether a pod of this namespace and these labels is meant."""
        in_namespace = namespace in self.namespaces or (
            self.by_label is not None
            and namespace_labels is not None
            and self.by_label.selects(namespace_labels)
        )
        return in_namespace and self.selector is not None and self.selector.selects(labels)


def read_pod_term(term: PodTerm, weight: int, namespace: str) -> WeightedPodTerm | None:
    """The term of a pod of `namespace`; None if its selectors cannot be read."""
    try:
        selector, by_label = parse_selector(term.label_selector), parse_selector(term.namespace_selector)
    except BadSelector:
        return None
    named = frozenset(term.namespaces or ())
    own = frozenset({namespace}) if not named and by_label is None else named
    return WeightedPodTerm(weight, term.topology_key, selector, own, by_label)


def spread_selector(constraint: SpreadConstraint, labels: Mapping[str, str]) -> Selector | None:
    """Its label selector, with what the pod has for `matchLabelKeys`; None if unreadable or absent."""
    try:
        selector = parse_selector(constraint.label_selector)
    except BadSelector:
        return None
    keys = [key for key in constraint.match_label_keys or () if key in labels]
    if selector is None or not keys:
        return selector
    more = [Requirement(key, LabelOperator.IN, [labels[key]]) for key in keys]
    return Selector(selector.match_labels, [*(selector.match_expressions or ()), *more])


def whole_number(text: str) -> int | None:
    """The number that `Gt` and `Lt` compare: of 64 bits; None for anything else."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isascii() or not digits.isdigit() or len(digits) > NUMBER_LIMIT:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
