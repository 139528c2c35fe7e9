"""Which pods of a drain may go now, in which order, and what blocks the others. Pure.

The running pods, the budgets, `spec.drain` and the time go in, a `Plan` comes out. The controller executes
it; `kubectl queue drain --dry-run` prints it.

Pods that do not stay by rule (`queues.drain.model`) go, in units that go whole or not at all:

========  ===========================  ===============================================================
unit      how it goes                  when
========  ===========================  ===============================================================
workload  it is suspended: a Job, a    every budget allows all of its pods at once, and no other
          JobSet, a Job of             suspended workload of that budget has pods that are leaving
          `batch.volcano.sh`
gang      its pods are evicted         every budget allows all of its pods; once it has started, a pod
                                       or a workload at a time
pod       it is evicted                its budget allows one more
========  ===========================  ===============================================================

The workloads of one PodGroup are a part of its gang: they are suspended in one go, and its other pods follow.

How many disruptions a pod takes of its budget: none while its phase is not Running. None while it is not
ready, if the budget says AlwaysAllow, or if the budget has all the healthy pods that it wants; the latter
holds for an eviction, which the API server checks again, and not for a suspended workload. Otherwise one.

Invariants
- While pods of a suspended workload leave, no other pod of their budgets is evicted.
- A plan takes no more of a budget than it allows, and no pod that two budgets select.
- A unit that has started comes first; then the lowest priority, then the youngest, then by name.
- Where the budgets of a pod are too many to be read (`BudgetIndex.excess`), a single pod is left to the
  eviction API, which reads all of them; a unit of several pods does not go.
- `never` says that waiting does not help against a budget: too few pods would stay healthy even if all became
  ready that can, and nothing else went. It is not set where the deadline ends the wait.
- Past the deadline nothing is evicted any more. What is left stays (`afterDeadline: Keep`), or goes, budgets
  or not: workloads that can be suspended are, all other pods are deleted (`Delete`). With `Scale`, workloads
  that can be scaled are brought to zero replicas; one of which a pod stays by rule is not, and its other pods
  are deleted. What stays by rule stays. What is left of a broken gang (`broken_gangs`) is evicted all the
  same, within its budgets.
- A pod that is leaving is not evicted again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from datetime import datetime

import msgspec

from queues.apimachinery.timestamps import rfc3339
from queues.drain.broken_gangs import stays
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
    Unit,
    gang_key,
    keep_rule,
)
from queues.text import join_limited

#: Budgets that are named where a pod is under several.
MAX_NAMED = 3


def plan(
    pods: Iterable[RunningPod],
    budgets: BudgetIndex,
    spec: DrainSpec,
    *,
    now: datetime,
    pending_disruptions: Mapping[BudgetKey, int] | None = None,
    started_gangs: Container[BudgetKey] = frozenset(),
    busy_budgets: Collection[BudgetKey] = frozenset(),
    broken_gangs: Mapping[BudgetKey, str] | None = None,
) -> Plan:
    """Plan the next step of one drain. `pods`: all running pods of its queues.

    `pending_disruptions`: by budget, disruptions that were requested and that the budgets did not count yet
    when they were read; without those of suspended workloads, whose budgets are in `busy_budgets`.
    `started_gangs`: gangs of which pods were evicted already. `busy_budgets`: budgets of the suspended
    workloads of other drains, or of pods that have just gone. `broken_gangs`: those that go whole, with why
    (`queues.drain.broken_gangs`).
    """
    planner = _Planner(
        budgets,
        spec,
        now=now,
        pending_disruptions=pending_disruptions or {},
        started_gangs=started_gangs,
        busy_budgets=busy_budgets,
        broken_gangs=broken_gangs or {},
    )
    return planner.plan(tuple(pods))


class _Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """A budget that does not allow a unit now.

    `needed`: disruptions that the unit takes. `selected`: pods of the unit that the budget selects.
    """

    budget: Budget
    needed: int
    allowed: int
    selected: int
    busy: bool


class _ShortUnit(msgspec.Struct, frozen=True):
    """A unit that budgets do not allow now."""

    unit: Unit
    shortages: tuple[_Shortage, ...]


class _Forecast:
    """Whether waiting helps against a shortage.

    `kept`: how many of the pods that the budget selects, and that do not go now, it keeps in the end.
    `never`: so many that the unit can never go. `counted`: those pods.
    """

    def __init__(self, shortage: _Shortage, counted: int) -> None:
        ever = shortage.budget.eventually_allowed(counted)
        self.shortage = shortage
        self.kept = counted - ever if ever is not None else 0
        self.never = ever is not None and ever < shortage.selected


class _Planner:
    """Builds one plan."""

    def __init__(
        self,
        budgets: BudgetIndex,
        spec: DrainSpec,
        *,
        now: datetime,
        pending_disruptions: Mapping[BudgetKey, int],
        started_gangs: Container[BudgetKey],
        busy_budgets: Collection[BudgetKey],
        broken_gangs: Mapping[BudgetKey, str],
    ) -> None:
        self._budgets = budgets
        self._spec = spec
        self._overdue = spec.overdue(now)
        self._pending_disruptions = dict(pending_disruptions)
        self._started_gangs = started_gangs
        self._broken_gangs = broken_gangs
        #: Budgets of suspended workloads with pods that are leaving; of workloads that this plan suspends.
        self._suspended_budgets: set[BudgetKey] = set(busy_budgets)
        self._suspending_budgets: set[BudgetKey] = set()

    def plan(self, pods: tuple[RunningPod, ...]) -> Plan:
        rules = [(pod, stays(pod, self._spec, self._broken_gangs)) for pod in pods]
        kept = tuple((pod, rule) for pod, rule in rules if rule is not None and not self._is_leaving(pod))
        to_go = [pod for pod, rule in rules if rule is None or self._is_leaving(pod)]
        leaving = tuple(pod for pod in to_go if self._is_leaving(pod))
        busy_budgets = self._budgets_of_suspended(leaving)
        kept_parts = {pod.workload.uid: pod for pod, _ in kept if pod.workload is not None}
        units = sorted(self._units(to_go, kept_parts), key=_unit_order)
        decisions = [self._decide(self._with_cause(unit), part) for unit, part in units]
        return Plan(
            steps=tuple(each for each in decisions if isinstance(each, Unit)),
            kept=kept,
            blocked=self._blocked(decisions),
            leaving=leaving,
            busy_budgets=frozenset(busy_budgets),
        )

    def _with_cause(self, unit: Unit) -> Unit:
        """The unit with its pods that would stay if its gang were not broken."""
        because = self._broken_gangs.get(_gang_of_all(unit.pods))
        if because is None:
            return unit
        ends = self._overdue and not self._spec.delete_after_deadline
        overruled = frozenset(pod.uid for pod in unit.pods if ends or keep_rule(pod, self._spec) is not None)
        parts = tuple(map(self._with_cause, unit.parts))
        return msgspec.structs.replace(
            unit, overruled=overruled, because=because if overruled else "", parts=parts
        )

    def _is_leaving(self, pod: RunningPod) -> bool:
        """Whether the pod is on its way already, as all pods of a suspended workload are.

        Past the deadline this does not hold of those that no controller deletes.
        """
        if pod.leaving or pod.workload is None or not pod.workload.suspended:
            return pod.leaving
        return not (pod.workload.stalled and self._overdue and self._spec.delete_after_deadline)

    def _budgets_of_suspended(self, leaving: tuple[RunningPod, ...]) -> set[BudgetKey]:
        """The budgets of suspended workloads, whose controllers delete pods without asking any budget."""
        budgets: set[BudgetKey] = set()
        for pod in leaving:
            if pod.leaving or pod.workload is None or not pod.workload.suspended:
                continue  # a pod that is being deleted does not count as healthy any more
            budgets.update(budget.key for budget in self._budgets.selecting(pod.namespace, pod.labels))
        self._suspended_budgets |= budgets
        return budgets

    def _units(
        self, to_go: list[RunningPod], kept_parts: Mapping[str, RunningPod]
    ) -> list[tuple[Unit, RunningPod | None]]:
        """The units; a workload comes with a pod of it that stays by rule, if there is one."""
        workloads: dict[str, list[RunningPod]] = {}
        gangs: dict[BudgetKey, list[RunningPod]] = {}
        units: list[tuple[Unit, RunningPod | None]] = []
        # A pod of a Job that is deleted by somebody else does not mean that its gang goes.
        started_gangs = {
            gang_key(pod)
            for pod in to_go
            if self._is_leaving(pod) and (pod.workload is None or pod.workload.suspended)
        }
        for pod in to_go:
            gang = gang_key(pod)
            if self._is_leaving(pod):
                continue
            if pod.workload is not None and not pod.workload.suspended and not _is_split(pod, kept_parts):
                workloads.setdefault(pod.workload.uid, []).append(pod)
            elif pod.pod_group and gang not in started_gangs and gang not in self._started_gangs:
                gangs.setdefault(gang, []).append(pod)
            else:
                unit = Unit(
                    action=DrainAction.EVICT, pods=(pod,), gang=pod.pod_group, started=bool(pod.pod_group)
                )
                units.append((unit, None))
        joined: dict[BudgetKey, list[Unit]] = {}
        for uid, pods in workloads.items():
            unit = Unit(action=DrainAction.SUSPEND, pods=tuple(pods), workload=pods[0].workload)
            gang, part = _gang_of_all(pods), kept_parts.get(uid)
            if gang[1] and (gang in started_gangs or gang in self._started_gangs):
                units.append((msgspec.structs.replace(unit, gang=gang[1], started=True), part))
            elif gang[1] and part is None and not self._overdue:
                joined.setdefault(gang, []).append(unit)
            else:
                units.append((unit, part))
        for gang, pods in gangs.items():
            pods.sort(key=_pod_order)
            unit = Unit(action=DrainAction.EVICT, pods=tuple(pods), gang=gang[1])
            if gang not in joined:
                units.append((unit, None))
            else:
                joined[gang].append(unit)
        units += [(_joined(gang, parts), None) for gang, parts in joined.items()]
        return units

    def _decide(self, unit: Unit, part: RunningPod | None) -> Unit | BlockedUnit | _ShortUnit:
        """The unit as a step with its budgets, or as blocked with the reason."""
        if self._spec.unreadable:
            return _blocked_unit(
                unit, BlockerReason.SETTINGS, "spec.drain", self._spec.unreadable, never=True
            )
        if part is not None:
            return _blocked_unit(
                unit,
                BlockerReason.KEPT_PART,
                str(part),
                _KEPT_PART_TEXT.format(part=part, rule=keep_rule(part, self._spec)),
                never=True,
            )
        if self._overdue:
            return self._after_deadline(unit)
        return self._by_budgets(unit)

    def _after_deadline(self, unit: Unit) -> Unit | BlockedUnit | _ShortUnit:
        if not self._spec.delete_after_deadline:
            if unit.overruled:
                return self._by_budgets(unit)
            message = _DEADLINE_TEXT.format(at=self._deadline_text)
            return _blocked_unit(unit, BlockerReason.DEADLINE, "spec.drain.deadline", message, never=True)
        return msgspec.structs.replace(unit, action=_overdue_action(unit))

    def _by_budgets(self, unit: Unit) -> Unit | BlockedUnit | _ShortUnit:
        needed: dict[BudgetKey, int] = {}
        selected: dict[BudgetKey, int] = {}
        by_key: dict[BudgetKey, Budget] = {}
        for pod in unit.pods:
            budgets = self._budgets.selecting(pod.namespace, pod.labels)
            if pod.running and len(budgets) > 1:
                return self._under_several(unit, pod, budgets)
            if pod.running and not budgets and (excess := self._unknown_budgets(unit, pod)):
                return self._under_too_many(unit, pod, excess)
            for budget in budgets:
                by_key[budget.key] = budget
                selected[budget.key] = selected.get(budget.key, 0) + 1
                if self._takes_disruption(pod, budget, unit.action):
                    needed[budget.key] = needed.get(budget.key, 0) + 1
        if not by_key:
            return unit
        shortages = [
            self._shortage(unit, by_key[key], needed=number, selected=selected[key])
            for key, number in needed.items()
        ]
        if any(shortages):
            return _ShortUnit(unit, tuple(filter(None, shortages)))
        for key, number in needed.items():
            self._pending_disruptions[key] = self._pending_disruptions.get(key, 0) + number
        if unit.action is DrainAction.SUSPEND:
            self._suspending_budgets.update(by_key)
        parts = tuple(
            msgspec.structs.replace(part, budgets=self._budgets_of(part, needed)) for part in unit.parts
        )
        return msgspec.structs.replace(unit, budgets=tuple(needed), parts=parts)

    def _budgets_of(self, unit: Unit, needed: Container[BudgetKey]) -> tuple[BudgetKey, ...]:
        """Those of the needed budgets that select pods of the unit."""
        keys = (
            budget.key for pod in unit.pods for budget in self._budgets.selecting(pod.namespace, pod.labels)
        )
        return tuple(dict.fromkeys(key for key in keys if key in needed))

    def _takes_disruption(self, pod: RunningPod, budget: Budget, action: DrainAction) -> bool:
        """Whether the pod takes one of the disruptions that the budget allows."""
        if not pod.running or pod.ready:
            return pod.running
        if action is DrainAction.SUSPEND:
            return not budget.always_allow_unready
        return not budget.allows_unready_eviction(self._pending_disruptions.get(budget.key, 0))

    def _shortage(self, unit: Unit, budget: Budget, *, needed: int, selected: int) -> _Shortage | None:
        """By how much the budget falls short of the unit; None if the budget allows it."""
        allowed = max(0, budget.allowed - self._pending_disruptions.get(budget.key, 0))
        is_suspended = unit.action is DrainAction.SUSPEND
        busy = budget.key in self._suspended_budgets
        busy = busy or (is_suspended and budget.key in self._suspending_budgets)
        if needed <= allowed and not busy:
            return None
        return _Shortage(budget=budget, needed=needed, allowed=allowed, selected=selected, busy=busy)

    def _under_several(self, unit: Unit, pod: RunningPod, budgets: tuple[Budget, ...]) -> BlockedUnit:
        by = join_limited([str(budget) for budget in budgets], limit=MAX_NAMED, joined=" and ")
        message = _TWO_BUDGETS_TEXT.format(pod=pod, by=by) + (
            f", or wait: {self._deletion_text}" if self._deletion_text else ""
        )
        return _blocked_unit(unit, BlockerReason.TWO_BUDGETS, by, message, never=not self._deletion_text)

    def _unknown_budgets(self, unit: Unit, pod: RunningPod) -> str:
        """Why the budgets of a unit of several pods are unknown; a single pod is left to the eviction API."""
        goes_whole = unit.action is DrainAction.SUSPEND or (bool(unit.gang) and not unit.started)
        return self._budgets.excess(pod.namespace, pod.labels) if goes_whole else ""

    def _under_too_many(self, unit: Unit, pod: RunningPod, excess: str) -> BlockedUnit:
        end = (
            self._deletion_text
            or "delete some, or set spec.drain.deadline with afterDeadline Scale or Delete"
        )
        by = f"PodDisruptionBudgets of namespace {pod.namespace}"
        return _blocked_unit(
            unit, BlockerReason.MANY_BUDGETS, by, f"{excess}; {end}", never=not self._deletion_text
        )

    def _blocked(self, decisions: Iterable[Unit | BlockedUnit | _ShortUnit]) -> tuple[BlockedUnit, ...]:
        """All units that do not go. Only now is it known which pods each budget still counts."""
        staying = [each for each in decisions if not isinstance(each, Unit)]
        counts: Counter[BudgetKey] = Counter()
        for each in staying:
            for pod in each.unit.pods:
                counts.update(budget.key for budget in self._budgets.selecting(pod.namespace, pod.labels))
        return tuple(
            each if isinstance(each, BlockedUnit) else self._explain(each, counts) for each in staying
        )

    def _explain(self, short: _ShortUnit, counts: Mapping[BudgetKey, int]) -> BlockedUnit:
        """Block the unit in the name of the first budget that can never allow it, or else of the first."""
        forecasts = [_Forecast(each, counts[each.budget.key]) for each in short.shortages]
        forecast = next((each for each in forecasts if each.never), forecasts[0])
        shortage, budget = forecast.shortage, str(forecast.shortage.budget)
        if shortage.budget.broken:
            why = f"{budget} allows no pod, for its status cannot be computed: {shortage.budget.broken}"
            return self._blocked_by_budget(short.unit, budget, f"{why}; {_WAY_OUT}")
        if forecast.never:
            return self._blocked_by_budget(short.unit, budget, f"{budget} {self._kept_text(forecast)}")
        if shortage.busy:
            message = f"{budget} lets one workload be suspended at a time, and pods of another are leaving"
            return _blocked_unit(short.unit, BlockerReason.BUDGET_BUSY, budget, message)
        message = f"{budget} allows {shortage.allowed} now, and {shortage.needed} would have to go"
        kept = f"; it {self._kept_text(forecast)}" if forecast.kept else ""
        return _blocked_unit(short.unit, BlockerReason.BUDGET, budget, message + kept)

    def _blocked_by_budget(self, unit: Unit, budget: str, message: str) -> BlockedUnit:
        """Block the unit for good, unless what is left is deleted at the deadline."""
        return _blocked_unit(unit, BlockerReason.BUDGET, budget, message, never=not self._deletion_text)

    def _kept_text(self, forecast: _Forecast) -> str:
        """The message after the name of the budget: how many pods it keeps, and the way out."""
        shortage, pods = forecast.shortage, "1 pod" if forecast.kept == 1 else f"{forecast.kept} pods"
        good, end = ("", self._deletion_text) if self._deletion_text else (" for good", _WAY_OUT)
        whole = f"{shortage.selected} pods go together or not at all; " if shortage.selected > 1 else ""
        return (
            f"keeps {pods}{good}: it wants {shortage.budget.desired} healthy, and replacements wait for the "
            f"queue; {whole}{end}"
        )

    @property
    def _deadline_text(self) -> str:
        deadline = self._spec.deadline
        return rfc3339(deadline) if deadline is not None else ""

    @property
    def _deletion_text(self) -> str:
        """When the pods that are left are deleted, in words; empty if they will not be."""
        if self._spec.deadline is None or self._overdue or not self._spec.delete_after_deadline:
            return ""
        end = "scaled to zero or deleted" if self._spec.scale_after_deadline else "deleted"
        return f"what is left is {end} at the deadline {self._deadline_text}"


_KEPT_PART_TEXT = "{part} of it stays by rule ({rule}), and would go with it; have all of it stay, or none"
_WAY_OUT = "lower what it wants, delete it, or set spec.drain.deadline with afterDeadline Scale or Delete"
_DEADLINE_TEXT = "the deadline {at} has passed, and drain.afterDeadline is Keep: what runs goes on"
_TWO_BUDGETS_TEXT = (
    "the eviction API refuses {pod} for ever, for it is under {by}; leave it under one of them"
)


def _gang_of_all(pods: Iterable[RunningPod]) -> BudgetKey:
    """The gang of all these pods of one namespace; of none, if they differ."""
    gangs = {gang_key(pod) for pod in pods}
    return gangs.pop() if len(gangs) == 1 else ("", "")


def _joined(gang: BudgetKey, units: list[Unit]) -> Unit:
    """The workloads and other pods of one gang as one unit."""
    if len(units) == 1:
        return units[0]
    pods = sorted((pod for unit in units for pod in unit.pods), key=_pod_order)
    workloads = (
        msgspec.structs.replace(unit, gang=gang[1]) for unit in units if unit.action is DrainAction.SUSPEND
    )
    parts = tuple(sorted(workloads, key=str))
    return Unit(action=DrainAction.SUSPEND, pods=tuple(pods), gang=gang[1], parts=parts)


def _overdue_action(unit: Unit) -> DrainAction:
    if unit.action is not DrainAction.SUSPEND or unit.workload is None:
        return DrainAction.DELETE
    return DrainAction.SCALE if unit.workload.scaled else DrainAction.SUSPEND_ANYWAY


def _is_split(pod: RunningPod, kept_parts: Mapping[str, RunningPod]) -> bool:
    """Whether its workload would be scaled, and has a pod that stays by rule: its pods go one by one."""
    return pod.workload is not None and pod.workload.scaled and pod.workload.uid in kept_parts


def _blocked_unit(
    unit: Unit, reason: BlockerReason, by: str, message: str, *, never: bool = False
) -> BlockedUnit:
    stalls = f"{unit.gang_text} has begun to go and stalls: " if unit.gang and unit.started else ""
    return BlockedUnit(unit=unit, reason=reason, blocker=by, message=stalls + message, never=never)


def _unit_order(entry: tuple[Unit, RunningPod | None]) -> tuple[bool, int, float, str, str]:
    """Started units first; then by the highest priority of their pods, by the youngest, and by name."""
    unit = entry[0]
    first, *others = unit.pods
    priority, youngest = first.priority, first.created
    for pod in others:
        priority, youngest = max(priority, pod.priority), max(youngest, pod.created)
    return not unit.started, priority, -youngest.timestamp(), str(unit), first.name


def _pod_order(pod: RunningPod) -> tuple[int, float, str]:
    return pod.priority, -pod.created.timestamp(), pod.name
