"""The pods on nodes, by what affinity and spread ask of them: how many pods of a class are on each node.

Pods of one workload are of one class: the same namespace, labels, owner to be spread with, and preferred pod
affinity. So a question is asked of each class, not of each pod.

Invariants
- `nodes` of a class holds only nodes with at least one pod of it; a class without pods is dropped.
- Of a key there is one class with pods at a time.
- `count` is called under the lock of the table that owns the classes; the other methods by any thread. They
  give copies, made in one step of the interpreter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import msgspec

from queues.scoring.preferences import PodPlacement, WeightedPodTerm

_Key = tuple[str, tuple[tuple[str, str], ...], str, bytes, bool]


class ScoringPodClass(msgspec.Struct, eq=False):
    """`terms`: its preferred affinity, anti-affinity with negative weights. `nodes`: pods by node."""

    key: _Key
    namespace: str
    labels: Mapping[str, str]
    spread_by: str
    terms: tuple[WeightedPodTerm, ...]
    terminating: bool
    nodes: dict[str, int] = {}

    @property
    def about(self) -> frozenset[str]:
        """The namespaces that its terms name."""
        return frozenset(namespace for term in self.terms for namespace in term.namespaces)


class PodClasses:
    def __init__(self) -> None:
        self._by_key: dict[_Key, ScoringPodClass] = {}
        self._by_namespace: dict[str, dict[_Key, ScoringPodClass]] = {}
        #: By the UID of the owner that they are spread by.
        self._by_owner: dict[str, dict[_Key, ScoringPodClass]] = {}
        #: Those with terms: by each namespace that a term names; all with a term that selects namespaces.
        self._about: dict[str, dict[_Key, ScoringPodClass]] = {}
        self._by_label: dict[_Key, ScoringPodClass] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def class_of(self, pod: PodPlacement, *, terminating: bool = False) -> ScoringPodClass:
        """The class of a pod, a new one where it is the first; `count` counts the pod."""
        key = _key(pod, terminating)
        known = self._by_key.get(key)
        if known is not None:
            return known
        return ScoringPodClass(
            key, pod.namespace, dict(pod.labels), pod.spread_by, pod.preferred_pods, terminating
        )

    def count(self, pod_class: ScoringPodClass, node: str, by: int) -> ScoringPodClass:
        """Counts a pod of the class on a node (1), or takes one away (-1); returns the class of that key."""
        pod_class = self._by_key.get(pod_class.key, pod_class)
        had_pods = bool(pod_class.nodes)
        number = pod_class.nodes.get(node, 0) + by
        if number > 0:
            pod_class.nodes[node] = number
        else:
            pod_class.nodes.pop(node, None)
        if bool(pod_class.nodes) is not had_pods:
            if had_pods:
                self._remove(pod_class)
            else:
                self._add(pod_class)
        return pod_class

    def _add(self, pod_class: ScoringPodClass) -> None:
        key = pod_class.key
        self._by_key[key] = pod_class
        for index, name in self._indexes(pod_class):
            index.setdefault(name, {})[key] = pod_class
        if any(term.by_label is not None for term in pod_class.terms):
            self._by_label[key] = pod_class

    def _remove(self, pod_class: ScoringPodClass) -> None:
        key = pod_class.key
        self._by_key.pop(key, None)
        self._by_label.pop(key, None)
        for index, name in self._indexes(pod_class):
            classes = index.get(name, {})
            classes.pop(key, None)
            if not classes:
                index.pop(name, None)

    def _indexes(
        self, pod_class: ScoringPodClass
    ) -> Iterable[tuple[dict[str, dict[_Key, ScoringPodClass]], str]]:
        """Each index that has the class, and its name there."""
        indexes = [(self._by_namespace, pod_class.namespace)]
        if pod_class.spread_by:
            indexes.append((self._by_owner, pod_class.spread_by))
        if pod_class.terms:
            indexes += [(self._about, namespace) for namespace in pod_class.about]
        return indexes

    def of_owner(self, uid: str) -> list[ScoringPodClass]:
        """The classes of pods that are spread by this owner."""
        return list(self._by_owner.get(uid, {}).values())

    def with_terms_about(self, namespace: str) -> list[ScoringPodClass]:
        """The classes whose pods prefer or avoid others, and may mean those of a namespace; its own first."""
        about = list(self._about.get(namespace, {}).values()) + list(self._by_label.values())
        return sorted(dict.fromkeys(about), key=lambda one: one.namespace != namespace)

    def of_namespaces(self, namespaces: Iterable[str] | None) -> list[ScoringPodClass]:
        """The classes of these namespaces; None: all."""
        if namespaces is None:
            return list(self._by_key.values())
        return [
            one for namespace in namespaces for one in list(self._by_namespace.get(namespace, {}).values())
        ]


def _key(pod: PodPlacement, terminating: bool) -> _Key:
    affinity = pod.affinity
    terms = b""
    if affinity.pod_affinity or affinity.pod_anti_affinity:
        written = msgspec.json.encode((affinity.pod_affinity, affinity.pod_anti_affinity))
        terms = hashlib.blake2b(written, digest_size=16).digest()
    labels = tuple(sorted(pod.labels.items()))
    return pod.namespace, labels, pod.spread_by, terms, terminating
