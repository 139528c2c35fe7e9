"""What the unit tests of drains share: pods and budgets in a line each, and a simulated cluster to drain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from queues.apimachinery.label_selectors import Selector, parse_selector
from queues.drain.broken_gangs import GangMinimum, broken_gangs
from queues.drain.disruption_budgets import (
    Budget,
    BudgetIndex,
    BudgetKey,
)
from queues.drain.model import (
    BlockedUnit,
    BlockerReason,
    DrainAction,
    DrainSpec,
    Plan,
    RunningPod,
    SuspendableWorkload,
    Unit,
)
from queues.drain.plan import plan
from tests.support.rules.cases import NOW

LAB = "lab"
WEB: Mapping[str, str] = {"app": "web"}


def pod(name: str = "p", *, age: int = 0, **fields: Any) -> RunningPod:
    """A ready pod of namespace lab and of label app=web, created `age` seconds ago."""
    defaults: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": LAB,
        "name": name,
        "queue": "q",
        "labels": WEB,
        "created": NOW - timedelta(seconds=age),
    }
    return RunningPod(**{**defaults, **fields})


def pods(number: int, prefix: str = "p", **fields: Any) -> list[RunningPod]:
    """So many pods, the youngest first: p0, p1, ..."""
    return [pod(f"{prefix}{index}", age=index, **fields) for index in range(number)]


def work(name: str = "j", *, suspended: bool = False, kind: str = "jobs") -> SuspendableWorkload:
    return SuspendableWorkload(kind=kind, namespace=LAB, name=name, uid=f"uid-{name}", suspended=suspended)


def job(number: int, name: str = "j", *, suspended: bool = False, **fields: Any) -> list[RunningPod]:
    """The pods of a Job."""
    return pods(number, f"{name}-", workload=work(name, suspended=suspended), **fields)


def gang(number: int, name: str = "g", **fields: Any) -> list[RunningPod]:
    """The pods of a PodGroup."""
    return pods(number, f"{name}-", pod_group=name, **fields)


def budget(name: str = "b", *, labels: Mapping[str, str] = WEB, **fields: Any) -> Budget:
    """A budget for these labels in namespace lab."""
    defaults: dict[str, Any] = {
        "namespace": LAB,
        "name": name,
        "selector": Selector(match_labels=dict(labels)),
    }
    return Budget(**{**defaults, **fields})


def planned(
    runners: Iterable[RunningPod],
    *budgets: Budget,
    spec: DrainSpec | None = None,
    now: datetime = NOW,
    pending_disruptions: Mapping[BudgetKey, int] | None = None,
    started_gangs: Iterable[BudgetKey] = (),
    busy_budgets: Iterable[BudgetKey] = (),
    broken: Mapping[BudgetKey, str] | None = None,
) -> Plan:
    return plan(
        runners,
        BudgetIndex(budgets),
        spec or DrainSpec(),
        now=now,
        pending_disruptions=pending_disruptions,
        started_gangs=frozenset(started_gangs),
        busy_budgets=frozenset(busy_budgets),
        broken_gangs=broken,
    )


def planned_unread(runners: Iterable[RunningPod], *, spec: DrainSpec | None = None) -> Plan:
    """A plan where the budgets of the namespace are too many to be read."""
    index = BudgetIndex([], excess={LAB: "too many"})
    return plan(runners, index, spec or DrainSpec(), now=NOW)


def keeping(**labels: str) -> DrainSpec:
    """`drain.keep` of these labels."""
    return DrainSpec(keep=parse_selector({"matchLabels": labels}))


def sent_by(unit: Unit) -> frozenset[str]:
    """The UIDs of the pods that go with this step; others of its gang follow."""
    return frozenset(one.uid for part in unit.parts or (unit,) for one in part.pods)


def steps_of(found: Plan) -> list[list[str]]:
    """The pods of each step, in order."""
    return [[one.name for one in unit.pods] for unit in found.steps]


def blocked(found: Plan) -> dict[str, tuple[BlockerReason, bool]]:
    """By the pods of a unit: why it is blocked, and whether for good."""
    return {
        " ".join(one.name for one in block.unit.pods): (block.reason, block.never) for block in found.blocked
    }


def only_block(found: Plan) -> BlockedUnit:
    """The one block of a plan that has no more."""
    (block,) = found.blocked
    return block


class Cluster:
    """A simulated cluster: pods, budgets and pods outside of the drain, and what becomes of them.

    `want`: budgets of which only name, selector and policy count; the rest is worked out as the disruption
    controller does, but for `desired`, which stays. `outside`: by budget, whether each pod outside is ready.
    """

    def __init__(
        self,
        runners: Iterable[RunningPod],
        want: Iterable[Budget],
        *,
        spec: DrainSpec,
        outside: Mapping[BudgetKey, list[bool]],
        started_gangs: Iterable[BudgetKey] = (),
        minimums: Mapping[BudgetKey, GangMinimum] | None = None,
    ) -> None:
        self.minimums = dict(minimums or {})
        self.runners = {one.uid: one for one in runners}
        self.want = {one.key: one for one in want}
        self.spec = spec
        self.outside = {key: list(ready) for key, ready in outside.items()}
        self.started_gangs = set(started_gangs)
        self.kept: frozenset[str] = frozenset()
        self.status: dict[BudgetKey, Budget] = {}
        self.kept = frozenset(one.uid for one, _ in self.plan().kept)
        self.count()

    def count(self) -> None:
        """The disruption controller looks at its budgets."""
        self.status = {key: self._counted(one) for key, one in self.want.items()}

    def _counted(self, one: Budget) -> Budget:
        held = [pod for pod in self.runners.values() if one.selects(pod.namespace, pod.labels)]
        beside = self.outside.get(one.key, [])
        healthy = sum(pod.ready and not pod.leaving for pod in held) + sum(beside)
        stay = sum(pod.uid in self.kept for pod in held)
        return replace(
            one,
            healthy=healthy,
            allowed=max(0, healthy - one.desired),
            outside=None if one.outside is None else len(beside) + stay,
        )

    def plan(
        self, *, now: datetime = NOW, pending_disruptions: Mapping[BudgetKey, int] | None = None
    ) -> Plan:
        return planned(
            self.runners.values(),
            *self.status.values(),
            spec=self.spec,
            now=now,
            pending_disruptions=pending_disruptions,
            started_gangs=self.started_gangs,
            broken=broken_gangs(self.runners.values(), self.spec, self.minimums, now=now),
        )

    def of(self, one: RunningPod) -> list[Budget]:
        return [held for held in self.status.values() if held.selects(one.namespace, one.labels)]

    def evict(self, one: RunningPod) -> bool:
        """What the eviction API answers, and what it writes (`EvictionREST.Create`)."""
        found = self.of(one)
        if one.running and len(found) > 1:
            return False
        if one.running and found and not self._granted(one, found[0]):
            return False
        self.runners[one.uid] = replace(one, leaving=True)
        return True

    def _granted(self, one: RunningPod, held: Budget) -> bool:
        if not one.ready and (held.always_allow_unready or held.healthy >= held.desired > 0):
            return True
        if not held.allowed:
            return False
        self.status[held.key] = replace(held, allowed=held.allowed - 1)
        return True

    def send(self, unit: Unit) -> bool:
        """Send a unit; whether all of it may go. A suspended workload asks no budget: it is checked here."""
        if unit.action is DrainAction.EVICT:
            return all(self.evict(one) for one in unit.pods)
        needs: Counter[BudgetKey] = Counter()
        for one in unit.pods:
            found = self.of(one) if one.running else []
            needs.update(held.key for held in found if one.ready or not held.always_allow_unready)
            if len(found) > 1:
                return False
        for key, need in needs.items():
            held = self.status[key]
            if need > held.allowed:
                return False
            self.status[key] = replace(held, allowed=held.allowed - need)
        self._suspend(unit)
        return True

    def _suspend(self, unit: Unit) -> None:
        """Of a gang of several workloads the other pods follow in a later plan."""
        going = {part.workload.uid for part in unit.parts or (unit,) if part.workload is not None}
        assert going
        for uid, one in self.runners.items():
            if one.workload is not None and one.workload.uid in going:
                self.runners[uid] = replace(one, workload=replace(one.workload, suspended=True))

    def carry_out(self, found: Plan) -> bool:
        """Send each step in its order; whether all were granted."""
        self.started_gangs |= {(unit.pods[0].namespace, unit.gang) for unit in found.steps if unit.gang}
        return all(self.send(unit) for unit in found.steps)

    def settle(self, *, ready: bool = True) -> None:
        """Leaving pods are gone, and all that can become ready are ready."""
        self.runners = {
            uid: replace(one, running=True, ready=True) if ready else one
            for uid, one in self.runners.items()
            if not (one.leaving or (one.workload is not None and one.workload.suspended))
        }
        if ready:
            self.outside = {key: [True] * len(held) for key, held in self.outside.items()}
        self.count()
