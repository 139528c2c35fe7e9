"""The pods on nodes, by what affinity and spread ask of them: how many pods of a class are on each node.

Pods of one workload are of one class: the same namespace, labels, owner to be spread with, and preferred pod
affinity. So a question is asked of each class, not of each pod.

Invariants
- `nodes` of a class holds only nodes with at least one pod of it; a class without pods is dropped.
- Classes are changed under the lock of the table that owns them; `of_namespaces` gives a copy of the list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from queues.scoring.preferences import PodPlacement, WeightedPodTerm

_Key = tuple[str, tuple[tuple[str, str], ...], str, tuple[object, ...], bool]


class PodClass(msgspec.Struct, eq=False):
    """`terms`: its preferred affinity, anti-affinity with negative weights. `nodes`: pods by node."""

    key: _Key
    namespace: str
    labels: Mapping[str, str]
    spread_by: str
    terms: tuple[WeightedPodTerm, ...]
    terminating: bool
    nodes: dict[str, int] = {}


class PodClasses:
    def __init__(self) -> None:
        self._by_key: dict[_Key, PodClass] = {}
        self._by_namespace: dict[str, dict[_Key, PodClass]] = {}
        self._with_terms: dict[_Key, PodClass] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def class_of(self, pod: PodPlacement, *, terminating: bool = False) -> PodClass:
        """The class of a pod, a new one where it is the first; `count` counts the pod."""
        key = _key(pod, terminating)
        found = self._by_key.get(key)
        if found is not None:
            return found
        return PodClass(key, pod.namespace, dict(pod.labels), pod.spread_by, pod.preferred_pods, terminating)

    def count(self, pod_class: PodClass, node: str, by: int) -> None:
        """Counts a pod of the class on a node (1), or takes one away (-1)."""
        number = pod_class.nodes.get(node, 0) + by
        if number > 0:
            pod_class.nodes[node] = number
        else:
            pod_class.nodes.pop(node, None)
        key, namespace = pod_class.key, pod_class.namespace
        if pod_class.nodes:
            self._by_key[key] = self._by_namespace.setdefault(namespace, {})[key] = pod_class
            if pod_class.terms:
                self._with_terms[key] = pod_class
        else:
            self._by_key.pop(key, None)
            self._with_terms.pop(key, None)
            in_namespace = self._by_namespace.get(namespace, {})
            in_namespace.pop(key, None)
            if not in_namespace:
                self._by_namespace.pop(namespace, None)

    def of_namespaces(self, namespaces: Iterable[str] | None) -> list[PodClass]:
        """The classes of these namespaces; None: all."""
        if namespaces is None:
            return list(self._by_key.values())
        return [
            one for namespace in namespaces for one in list(self._by_namespace.get(namespace, {}).values())
        ]

    def with_terms(self) -> list[PodClass]:
        """The classes whose pods prefer or avoid others themselves."""
        return list(self._with_terms.values())


def _key(pod: PodPlacement, terminating: bool) -> _Key:
    affinity = pod.affinity
    preferred = pod.preferred_pods if affinity.pod_affinity or affinity.pod_anti_affinity else ()
    labels = tuple(sorted(pod.labels.items()))
    return pod.namespace, labels, pod.spread_by, tuple(map(repr, preferred)), terminating
