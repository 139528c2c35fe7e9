"""What the tests of draining share: short ways to write pods and budgets, and a cluster to drain on paper."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from msgspec.structs import replace

from queues.apimachinery.label_selectors import Selector, parse_selector
from queues.drain.disruption_budgets import (
    Budget,
    Index,
    Key,
)
from queues.drain.model import (
    Block,
    BlockerReason,
    DrainSpec,
    How,
    Plan,
    RunningPod,
    Unit,
    Work,
)
from queues.drain.plan import plan
from tests.support.rules.cases import NOW

LAB = "lab"
WEB: Mapping[str, str] = {"app": "web"}


def pod(name: str = "p", *, age: int = 0, **fields: object) -> RunningPod:
    """A ready pod of namespace lab and of label app=web, created `age` seconds ago."""
    held: dict[str, object] = {
        "uid": f"uid-{name}",
        "namespace": LAB,
        "name": name,
        "queue": "q",
        "labels": WEB,
        "created": NOW - timedelta(seconds=age),
    }
    return RunningPod(**{**held, **fields})  # type: ignore[arg-type]


def pods(number: int, prefix: str = "p", **fields: object) -> list[RunningPod]:
    """So many pods, the youngest first: p0, p1, ..."""
    return [pod(f"{prefix}{index}", age=index, **fields) for index in range(number)]


def work(name: str = "j", *, paused: bool = False, kind: str = "jobs") -> Work:
    return Work(kind=kind, namespace=LAB, name=name, uid=f"uid-{name}", paused=paused)


def job(number: int, name: str = "j", *, paused: bool = False, **fields: object) -> list[RunningPod]:
    """The pods of a Job."""
    return pods(number, f"{name}-", work=work(name, paused=paused), **fields)


def gang(number: int, name: str = "g", **fields: object) -> list[RunningPod]:
    """The pods of a PodGroup."""
    return pods(number, f"{name}-", group=name, **fields)


def budget(name: str = "b", *, labels: Mapping[str, str] = WEB, **fields: object) -> Budget:
    """A budget for these labels in namespace lab."""
    held = {"namespace": LAB, "name": name, "selector": Selector(match_labels=dict(labels))}
    return Budget(**{**held, **fields})  # type: ignore[arg-type]


def planned(
    runners: Iterable[RunningPod],
    *budgets: Budget,
    wishes: DrainSpec | None = None,
    now: datetime = NOW,
    taken: Mapping[Key, int] | None = None,
    begun: Iterable[Key] = (),
    busy: Iterable[Key] = (),
) -> Plan:
    return plan(
        runners,
        Index(budgets),
        wishes or DrainSpec(),
        now=now,
        taken=taken,
        begun=frozenset(begun),
        busy=frozenset(busy),
    )


def planned_unread(runners: Iterable[RunningPod], *, wishes: DrainSpec | None = None) -> Plan:
    """Where the budgets of the namespace are too many to be looked at."""
    index = Index([], excess={LAB: "too many"})
    return plan(runners, index, wishes or DrainSpec(), now=NOW)


def keeping(**labels: str) -> DrainSpec:
    """`drain.keep` of these labels."""
    return DrainSpec(keep=parse_selector({"matchLabels": labels}))


def going(found: Plan) -> list[list[str]]:
    """The pods of each step, in order."""
    return [[one.name for one in unit.pods] for unit in found.steps]


def blocked(found: Plan) -> dict[str, tuple[BlockerReason, bool]]:
    """By the pods of a unit: what keeps it, and whether for good."""
    return {
        " ".join(one.name for one in block.unit.pods): (block.hindrance, block.never)
        for block in found.blocked
    }


def only(found: Plan) -> Block:
    """The one block of a plan that has no more."""
    (block,) = found.blocked
    return block


class Cluster:
    """Pods, budgets and those outside of the drain, and what becomes of them.

    `want`: budgets of which only name, selector and policy count; the rest is worked out as the disruption
    controller does, but for `desired`, which stays. `outside`: by budget, whether each pod outside is ready.
    """

    def __init__(
        self,
        runners: Iterable[RunningPod],
        want: Iterable[Budget],
        *,
        wishes: DrainSpec,
        outside: Mapping[Key, list[bool]],
        begun: Iterable[Key] = (),
    ) -> None:
        self.runners = {one.uid: one for one in runners}
        self.want = {one.key: one for one in want}
        self.wishes = wishes
        self.outside = {key: list(ready) for key, ready in outside.items()}
        self.begun = set(begun)
        self.kept: frozenset[str] = frozenset()
        self.status: dict[Key, Budget] = {}
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

    def plan(self, *, now: datetime = NOW, taken: Mapping[Key, int] | None = None) -> Plan:
        return planned(
            self.runners.values(),
            *self.status.values(),
            wishes=self.wishes,
            now=now,
            taken=taken,
            begun=self.begun,
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
        if not one.ready and (held.spares_unready or held.healthy >= held.desired > 0):
            return True
        if not held.allowed:
            return False
        self.status[held.key] = replace(held, allowed=held.allowed - 1)
        return True

    def go(self, unit: Unit) -> bool:
        """Whether all of a unit may go, as it goes. Suspended work asks nobody, so that we look ourselves."""
        if unit.how is How.EVICT:
            return all(self.evict(one) for one in unit.pods)
        needs: Counter[Key] = Counter()
        for one in unit.pods:
            found = self.of(one) if one.running else []
            needs.update(held.key for held in found if one.ready or not held.spares_unready)
            if len(found) > 1:
                return False
        for key, need in needs.items():
            held = self.status[key]
            if need > held.allowed:
                return False
            self.status[key] = replace(held, allowed=held.allowed - need)
        self._pause(unit)
        return True

    def _pause(self, unit: Unit) -> None:
        assert unit.work is not None
        for uid, one in self.runners.items():
            if one.work is not None and one.work.uid == unit.work.uid:
                self.runners[uid] = replace(one, work=replace(one.work, paused=True))

    def carry_out(self, found: Plan) -> bool:
        """Each step in its order; whether all were granted."""
        self.begun |= {(unit.pods[0].namespace, unit.gang) for unit in found.steps if unit.gang}
        return all(self.go(unit) for unit in found.steps)

    def settle(self, *, ready: bool = True) -> None:
        """Who is on the way is gone, and all that can become ready does."""
        self.runners = {
            uid: replace(one, running=True, ready=True) if ready else one
            for uid, one in self.runners.items()
            if not (one.leaving or (one.work is not None and one.work.paused))
        }
        if ready:
            self.outside = {key: [True] * len(held) for key, held in self.outside.items()}
        self.count()
