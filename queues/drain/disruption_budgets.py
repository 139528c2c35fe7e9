"""PodDisruptionBudgets in numbers: which pods each selects, how many may go now, and how many may ever go.

The eviction API reads one budget a pod, and refuses for ever a pod that two select. It takes one off
`disruptionsAllowed` with each eviction that it grants. The numbers here decide which evictions are requested,
and what users are told. A budget is kept by these numbers alone only for the pods of a suspended Job, which
are deleted without an eviction.

How many may ever go: a pod that a drain takes away has no replacement that becomes ready, because that waits
for the queue. So the number of healthy pods only falls, unless pods outside of the drain become ready: these
are counted as ready.

Source: `k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go`, `pkg/controller/disruption`.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from queues.apimachinery.label_selectors import Selector, parse_selector
from queues.text import printable

BudgetKey = tuple[str, str]

#: Selectors that are tried for one pod, and terms of such a selector.
MAX_SELECTORS = 50
MAX_TERMS = 1000
#: Sets of labels of one namespace that are remembered.
MAX_CACHED = 10_000

_encoder = msgspec.json.Encoder(order="deterministic")


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """One budget as it was read.

    `allowed`: pods that may go now; 0 while its status is of an older generation. `healthy`, `desired`: pods
    that count as healthy, and how many have to. `always_allow_unready`: pods that are not ready may go
    anyway. `outside`: pods that it selects, that are ready or may become ready, and that this drain does not
    take; pods that stay by rule are among them, gated ones are not. None if they were not counted. `broken`:
    why its status cannot be computed, such as a `maxUnavailable` over pods that have no scale.
    """

    namespace: str
    name: str
    selector: Selector | None
    allowed: int = 0
    healthy: int = 0
    desired: int = 0
    current: bool = True
    always_allow_unready: bool = False
    outside: int | None = None
    broken: str = ""

    @property
    def key(self) -> BudgetKey:
        return self.namespace, self.name

    def __str__(self) -> str:
        return f"PodDisruptionBudget {self.namespace}/{self.name}"

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace == self.namespace and self.selector is not None and self.selector.selects(labels)

    def allows_unready_eviction(self, pending: int) -> bool:
        """Whether a pod that is not ready may be evicted without taking one of `allowed`.

        `pending`: disruptions that its status does not show yet. Where it wants no healthy pod the eviction
        API asks for one of `allowed` all the same.
        """
        enough = self.current and 0 < self.desired <= self.healthy - pending
        return self.always_allow_unready or enough

    def eventually_allowed(self, going: int) -> int | None:
        """How many of `going` pods may ever go: all that it selects and a drain is to take.

        None where that is unknown: the pods outside were not counted, or the status is of an older
        generation.
        """
        if self.outside is None or not self.current:
            return None
        return max(0, min(going, going + self.outside - self.desired))


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    selector: Any = None
    unhealthy_pod_eviction_policy: str | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    observed_generation: int = 0
    conditions: list[_Condition] | None = None


class _Metadata(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    generation: int = 0


class BudgetObject(msgspec.Struct, frozen=True):
    """A `policy/v1` PodDisruptionBudget: the fields that decide."""

    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def parse_budget(obj: BudgetObject) -> Budget:
    """Raises `queues.apimachinery.label_selectors.BadSelector`."""
    status = obj.status
    current = status.observed_generation >= obj.metadata.generation
    return Budget(
        namespace=obj.metadata.namespace,
        name=obj.metadata.name,
        selector=parse_selector(obj.spec.selector),
        allowed=status.disruptions_allowed if current else 0,
        healthy=status.current_healthy,
        desired=status.desired_healthy,
        current=current,
        broken=_sync_failure(status),
        always_allow_unready=obj.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )


def _sync_failure(status: _Status) -> str:
    """What the disruption controller says when it cannot compute how many should be healthy."""
    for condition in status.conditions or ():
        if (condition.type, condition.status, condition.reason) == (
            "DisruptionAllowed",
            "False",
            "SyncFailed",
        ):
            return printable(condition.message, limit=200) or condition.reason
    return ""


class BudgetIndex:
    """Which budgets select a pod.

    Invariants
    - The work for a pod is bounded, whatever its namespace holds: at most `MAX_SELECTORS` selectors are
      tried, of at most `MAX_TERMS` terms each. Where that is not enough, `excess` says so, and no budget is
      returned.
    - For the same values of the labels that budgets ask for it is computed once. An index `after` another
      keeps what that computed for namespaces with the same selectors.
    """

    def __init__(
        self,
        budgets: Iterable[Budget],
        *,
        excess: Mapping[str, str] | None = None,
        after: BudgetIndex | None = None,
    ) -> None:
        """`excess`: by namespace, why its budgets are too many to be read."""
        self._budgets: dict[str, list[Budget]] = {}
        for budget in budgets:
            self._budgets.setdefault(budget.namespace, []).append(budget)
        self._excess = dict(excess or {})
        before = after._matchers if after is not None else {}
        self._matchers: dict[str, _Matcher] = {
            namespace: _matcher([budget.selector for budget in budgets_of_it], before.get(namespace))
            for namespace, budgets_of_it in self._budgets.items()
        }

    @property
    def budgets(self) -> Iterator[Budget]:
        """All of them."""
        return itertools.chain.from_iterable(self._budgets.values())

    def selecting(self, namespace: str, labels: Mapping[str, str]) -> tuple[Budget, ...]:
        """Those that select such a pod; none where that is unknown."""
        matcher = self._matchers.get(namespace)
        places = matcher.places(labels) if matcher is not None and namespace not in self._excess else ()
        return tuple(self._budgets[namespace][place] for place in places or ())

    def excess(self, namespace: str, labels: Mapping[str, str]) -> str:
        """Why it is unknown which budgets select such a pod; empty where it is known."""
        if namespace in self._excess:
            return self._excess[namespace]
        matcher = self._matchers.get(namespace)
        if matcher is None or matcher.places(labels) is not None:
            return ""
        return (
            f"the PodDisruptionBudgets of namespace {namespace} that may select it are too many, or too large"
        )


def short_budgets(index: BudgetIndex, pods: Iterable[tuple[str, Mapping[str, str]]]) -> list[Budget]:
    """The budgets that do not allow all of these pods to go, given by namespace and labels.

    Only of these the pods outside are counted.
    """
    to_go: Counter[BudgetKey] = Counter()
    for namespace, labels in pods:
        to_go.update(budget.key for budget in index.selecting(namespace, labels))
    return [budget for budget in index.budgets if budget.allowed < to_go[budget.key]]


class _Matcher:
    """The selectors of one namespace, each indexed by the rarest label that it asks for. For any thread."""

    def __init__(self, selectors: list[Selector | None]) -> None:
        self.selectors = selectors
        groups = _group_selectors(selectors)
        rarity = Counter(pair for selector, _ in groups for pair in (selector.match_labels or {}).items())
        self._by_pair: dict[tuple[str, str], list[_Group]] = {}
        self._others: list[_Group] = []
        for group in groups:
            pairs = list((group[0].match_labels or {}).items())
            if pairs:
                rarest = min(pairs, key=lambda pair: (rarity[pair], pair))
                self._by_pair.setdefault(rarest, []).append(group)
            else:
                self._others.append(group)
        self._keys = frozenset(key for selector, _ in groups for key in selector.keys)
        #: By the labels of a pod that selectors ask for: the places of the budgets that select it.
        self._cache: dict[frozenset[tuple[str, str]], tuple[int, ...] | None] = {}

    def places(self, labels: Mapping[str, str]) -> tuple[int, ...] | None:
        """The places of the budgets that select such a pod; None where too many would have to be tried."""
        key, cache = self._asked_labels(labels), self._cache
        if key in cache:
            return cache[key]
        if len(cache) >= MAX_CACHED:
            cache = self._cache = {}
        places = cache[key] = self._match(labels, key)
        return places

    def _asked_labels(self, labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
        """The labels that selectors ask for. Loops over those of the pod or of the selectors, the fewer."""
        if len(labels) <= len(self._keys):
            return frozenset((key, value) for key, value in labels.items() if key in self._keys)
        return frozenset((key, labels[key]) for key in self._keys if key in labels)

    def _match(self, labels: Mapping[str, str], asked: frozenset[tuple[str, str]]) -> tuple[int, ...] | None:
        candidates = [*self._others, *(group for pair in asked for group in self._by_pair.get(pair, ()))]
        if len(candidates) > MAX_SELECTORS:
            return None
        if any(_terms(selector) > MAX_TERMS for selector, _ in candidates):
            return None
        return tuple(
            sorted(place for selector, places in candidates if selector.selects(labels) for place in places)
        )


def _matcher(selectors: list[Selector | None], before: _Matcher | None) -> _Matcher:
    return before if before is not None and before.selectors == selectors else _Matcher(selectors)


#: A selector, and the places of the budgets that have it.
_Group = tuple[Selector, list[int]]


def _group_selectors(selectors: list[Selector | None]) -> list[_Group]:
    """Each selector once, with the places of the budgets that have it."""
    groups: dict[bytes, _Group] = {}
    for place, selector in enumerate(selectors):
        if selector is not None:
            groups.setdefault(_encoder.encode(selector), (selector, []))[1].append(place)
    return list(groups.values())


def _terms(selector: Selector) -> int:
    values = sum(1 + len(one.values or ()) for one in selector.match_expressions or ())
    return values + len(selector.match_labels or ())
