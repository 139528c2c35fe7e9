"""What a pod prefers and what a node has to offer: the fields that plugin `nodeorder` reads.

What is decoded has the API's shapes.

Source: `core/v1` (`Affinity`, `Toleration`, `TopologySpreadConstraint`). Every field may be missing or null.
At most `TERM_LIMIT` preferences of a kind count, in the order in which they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from queues.apimachinery.label_selectors import BadSelector, Requirement, Selector, parse_selector
from queues.apimachinery.label_selectors import Operator as LabelOperator

TERM_LIMIT = 64
#: The labels of a namespace; None if it is not known.
NamespaceLabels = Callable[[str], Mapping[str, str] | None]
PREFER_NO_SCHEDULE = "PreferNoSchedule"


class _Wire(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """The common shape: camelCase on the wire, hashable here."""


class NodeRequirement(_Wire, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None

    def matches(self, value: str | None) -> bool:
        """Whether a node whose label (or field) has this value meets it; None: it has no such label."""
        values = self.values or ()
        if self.operator in ("Gt", "Lt"):
            have, asked = _integer(value), _integer(values[0]) if len(values) == 1 else None
            if have is None or asked is None:
                return False
            return have > asked if self.operator == "Gt" else have < asked
        return {
            "In": value in values,
            "NotIn": value is None or value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }.get(self.operator, False)


class NodeTerm(_Wire, frozen=True):
    """`NodeSelectorTerm`; one without requirements matches no node."""

    match_expressions: tuple[NodeRequirement, ...] | None = None
    match_fields: tuple[NodeRequirement, ...] | None = None

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        expressions, fields = self.match_expressions or (), self.match_fields or ()
        if not expressions and not fields:
            return False
        return all(one.matches(labels.get(one.key)) for one in expressions) and all(
            one.key == "metadata.name" and one.matches(name) for one in fields
        )


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

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        if self.operator == "Exists":
            return True
        return self.operator in (None, "", "Equal") and bool(self.key) and (self.value or "") == taint.value


class Taint(_Wire, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


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
        return (terms or ())[:TERM_LIMIT]

    @property
    def required_nodes(self) -> tuple[NodeTerm, ...] | None:
        """Of these terms a node must match one; None: there is no such rule."""
        affinity = self.affinity.node_affinity
        required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
        return (required.node_selector_terms or ())[:TERM_LIMIT] if required else None

    @property
    def preferred_pods(self) -> tuple[WeightedPodTerm, ...]:
        """Its preferred affinity terms, and its preferred anti-affinity terms with a negative weight."""
        terms: list[WeightedPodTerm] = []
        for affinity, sign in ((self.affinity.pod_affinity, 1), (self.affinity.pod_anti_affinity, -1)):
            preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
            for term in (preferred or ())[:TERM_LIMIT]:
                readable = read_pod_term(term.pod_affinity_term, sign * term.weight, self.namespace)
                if readable is not None:
                    terms.append(readable)
        return tuple(terms)


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


def _integer(text: str | None) -> int | None:
    if text is None:
        return None
    sign, digits = (text[:1], text[1:]) if text[:1] in ("+", "-") else ("", text)
    if not digits.isascii() or not digits.isdigit() or len(digits) > 19:
        return None
    return -int(digits) if sign == "-" else int(digits)
