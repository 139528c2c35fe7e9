"""Emptying a queue: who goes, in which order, and who is kept from going by what.

A function of values: the pods that run, the budgets, the wishes of `spec.drain` and the time go in, a `Plan`
comes out. The controller carries it out; `kubectl queue drain --dry-run` prints it.

Who does not stay by rule (`queues.drain.model`) goes, as units that go whole or not at all:

================  ============================  ============================================
unit              how it goes                   when
================  ============================  ============================================
work that pauses  it is suspended: a Job, a     every budget allows all of its pods at once,
                  JobSet, a `batch.volcano.sh`  and no other such work of that budget is
                  Job                           on its way
gang              its pods are evicted          every budget allows all of its pods; once it has
                                                begun, a pod at a time
pod               it is evicted                 its budget allows one more
================  ============================  ============================================

What a pod takes of its budget: nothing while its phase is not Running. Nothing either while it is not ready,
if the budget says AlwaysAllow, or has all the healthy pods that it wants; but the latter only by eviction,
which looks again, and not with suspended work. Otherwise one.

Invariants
- While pods of paused work are on their way, nobody else of their budgets is asked to go.
- No plan asks a budget for more than it allows, nor for a pod that two budgets select.
- A unit that has begun comes first; then the lowest priority, then the youngest, then by name.
- Where the budgets of a pod are too many to be looked at (`Index.excess`), a pod alone is left to the
  eviction API, which looks at all of them; what goes whole does not go.
- A budget that can never allow it is told apart from one that does not allow it now: `never` is said where
  even if all became ready that can, and nobody else went, too few would stay. Not where the deadline ends it.
- Past the deadline nothing is evicted any more. What is left stays (`afterDeadline: Keep`), or is deleted,
  budgets or not (`Delete`); who stays by rule stays.
- Whoever is on its way is not asked to go again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping
from datetime import datetime

import msgspec

from queues.apimachinery.display import join_limited
from queues.apimachinery.timestamps import rfc3339
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
    rule_for,
)

#: Budgets that are named where a pod is under several.
NAMED = 3


def plan(
    runners: Iterable[RunningPod],
    budgets: Index,
    wishes: DrainSpec,
    *,
    now: datetime,
    taken: Mapping[Key, int] | None = None,
    begun: Container[Key] = frozenset(),
    busy: Collection[Key] = frozenset(),
) -> Plan:
    """What may be done now for these pods, all that run in the queues of one drain.

    `taken`: by budget, disruptions that were asked for and that what was read does not know of yet, but for
    the pods of paused work, whose budgets nobody else is asked of. `begun`: the gangs, by namespace and name,
    that pods were evicted from already. `busy`: budgets of other drains' paused work, or whose pods have just
    gone.
    """
    planning = _Planning(budgets, wishes, now=now, taken=taken or {}, begun=begun, busy=busy)
    return planning.plan(tuple(runners))


class _Lack(msgspec.Struct, frozen=True, kw_only=True):
    """A budget that does not let a unit go now: `need` is what it would take, `counted` whom it selects."""

    budget: Budget
    need: int
    allowed: int
    counted: int
    busy: bool


class _Short(msgspec.Struct, frozen=True):
    """A unit that budgets do not let go now."""

    unit: Unit
    lacks: tuple[_Lack, ...]


class _Outlook:
    """What will come of a lack: of all that it counts and that do not go now the budget keeps `keeps`."""

    def __init__(self, lack: _Lack, counted: int) -> None:
        ever = lack.budget.may_ever_go(counted)
        self.lack = lack
        self.keeps = counted - ever if ever is not None else 0
        self.never = ever is not None and ever < lack.counted


class _Planning:
    """One plan in the making."""

    def __init__(
        self,
        budgets: Index,
        wishes: DrainSpec,
        *,
        now: datetime,
        taken: Mapping[Key, int],
        begun: Container[Key],
        busy: Collection[Key],
    ) -> None:
        self._budgets = budgets
        self._wishes = wishes
        self._overdue = wishes.overdue(now)
        self._taken = dict(taken)
        self._begun = begun
        #: Budgets of work that was suspended and whose pods are not gone yet; of work that is about to be.
        self._paused: set[Key] = set(busy)
        self._pausing: set[Key] = set()

    def plan(self, runners: tuple[RunningPod, ...]) -> Plan:
        ruled = [(pod, rule_for(pod, self._wishes)) for pod in runners]
        kept = tuple((pod, rule) for pod, rule in ruled if rule is not None and not self._is_on_its_way(pod))
        going = [pod for pod, rule in ruled if rule is None or self._is_on_its_way(pod)]
        leaving = tuple(pod for pod in going if self._is_on_its_way(pod))
        own = self._note(leaving)
        parts = {pod.work.uid: pod for pod, _ in kept if pod.work is not None}
        units = sorted(self._units(going, parts), key=_order)
        judged = [self._judge(unit, part) for unit, part in units]
        steps = tuple(one for one in judged if isinstance(one, Unit))
        blocked = self._blocked(judged)
        return Plan(steps=steps, kept=kept, blocked=blocked, leaving=leaving, busy=frozenset(own))

    def _is_on_its_way(self, pod: RunningPod) -> bool:
        """Past the deadline nobody waits for who should end the pods of paused work, and does not."""
        if pod.leaving or pod.work is None or not pod.work.paused:
            return pod.leaving
        return not (pod.work.stalled and self._overdue and self._wishes.delete_after)

    def _note(self, leaving: tuple[RunningPod, ...]) -> set[Key]:
        """What paused work is about to take: its pods are deleted, and no budget is asked; whose budgets."""
        own: set[Key] = set()
        for pod in leaving:
            if pod.leaving or pod.work is None or not pod.work.paused:
                continue  # who is being deleted counts as healthy no more
            own.update(budget.key for budget in self._budgets.of(pod.namespace, pod.labels))
        self._paused |= own
        return own

    def _units(
        self, going: list[RunningPod], parts: Mapping[str, RunningPod]
    ) -> list[tuple[Unit, RunningPod | None]]:
        """Who goes together, and the part of it that is to stay, if there is one."""
        works: dict[str, list[RunningPod]] = {}
        gangs: dict[Key, list[RunningPod]] = {}
        found: list[tuple[Unit, RunningPod | None]] = []
        begun = {(pod.namespace, pod.group) for pod in going if pod.leaving}
        for pod in going:
            gang = (pod.namespace, pod.group)
            if self._is_on_its_way(pod):
                continue
            if pod.work is not None and not pod.work.paused:
                works.setdefault(pod.work.uid, []).append(pod)
            elif pod.group and gang not in begun and gang not in self._begun:
                gangs.setdefault(gang, []).append(pod)
            else:
                unit = Unit(how=How.EVICT, pods=(pod,), gang=pod.group, begun=bool(pod.group))
                found.append((unit, None))
        for uid, pods in works.items():
            unit = Unit(how=How.SUSPEND, pods=tuple(pods), work=pods[0].work)
            found.append((unit, parts.get(uid)))
        for gang, pods in gangs.items():
            pods.sort(key=_rank)
            found.append((Unit(how=How.EVICT, pods=tuple(pods), gang=gang[1]), None))
        return found

    def _judge(self, unit: Unit, part: RunningPod | None) -> Unit | Block | _Short:
        """The unit with its budgets, to be taken; or why it is not."""
        if self._wishes.unreadable:
            return _block(unit, BlockerReason.SETTINGS, "spec.drain", self._wishes.unreadable, never=True)
        if part is not None:
            return _block(
                unit,
                BlockerReason.KEPT_PART,
                str(part),
                _KEPT_PART.format(part=part, rule=rule_for(part, self._wishes)),
                never=True,
            )
        if self._overdue:
            return self._after_deadline(unit)
        return self._by_budgets(unit)

    def _after_deadline(self, unit: Unit) -> Unit | Block:
        if not self._wishes.delete_after:
            message = _DEADLINE.format(at=self._deadline)
            return _block(unit, BlockerReason.DEADLINE, "spec.drain.deadline", message, never=True)
        how = How.SUSPEND_ANYWAY if unit.how is How.SUSPEND else How.DELETE
        return msgspec.structs.replace(unit, how=how)

    def _by_budgets(self, unit: Unit) -> Unit | Block | _Short:
        needs: dict[Key, int] = {}
        counted: dict[Key, int] = {}
        held: dict[Key, Budget] = {}
        for pod in unit.pods:
            found = self._budgets.of(pod.namespace, pod.labels)
            if pod.running and len(found) > 1:
                return self._under_several(unit, pod, found)
            if pod.running and not found and (excess := self._excess(unit, pod)):
                return self._under_too_many(unit, pod, excess)
            for budget in found:
                held[budget.key] = budget
                counted[budget.key] = counted.get(budget.key, 0) + 1
                if self._costs(pod, budget, unit.how):
                    needs[budget.key] = needs.get(budget.key, 0) + 1
        if not held:
            return unit
        lacks = tuple(
            lack for key, need in needs.items() if (lack := self._lack(unit, held[key], need, counted[key]))
        )
        if lacks:
            return _Short(unit, lacks)
        for key, need in needs.items():
            self._taken[key] = self._taken.get(key, 0) + need
        if unit.how is How.SUSPEND:
            self._pausing.update(held)
        return msgspec.structs.replace(unit, budgets=tuple(needs))

    def _costs(self, pod: RunningPod, budget: Budget, how: How) -> bool:
        """Whether it takes one of what the budget allows."""
        if not pod.running or pod.ready:
            return pod.running
        if how is How.SUSPEND:
            return not budget.spares_unready
        return not budget.lets_unready_go(self._taken.get(budget.key, 0))

    def _lack(self, unit: Unit, budget: Budget, need: int, counted: int) -> _Lack | None:
        """What this budget lacks to let the unit go; None if it does."""
        allowed = max(0, budget.allowed - self._taken.get(budget.key, 0))
        busy = budget.key in self._paused or (unit.how is How.SUSPEND and budget.key in self._pausing)
        if need <= allowed and not busy:
            return None
        return _Lack(budget=budget, need=need, allowed=allowed, counted=counted, busy=busy)

    def _under_several(self, unit: Unit, pod: RunningPod, budgets: tuple[Budget, ...]) -> Block:
        by = join_limited([str(budget) for budget in budgets], limit=NAMED, joined=" and ")
        message = _TWO.format(pod=pod, by=by) + (f", or wait: {self._deleted}" if self._deleted else "")
        return _block(unit, BlockerReason.TWO_BUDGETS, by, message, never=not self._deleted)

    def _excess(self, unit: Unit, pod: RunningPod) -> str:
        """Why nobody knows the budgets of a unit that goes whole; a pod alone is left to the eviction API."""
        goes_whole = unit.how is How.SUSPEND or (bool(unit.gang) and not unit.begun)
        return self._budgets.excess(pod.namespace, pod.labels) if goes_whole else ""

    def _under_too_many(self, unit: Unit, pod: RunningPod, excess: str) -> Block:
        end = self._deleted or "delete some, or set spec.drain.deadline with afterDeadline Delete"
        by = f"PodDisruptionBudgets of namespace {pod.namespace}"
        return _block(unit, BlockerReason.MANY_BUDGETS, by, f"{excess}; {end}", never=not self._deleted)

    def _blocked(self, judged: Iterable[Unit | Block | _Short]) -> tuple[Block, ...]:
        """All that do not go. Only now is it known whom each budget still counts."""
        staying = [one for one in judged if not isinstance(one, Unit)]
        counts: Counter[Key] = Counter()
        for one in staying:
            for pod in one.unit.pods:
                counts.update(budget.key for budget in self._budgets.of(pod.namespace, pod.labels))
        return tuple(one if isinstance(one, Block) else self._tell(one, counts) for one in staying)

    def _tell(self, short: _Short, counts: Mapping[Key, int]) -> Block:
        """By the first budget that never lets it go; else by the first that does not now."""
        told = [_Outlook(lack, counts[lack.budget.key]) for lack in short.lacks]
        one = next((one for one in told if one.never), told[0])
        lack, by = one.lack, str(one.lack.budget)
        if one.never and not lack.budget.broken:
            together = f"{lack.counted} go together or not at all: " if lack.counted > 1 else ""
            words = together + self._keeps(one)
            return _block(short.unit, BlockerReason.BUDGET, by, words, never=not self._deleted)
        if lack.budget.broken:
            message = f"{by} allows nobody, its status cannot be worked out: {lack.budget.broken}; {_WAY_OUT}"
            return _block(short.unit, BlockerReason.BUDGET, by, message, never=not self._deleted)
        if lack.busy:
            message = f"{by} lets one work go at a time, and another is on its way"
            return _block(short.unit, BlockerReason.BUDGET_BUSY, by, message)
        message = f"{by} allows {lack.allowed} now, and {lack.need} would have to go"
        keeps = f"; {self._keeps(one)}" if one.keeps else ""
        return _block(short.unit, BlockerReason.BUDGET, by, message + keeps)

    def _keeps(self, one: _Outlook) -> str:
        budget, pods = one.lack.budget, "1 pod" if one.keeps == 1 else f"{one.keeps} pods"
        good, end = ("", self._deleted) if self._deleted else (" for good", _WAY_OUT)
        return (
            f"{budget} keeps {pods}{good}: it wants {budget.desired} healthy, and replacements wait for the "
            f"queue; {end}"
        )

    @property
    def _deadline(self) -> str:
        deadline = self._wishes.deadline
        return rfc3339(deadline) if deadline is not None else ""

    @property
    def _deleted(self) -> str:
        """When who is left is deleted, in words; empty if nobody will be."""
        if self._wishes.deadline is None or self._overdue or not self._wishes.delete_after:
            return ""
        return f"what is left is deleted at the deadline {self._deadline}"


_KEPT_PART = "{part} of it stays by rule ({rule}), and would go with it; have all of it stay, or none"
_WAY_OUT = "lower what it wants, delete it, or set spec.drain.deadline with afterDeadline Delete"
_DEADLINE = "the deadline {at} has passed, and drain.afterDeadline is Keep: what runs goes on"
_TWO = "the eviction API refuses {pod} for ever, for it is under {by}; leave it under one of them"


def _block(unit: Unit, hindrance: BlockerReason, by: str, message: str, *, never: bool = False) -> Block:
    stalls = f"{unit} has begun to go and stalls: " if unit.gang and unit.begun else ""
    return Block(unit=unit, hindrance=hindrance, by=by, message=stalls + message, never=never)


def _order(found: tuple[Unit, RunningPod | None]) -> tuple[bool, int, float, str, str]:
    """A unit counts by its most important pod and its youngest."""
    unit = found[0]
    first, *others = unit.pods
    priority, youngest = first.priority, first.created
    for pod in others:
        priority, youngest = max(priority, pod.priority), max(youngest, pod.created)
    return not unit.begun, priority, -youngest.timestamp(), str(unit), first.name


def _rank(pod: RunningPod) -> tuple[int, float, str]:
    return pod.priority, -pod.created.timestamp(), pod.name
