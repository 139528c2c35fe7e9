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
                                       at a time
pod       it is evicted                its budget allows one more
========  ===========================  ===============================================================

What a pod takes of its budget: nothing while its phase is not Running. Nothing either while it is not ready,
if the budget says AlwaysAllow, or has all the healthy pods that it wants; but the latter only by eviction,
which looks again, and not with a suspended workload. Otherwise one.

Invariants
- While pods of a suspended workload leave, no other pod of their budgets is asked to go.
- No plan asks a budget for more than it allows, nor for a pod that two budgets select.
- A unit that has started comes first; then the lowest priority, then the youngest, then by name.
- Where the budgets of a pod are too many to be read (`BudgetIndex.excess`), a single pod is left to the
  eviction API, which reads all of them; a unit of several pods does not go.
- A budget that can never allow a unit is told apart from one that does not allow it now. `never` is set where
  too few pods would stay healthy even if all became ready that can, and nothing else went. It is not set
  where the deadline ends it.
- Past the deadline nothing is evicted any more. What is left stays (`afterDeadline: Keep`), or is deleted,
  budgets or not (`Delete`); what stays by rule stays.
- A pod that is leaving is not asked to go again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from datetime import datetime

import msgspec

from queues.apimachinery.timestamps import rfc3339
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
) -> Plan:
    """What may be done now for these pods: all running pods of the queues of one drain.

    `pending_disruptions`: by budget, disruptions that were asked for and that the budgets, as they were read,
    do not show yet; without those of suspended workloads, whose budgets are in `busy_budgets`.
    `started_gangs`: the gangs of which pods were evicted already. `busy_budgets`: budgets
    of the suspended workloads of other drains, or of pods that have just gone.
    """
    planner = _Planner(
        budgets,
        spec,
        now=now,
        pending_disruptions=pending_disruptions or {},
        started_gangs=started_gangs,
        busy_budgets=busy_budgets,
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
    """What will become of a shortage: `kept` of the pods that the budget selects and that do not go now
    stay."""

    def __init__(self, shortage: _Shortage, counted: int) -> None:
        ever = shortage.budget.eventually_allowed(counted)
        self.shortage = shortage
        self.kept = counted - ever if ever is not None else 0
        self.never = ever is not None and ever < shortage.selected


class _Planner:
    """One plan in the making."""

    def __init__(
        self,
        budgets: BudgetIndex,
        spec: DrainSpec,
        *,
        now: datetime,
        pending_disruptions: Mapping[BudgetKey, int],
        started_gangs: Container[BudgetKey],
        busy_budgets: Collection[BudgetKey],
    ) -> None:
        self._budgets = budgets
        self._spec = spec
        self._overdue = spec.overdue(now)
        self._pending_disruptions = dict(pending_disruptions)
        self._started_gangs = started_gangs
        #: Budgets of suspended workloads with pods that are leaving; of workloads that this plan suspends.
        self._suspended_budgets: set[BudgetKey] = set(busy_budgets)
        self._suspending_budgets: set[BudgetKey] = set()

    def plan(self, pods: tuple[RunningPod, ...]) -> Plan:
        ruled = [(pod, keep_rule(pod, self._spec)) for pod in pods]
        kept = tuple((pod, rule) for pod, rule in ruled if rule is not None and not self._is_leaving(pod))
        going = [pod for pod, rule in ruled if rule is None or self._is_leaving(pod)]
        leaving = tuple(pod for pod in going if self._is_leaving(pod))
        own = self._budgets_of_suspended(leaving)
        parts = {pod.workload.uid: pod for pod, _ in kept if pod.workload is not None}
        units = sorted(self._units(going, parts), key=_unit_order)
        judged = [self._decide(unit, part) for unit, part in units]
        steps = tuple(one for one in judged if isinstance(one, Unit))
        blocked = self._blocked(judged)
        return Plan(steps=steps, kept=kept, blocked=blocked, leaving=leaving, busy_budgets=frozenset(own))

    def _is_leaving(self, pod: RunningPod) -> bool:
        """Past the deadline, pods of a suspended workload that nobody deletes are not waited for."""
        if pod.leaving or pod.workload is None or not pod.workload.suspended:
            return pod.leaving
        return not (pod.workload.stalled and self._overdue and self._spec.delete_after_deadline)

    def _budgets_of_suspended(self, leaving: tuple[RunningPod, ...]) -> set[BudgetKey]:
        """The budgets of suspended workloads: their pods are deleted, and no budget is asked."""
        own: set[BudgetKey] = set()
        for pod in leaving:
            if pod.leaving or pod.workload is None or not pod.workload.suspended:
                continue  # a pod that is being deleted does not count as healthy any more
            own.update(budget.key for budget in self._budgets.selecting(pod.namespace, pod.labels))
        self._suspended_budgets |= own
        return own

    def _units(
        self, going: list[RunningPod], parts: Mapping[str, RunningPod]
    ) -> list[tuple[Unit, RunningPod | None]]:
        """The units, each with the pod of it that stays by rule, if there is one."""
        works: dict[str, list[RunningPod]] = {}
        gangs: dict[BudgetKey, list[RunningPod]] = {}
        found: list[tuple[Unit, RunningPod | None]] = []
        started_gangs = {(pod.namespace, pod.pod_group) for pod in going if pod.leaving}
        for pod in going:
            gang = (pod.namespace, pod.pod_group)
            if self._is_leaving(pod):
                continue
            if pod.workload is not None and not pod.workload.suspended:
                works.setdefault(pod.workload.uid, []).append(pod)
            elif pod.pod_group and gang not in started_gangs and gang not in self._started_gangs:
                gangs.setdefault(gang, []).append(pod)
            else:
                unit = Unit(
                    action=DrainAction.EVICT, pods=(pod,), gang=pod.pod_group, started=bool(pod.pod_group)
                )
                found.append((unit, None))
        for uid, pods in works.items():
            unit = Unit(action=DrainAction.SUSPEND, pods=tuple(pods), workload=pods[0].workload)
            found.append((unit, parts.get(uid)))
        for gang, pods in gangs.items():
            pods.sort(key=_pod_order)
            found.append((Unit(action=DrainAction.EVICT, pods=tuple(pods), gang=gang[1]), None))
        return found

    def _decide(self, unit: Unit, part: RunningPod | None) -> Unit | BlockedUnit | _ShortUnit:
        """The unit with its budgets, as a step; or why it is none."""
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

    def _after_deadline(self, unit: Unit) -> Unit | BlockedUnit:
        if not self._spec.delete_after_deadline:
            message = _DEADLINE_TEXT.format(at=self._deadline_text)
            return _blocked_unit(unit, BlockerReason.DEADLINE, "spec.drain.deadline", message, never=True)
        action = DrainAction.SUSPEND_ANYWAY if unit.action is DrainAction.SUSPEND else DrainAction.DELETE
        return msgspec.structs.replace(unit, action=action)

    def _by_budgets(self, unit: Unit) -> Unit | BlockedUnit | _ShortUnit:
        needs: dict[BudgetKey, int] = {}
        counted: dict[BudgetKey, int] = {}
        held: dict[BudgetKey, Budget] = {}
        for pod in unit.pods:
            found = self._budgets.selecting(pod.namespace, pod.labels)
            if pod.running and len(found) > 1:
                return self._under_several(unit, pod, found)
            if pod.running and not found and (excess := self._unknown_budgets(unit, pod)):
                return self._under_too_many(unit, pod, excess)
            for budget in found:
                held[budget.key] = budget
                counted[budget.key] = counted.get(budget.key, 0) + 1
                if self._takes_disruption(pod, budget, unit.action):
                    needs[budget.key] = needs.get(budget.key, 0) + 1
        if not held:
            return unit
        lacks = tuple(
            lack
            for key, need in needs.items()
            if (lack := self._shortage(unit, held[key], need, counted[key]))
        )
        if lacks:
            return _ShortUnit(unit, lacks)
        for key, need in needs.items():
            self._pending_disruptions[key] = self._pending_disruptions.get(key, 0) + need
        if unit.action is DrainAction.SUSPEND:
            self._suspending_budgets.update(held)
        return msgspec.structs.replace(unit, budgets=tuple(needs))

    def _takes_disruption(self, pod: RunningPod, budget: Budget, how: DrainAction) -> bool:
        """Whether the pod takes one of what the budget allows."""
        if not pod.running or pod.ready:
            return pod.running
        if how is DrainAction.SUSPEND:
            return not budget.always_allow_unready
        return not budget.allows_unready_eviction(self._pending_disruptions.get(budget.key, 0))

    def _shortage(self, unit: Unit, budget: Budget, need: int, counted: int) -> _Shortage | None:
        """None if the budget allows the unit."""
        allowed = max(0, budget.allowed - self._pending_disruptions.get(budget.key, 0))
        busy = budget.key in self._suspended_budgets or (
            unit.action is DrainAction.SUSPEND and budget.key in self._suspending_budgets
        )
        if need <= allowed and not busy:
            return None
        return _Shortage(budget=budget, needed=need, allowed=allowed, selected=counted, busy=busy)

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
        end = self._deletion_text or "delete some, or set spec.drain.deadline with afterDeadline Delete"
        by = f"PodDisruptionBudgets of namespace {pod.namespace}"
        return _blocked_unit(
            unit, BlockerReason.MANY_BUDGETS, by, f"{excess}; {end}", never=not self._deletion_text
        )

    def _blocked(self, judged: Iterable[Unit | BlockedUnit | _ShortUnit]) -> tuple[BlockedUnit, ...]:
        """All units that do not go. Only now is it known which pods each budget still counts."""
        staying = [one for one in judged if not isinstance(one, Unit)]
        counts: Counter[BudgetKey] = Counter()
        for one in staying:
            for pod in one.unit.pods:
                counts.update(budget.key for budget in self._budgets.selecting(pod.namespace, pod.labels))
        return tuple(one if isinstance(one, BlockedUnit) else self._explain(one, counts) for one in staying)

    def _explain(self, short: _ShortUnit, counts: Mapping[BudgetKey, int]) -> BlockedUnit:
        """By the first budget that never allows it; else by the first that does not now."""
        told = [_Forecast(lack, counts[lack.budget.key]) for lack in short.shortages]
        one = next((one for one in told if one.never), told[0])
        lack, by = one.shortage, str(one.shortage.budget)
        if one.never and not lack.budget.broken:
            together = f"{lack.selected} go together or not at all: " if lack.selected > 1 else ""
            words = together + self._kept_text(one)
            return _blocked_unit(short.unit, BlockerReason.BUDGET, by, words, never=not self._deletion_text)
        if lack.budget.broken:
            message = f"{by} allows nobody, its status cannot be worked out: {lack.budget.broken}; {_WAY_OUT}"
            return _blocked_unit(short.unit, BlockerReason.BUDGET, by, message, never=not self._deletion_text)
        if lack.busy:
            message = f"{by} lets one work go at a time, and another is on its way"
            return _blocked_unit(short.unit, BlockerReason.BUDGET_BUSY, by, message)
        message = f"{by} allows {lack.allowed} now, and {lack.needed} would have to go"
        keeps = f"; {self._kept_text(one)}" if one.kept else ""
        return _blocked_unit(short.unit, BlockerReason.BUDGET, by, message + keeps)

    def _kept_text(self, one: _Forecast) -> str:
        budget, pods = one.shortage.budget, "1 pod" if one.kept == 1 else f"{one.kept} pods"
        good, end = ("", self._deletion_text) if self._deletion_text else (" for good", _WAY_OUT)
        return (
            f"{budget} keeps {pods}{good}: it wants {budget.desired} healthy, and replacements wait for the "
            f"queue; {end}"
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
        return f"what is left is deleted at the deadline {self._deadline_text}"


_KEPT_PART_TEXT = "{part} of it stays by rule ({rule}), and would go with it; have all of it stay, or none"
_WAY_OUT = "lower what it wants, delete it, or set spec.drain.deadline with afterDeadline Delete"
_DEADLINE_TEXT = "the deadline {at} has passed, and drain.afterDeadline is Keep: what runs goes on"
_TWO_BUDGETS_TEXT = (
    "the eviction API refuses {pod} for ever, for it is under {by}; leave it under one of them"
)


def _blocked_unit(
    unit: Unit, reason: BlockerReason, by: str, message: str, *, never: bool = False
) -> BlockedUnit:
    stalls = f"{unit} has begun to go and stalls: " if unit.gang and unit.started else ""
    return BlockedUnit(unit=unit, reason=reason, blocker=by, message=stalls + message, never=never)


def _unit_order(entry: tuple[Unit, RunningPod | None]) -> tuple[bool, int, float, str, str]:
    """By the most important pod of the unit, and its youngest."""
    unit = entry[0]
    first, *others = unit.pods
    priority, youngest = first.priority, first.created
    for pod in others:
        priority, youngest = max(priority, pod.priority), max(youngest, pod.created)
    return not unit.started, priority, -youngest.timestamp(), str(unit), first.name


def _pod_order(pod: RunningPod) -> tuple[int, float, str]:
    return pod.priority, -pod.created.timestamp(), pod.name
