"""Emptying a queue: who goes, in which order, and who is kept from going by what.

A function of values: the pods that run, the budgets, the wishes of `spec.drain` and the time go in, a `Plan`
comes out. The controller carries it out; `kubectl queue drain --dry-run` prints it.

Who does not stay by rule (`queues.draining`) goes, as units that go whole or not at all:

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

Invariants
- No plan asks a budget for more than it allows, nor for a pod that two budgets select.
- A unit that has begun comes first; then the lowest priority, then the youngest, then by name.
- A budget that can never allow it is told apart from one that does not allow it now.
- Past the deadline nothing is evicted any more. What is left stays (`afterDeadline: Keep`), or is deleted,
  budgets or not (`Delete`); who stays by rule stays.
- Whoever is on its way is not asked to go again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from datetime import datetime

import msgspec

from queues.budgets import Budget, Index, Key
from queues.draining import Block, Hindrance, How, Plan, Runner, Unit, Wishes, rule_for


def plan(
    runners: Iterable[Runner],
    budgets: Index,
    wishes: Wishes,
    *,
    now: datetime,
    taken: Mapping[Key, int] | None = None,
    begun: Container[Key] = frozenset(),
) -> Plan:
    """What may be done now for these pods, all that run in the queues of one drain.

    `taken`: by budget, disruptions that were asked for and that what was read does not know of yet. `begun`:
    the gangs, by namespace and name, that pods were evicted from already.
    """
    planning = _Planning(budgets, wishes, now=now, taken=taken or {}, begun=begun)
    return planning.plan(tuple(runners))


class _Planning:
    """One plan in the making."""

    def __init__(
        self,
        budgets: Index,
        wishes: Wishes,
        *,
        now: datetime,
        taken: Mapping[Key, int],
        begun: Container[Key],
    ) -> None:
        self._budgets = budgets
        self._wishes = wishes
        self._overdue = wishes.overdue(now)
        self._taken = dict(taken)
        self._begun = begun
        #: Budgets of work that was suspended and whose pods are not gone yet.
        self._busy: set[Key] = set()
        #: Pods that are to go, or go, by the budget that holds for them.
        self._going: dict[Key, int] = {}

    def plan(self, runners: tuple[Runner, ...]) -> Plan:
        ruled = [(pod, rule_for(pod, self._wishes)) for pod in runners]
        kept = tuple((pod, rule) for pod, rule in ruled if rule is not None and not pod.leaving)
        going = [pod for pod, rule in ruled if rule is None or pod.leaving]
        leaving = tuple(pod for pod in going if _on_its_way(pod))
        self._note(going)
        parts = {pod.work.uid: pod for pod, _ in kept if pod.work is not None}
        units = sorted(self._units(going, parts), key=_order)
        steps: list[Unit] = []
        blocked: list[Block] = []
        for unit, part in units:
            told = self._judge(unit, part)
            if isinstance(told, Block):
                blocked.append(told)
            else:
                steps.append(told)
        return Plan(steps=tuple(steps), kept=kept, blocked=tuple(blocked), leaving=leaving)

    def _note(self, going: list[Runner]) -> None:
        for pod in going:
            for budget in self._budgets.of(pod.namespace, pod.labels):
                if not pod.leaving:
                    self._going[budget.key] = self._going.get(budget.key, 0) + 1
                if pod.work is not None and pod.work.paused:
                    self._busy.add(budget.key)

    def _units(self, going: list[Runner], parts: Mapping[str, Runner]) -> list[tuple[Unit, Runner | None]]:
        """Who goes together, and the part of it that is to stay, if there is one."""
        works: dict[str, list[Runner]] = {}
        gangs: dict[Key, list[Runner]] = {}
        found: list[tuple[Unit, Runner | None]] = []
        begun = {(pod.namespace, pod.group) for pod in going if pod.leaving}
        for pod in (pod for pod in going if not _on_its_way(pod)):
            gang = (pod.namespace, pod.group)
            if pod.work is not None:
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

    def _judge(self, unit: Unit, part: Runner | None) -> Unit | Block:
        """The unit with its budgets, to be taken; or why it is not."""
        if self._wishes.unreadable:
            return _block(unit, Hindrance.SETTINGS, "spec.drain", self._wishes.unreadable, never=True)
        if part is not None:
            return _block(unit, Hindrance.KEPT_PART, str(part), _KEPT_PART.format(part=part), never=True)
        if self._overdue:
            return self._after_deadline(unit)
        return self._by_budgets(unit)

    def _after_deadline(self, unit: Unit) -> Unit | Block:
        if not self._wishes.delete_after:
            deadline = self._wishes.deadline
            at = f"{deadline:%Y-%m-%dT%H:%M:%SZ}" if deadline else ""
            return _block(
                unit, Hindrance.DEADLINE, "spec.drain.deadline", _DEADLINE.format(at=at), never=True
            )
        how = How.SUSPEND_ANYWAY if unit.how is How.SUSPEND else How.DELETE
        return msgspec.structs.replace(unit, how=how)

    def _by_budgets(self, unit: Unit) -> Unit | Block:
        needs: dict[Key, int] = {}
        held: dict[Key, Budget] = {}
        for pod in unit.pods:
            if not pod.running:
                continue
            found = self._budgets.of(pod.namespace, pod.labels)
            if len(found) > 1:
                by = " and ".join(str(budget) for budget in found)
                return _block(unit, Hindrance.TWO_BUDGETS, by, _TWO.format(pod=pod, by=by), never=True)
            for budget in found:
                held[budget.key] = budget
                if pod.ready or not budget.spares_unready:
                    needs[budget.key] = needs.get(budget.key, 0) + 1
        for key, need in needs.items():
            block = self._short(unit, held[key], need)
            if block is not None:
                return block
        for key, need in needs.items():
            self._taken[key] = self._taken.get(key, 0) + need
        if unit.how is How.SUSPEND:
            self._busy.update(held)
        return msgspec.structs.replace(unit, budgets=tuple(held))

    def _short(self, unit: Unit, budget: Budget, need: int) -> Block | None:
        """Why this budget does not let the unit go; None if it does."""
        ever = budget.may_ever_go(self._going.get(budget.key, need))
        never = ever is not None and ever < need
        if unit.how is How.SUSPEND and budget.key in self._busy and not never:
            message = f"{budget} lets one work go at a time, and another is on its way"
            return _block(unit, Hindrance.BUDGET_BUSY, str(budget), message)
        allowed = max(0, budget.allowed - self._taken.get(budget.key, 0))
        if need <= allowed:
            return None
        if ever is not None and ever < self._going.get(budget.key, need):
            message = _never(budget, going=self._going[budget.key], ever=ever)
            return _block(unit, Hindrance.BUDGET, str(budget), message, never=never or allowed == 0)
        message = f"{budget} allows {allowed} now, and {need} would have to go"
        return _block(unit, Hindrance.BUDGET, str(budget), message)


_KEPT_PART = "{part} of it is to stay, and would go with it; label it otherwise or take it out of drain.keep"
_DEADLINE = "the deadline {at} has passed, and drain.afterDeadline is Keep: what runs goes on"
_TWO = "the eviction API refuses {pod} for ever, for it is under {by}; leave it under one of them"


def _never(budget: Budget, *, going: int, ever: int) -> str:
    return (
        f"{budget} keeps {going - ever} of {going} pods for good: it wants {budget.desired} healthy, and "
        "replacements wait for the queue; lower what it wants, delete it, or set spec.drain.deadline with "
        "afterDeadline Delete"
    )


def _block(unit: Unit, hindrance: Hindrance, by: str, message: str, *, never: bool = False) -> Block:
    stalls = f"{unit} has begun to go and stalls: " if unit.gang and unit.begun else ""
    return Block(unit=unit, hindrance=hindrance, by=by, message=stalls + message, never=never)


def _on_its_way(pod: Runner) -> bool:
    return pod.leaving or (pod.work is not None and pod.work.paused)


def _order(found: tuple[Unit, Runner | None]) -> tuple[bool, int, float, str]:
    """A unit counts by its most important pod and its youngest."""
    unit = found[0]
    youngest = max(pod.created for pod in unit.pods)
    return not unit.begun, max(pod.priority for pod in unit.pods), -youngest.timestamp(), str(unit)


def _rank(pod: Runner) -> tuple[int, float, str]:
    return pod.priority, -pod.created.timestamp(), pod.name
