"""PodDisruptionBudgets, as arithmetic: whom each counts, how many may go now, how many may ever go.

The eviction API looks at one budget a pod and refuses, for ever, a pod that two select. It keeps the books
itself: it takes one off `disruptionsAllowed` with each eviction that it grants. What is worked out here is
what to ask it for, and what to tell people; only where pods go in another way (a suspended Job) does a
budget hold by this arithmetic alone.

How many may ever go: a pod that a drain takes away has no replacement that becomes ready, for that waits
for the queue. So the healthy only get fewer, unless pods outside of the drain become ready: those count as if
they were.

Source: `k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go`, `pkg/controller/disruption`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from queues.selectors import Selector, selector_of
from queues.showing import shown

Key = tuple[str, str]


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """One budget as it was read.

    `allowed`: pods that may go now; 0 while its status is of a former generation. `healthy`, `desired`: pods
    that count as healthy, and how many have to. `spares_unready`: pods that are not ready may go anyway.
    `outside`: pods that it selects, that are ready or may become so, and that this drain does not take (those
    that stay by rule are among them, gated ones are not); None where nobody looked. `broken`: why its status
    cannot be worked out, such as a `maxUnavailable` over pods that have no scale.
    """

    namespace: str
    name: str
    selector: Selector | None
    allowed: int = 0
    healthy: int = 0
    desired: int = 0
    current: bool = True
    spares_unready: bool = False
    outside: int | None = None
    broken: str = ""

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    def __str__(self) -> str:
        return f"PodDisruptionBudget {self.namespace}/{self.name}"

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace == self.namespace and self.selector is not None and self.selector.selects(labels)

    def lets_unready_go(self, taken: int) -> bool:
        """Whether a pod that is not ready may be evicted without taking one of `allowed`.

        `taken`: disruptions that its status does not know of. Where it wants nobody healthy the eviction API
        asks for one of `allowed` all the same.
        """
        enough = self.current and 0 < self.desired <= self.healthy - taken
        return self.spares_unready or enough

    def may_ever_go(self, going: int) -> int | None:
        """How many of the `going`, all that a drain is to take of those it selects, may ever go.

        None where that is not known: nobody looked at the pods outside, or the status is of the past.
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


def budget_of(obj: BudgetObject) -> Budget:
    """Raises `queues.selectors.BadSelector`."""
    status = obj.status
    current = status.observed_generation >= obj.metadata.generation
    return Budget(
        namespace=obj.metadata.namespace,
        name=obj.metadata.name,
        selector=selector_of(obj.spec.selector),
        allowed=status.disruptions_allowed if current else 0,
        healthy=status.current_healthy,
        desired=status.desired_healthy,
        current=current,
        broken=_broken(status),
        spares_unready=obj.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
    )


def _broken(status: _Status) -> str:
    """What the disruption controller says when it cannot tell how many should be healthy."""
    for condition in status.conditions or ():
        if (condition.type, condition.status, condition.reason) == (
            "DisruptionAllowed",
            "False",
            "SyncFailed",
        ):
            return shown(condition.message, limit=200) or condition.reason
    return ""


class Index:
    """Which budgets select a pod: for the same values of the labels they ask for, it is worked out once."""

    def __init__(self, budgets: Iterable[Budget]) -> None:
        self._by_namespace: dict[str, list[Budget]] = {}
        for budget in budgets:
            self._by_namespace.setdefault(budget.namespace, []).append(budget)
        self._keys = {namespace: _keys(held) for namespace, held in self._by_namespace.items()}
        self._found: dict[tuple[str | None, ...], tuple[Budget, ...]] = {}

    def of(self, namespace: str, labels: Mapping[str, str]) -> tuple[Budget, ...]:
        keys = self._keys.get(namespace)
        if keys is None:
            return ()
        asked = namespace, *map(labels.get, keys)
        found = self._found.get(asked)
        if found is None:
            held = self._by_namespace[namespace]
            found = tuple(budget for budget in held if budget.selects(namespace, labels))
            self._found[asked] = found
        return found


def _keys(budgets: Iterable[Budget]) -> tuple[str, ...]:
    """The labels that decide."""
    return tuple({key for budget in budgets if budget.selector is not None for key in budget.selector.keys})
