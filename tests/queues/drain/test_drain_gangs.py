"""What goes together of a gang of which workloads are a part, and what goes of one that is broken."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from queues.drain.broken_gangs import GangMinimum, broken_gangs
from queues.drain.disruption_budgets import Budget, BudgetIndex, BudgetKey
from queues.drain.model import (
    BlockerReason,
    DrainAction,
    DrainSpec,
    KeepRule,
    Plan,
    RunningPod,
    Termination,
    Unit,
)
from queues.drain.plan import plan
from tests.support.cases import each_case
from tests.support.drain.drain_cases import (
    LAB,
    blocked,
    budget,
    gang,
    job,
    keeping,
    only_block,
    planned,
    pod,
    steps_of,
    work,
)
from tests.support.rules.cases import NOW, SECOND

G, B = (LAB, "g"), (LAB, "b")


def jobs(*names: str, of: int = 2, suspended: str = "") -> list[RunningPod]:
    """Jobs of one PodGroup, of so many pods each."""
    return [one for name in names for one in job(of, name, suspended=name == suspended, pod_group="g")]


def parts_of(unit: Unit) -> list[str]:
    return [str(part) for part in unit.parts]


# Workloads of one PodGroup are suspended in one go


def test_the_jobs_of_one_podgroup_are_one_step() -> None:
    (unit,) = planned(jobs("b", "a")).steps
    assert (str(unit), unit.action, parts_of(unit)) == (
        "podgroup lab/g",
        DrainAction.SUSPEND,
        ["job lab/a", "job lab/b"],
    )
    assert sorted(one.name for one in unit.pods) == ["a-0", "a-1", "b-0", "b-1"]
    assert {part.gang for part in unit.parts} == {"g"}


def test_pods_of_no_workload_are_of_the_step_and_follow() -> None:
    """A budget that they share with a Job waits for the pods of that: they go once it is suspended."""
    (unit,) = planned([*jobs("a"), *gang(1)]).steps
    assert ([len(part.pods) for part in unit.parts], len(unit.pods)) == ([2], 3)
    found = planned([*jobs("a", suspended="a"), *gang(1)])
    assert [(str(step), step.action, step.started) for step in found.steps] == [
        ("podgroup lab/g", DrainAction.EVICT, True)
    ]


def test_the_jobs_of_two_podgroups_or_of_none_are_two_steps() -> None:
    held = [*job(1, "a", pod_group="g"), *job(1, "b", pod_group="h"), *job(1, "c"), *job(1, "d")]
    assert [str(unit) for unit in planned(held).steps] == [f"job lab/{name}" for name in "abcd"]


def test_a_job_with_pods_of_two_podgroups_goes_by_itself() -> None:
    split = work("split")
    held = [pod("one", pod_group="g", workload=split), pod("two", pod_group="h", workload=split)]
    assert [str(unit) for unit in planned([*held, *jobs("a")]).steps] == ["job lab/a", "job lab/split"]


def test_a_budget_allows_all_jobs_of_the_podgroup_or_none() -> None:
    """It would allow one of them."""
    found = planned(jobs("a", "b"), budget(allowed=3))
    assert found.steps == ()
    block = only_block(found)
    assert (block.reason, str(block.unit)) == (BlockerReason.BUDGET, "podgroup lab/g")
    assert "4 would have to go" in block.message
    (unit,) = planned(jobs("a", "b"), budget(allowed=4)).steps
    assert (unit.budgets, [part.budgets for part in unit.parts]) == ((B,), [(B,), (B,)])


def test_each_job_takes_disruptions_of_its_own_budgets() -> None:
    """What is pending of a budget is of the Job that it selects."""
    held = [replace(one, labels={"job": one.workload.name}) for one in jobs("a", "b") if one.workload]
    own = [budget(f"of-{name}", labels={"job": name}, allowed=2) for name in "ab"]
    (unit,) = planned(held, *own).steps
    assert [part.budgets for part in unit.parts] == [((LAB, "of-a"),), ((LAB, "of-b"),)]


def test_other_jobs_of_that_budget_wait_for_their_turn() -> None:
    found = planned([*jobs("a", "b"), *job(1, "z", priority=1)], budget(allowed=9))
    assert [str(unit) for unit in found.steps] == ["podgroup lab/g"]
    assert only_block(found).reason is BlockerReason.BUDGET_BUSY


@pytest.mark.parametrize("known", ["remembered", "seen"])
def test_what_is_left_of_a_podgroup_that_has_begun_goes_first_and_by_itself(known: str) -> None:
    """One of its Jobs could not be suspended; a new leader sees that it has begun."""
    held = jobs("a", "b", suspended="a") if known == "seen" else jobs("b")
    begun = [G] if known == "remembered" else []
    found = planned([*held, pod("low", priority=-1)], started_gangs=begun)
    assert steps_of(found) == [["b-0", "b-1"], ["low"]]
    first = found.steps[0]
    assert (str(first), first.started, first.gang, first.parts) == ("job lab/b", True, "g", ())
    stalls = only_block(planned(held, budget(allowed=0), started_gangs=begun))
    assert stalls.message.startswith("podgroup lab/g has begun to go and stalls: ")


def test_a_job_whose_own_pod_leaves_is_no_beginning() -> None:
    """Somebody deletes one of its pods: the Jobs still go together."""
    first, *others = jobs("a", "b")
    (unit,) = planned([replace(first, leaving=True), *others]).steps
    assert parts_of(unit) == ["job lab/a", "job lab/b"]


def test_a_job_of_which_a_pod_stays_by_rule_holds_up_none_of_the_others() -> None:
    """It stays as a whole, as it does without a PodGroup."""
    first, *others = jobs("a", "b", "c")
    found = planned([replace(first, labels={"stay": "yes"}), *others], spec=keeping(stay="yes"))
    assert [parts_of(unit) for unit in found.steps] == [["job lab/b", "job lab/c"]]
    assert blocked(found) == {"a-1": (BlockerReason.KEPT_PART, True)}


def test_past_the_deadline_each_goes_by_itself() -> None:
    """No budget is asked there, so no half of it can be left."""
    spec = replace(keeping(stay="yes"), deadline=NOW - SECOND, delete_after_deadline=True)
    found = planned([*jobs("a", "b"), *gang(1)], budget(allowed=0), spec=spec)
    assert [(str(unit), unit.action) for unit in found.steps] == [
        ("job lab/a", DrainAction.SUSPEND_ANYWAY),
        ("job lab/b", DrainAction.SUSPEND_ANYWAY),
        ("podgroup lab/g", DrainAction.DELETE),
    ]


# What is left of a gang (brokenGangs: Evict)


EVICT = replace(keeping(stay="yes"), keep_bare=True, evict_broken_gangs=True)
LATE = replace(DrainSpec(evict_broken_gangs=True), deadline=NOW - SECOND)


def ring(number: int, *, kept: int = 0, name: str = "g", **fields: Any) -> list[RunningPod]:
    """A gang of so many pods, of which so many stay by `drain.keep`."""
    return [
        replace(one, labels={"app": "web", "stay": "yes"} if place < kept else one.labels)
        for place, one in enumerate(gang(number, name, **fields))
    ]


def least(number: int, *beside: str, name: str = "g", **tasks: int) -> dict[BudgetKey, GangMinimum]:
    return {(LAB, name): GangMinimum(least=number, tasks=tuple(tasks.items()), beside=beside)}


def drained(
    held: list[RunningPod],
    minimums: dict[BudgetKey, GangMinimum],
    *budgets: Budget,
    spec: DrainSpec = EVICT,
    started: bool = False,
) -> Plan:
    """The plan of a drain that knows these gangs."""
    return plan(
        held,
        BudgetIndex(budgets),
        spec,
        now=NOW,
        broken_gangs=broken_gangs(held, spec, minimums, now=NOW),
        started_gangs=[G] if started else [],
    )


def kept_of(found: Plan) -> dict[str, KeepRule]:
    return {one.name: rule for one, rule in found.kept}


def test_what_a_label_keeps_of_a_gang_goes_where_it_is_less_than_the_minimum() -> None:
    """In one step with the others: all of it may go, or none does."""
    found = drained(ring(4, kept=2), least(3))
    (unit,) = found.steps
    assert (len(unit.pods), found.kept, unit.overruled) == (4, (), frozenset({"uid-g-0", "uid-g-1"}))
    assert unit.because == (
        "with podgroup lab/g, of which less than its minimum of 3 pods would stay (drain.brokenGangs: Evict)"
    )
    assert drained(ring(4, kept=2), least(3), budget(allowed=3)).steps == ()


@each_case(
    ("minimums", "spec"),
    [
        (least(2), EVICT),
        ({}, EVICT),
        (least(3), replace(EVICT, evict_broken_gangs=False)),
        (least(3, name="other"), EVICT),
        (least(3, ""), EVICT),
    ],
    ids=["enough stay", "no PodGroup", "Keep", "of another gang", "another queue has one more"],
)
def test_what_a_label_keeps_of_a_gang_stays_otherwise(
    minimums: dict[BudgetKey, GangMinimum], spec: DrainSpec
) -> None:
    found = drained(ring(4, kept=2), minimums, spec=spec)
    assert steps_of(found) == [["g-2", "g-3"]]
    assert set(kept_of(found).values()) == {KeepRule.LABEL}
    assert found.steps[0].overruled == frozenset()


def test_bare_pods_of_a_gang_go_too() -> None:
    """Though nothing makes them again: who sets both fields is asked by the plugin."""
    first, *others = gang(3)
    (unit,) = drained([replace(first, bare=True), *others], least(3)).steps
    assert (len(unit.pods), unit.overruled) == (3, frozenset({"uid-g-0"}))


@pytest.mark.parametrize(
    ("fields", "rule"), [({"daemon": True}, "DaemonSet"), ({"priority": 2 * 10**9}, "SystemCritical")]
)
def test_pods_of_daemonsets_and_system_critical_ones_stay_in_any_case(
    fields: dict[str, Any], rule: str
) -> None:
    """They count as staying, and those that stay beside them go if that is not enough."""
    first, *others = ring(3, kept=2)
    found = drained([replace(first, **fields), *others], least(3))
    assert (steps_of(found), kept_of(found)) == ([["g-1", "g-2"]], {"g-0": rule})
    assert steps_of(drained([replace(first, **fields), *others], least(2))) == [["g-2"]]


def test_a_gang_that_stays_as_a_whole_is_left_alone() -> None:
    found = drained(ring(3, kept=3), least(3))
    assert (found.steps, len(found.kept)) == ((), 3)


def test_what_stayed_goes_once_the_others_are_gone() -> None:
    """A new leader, or a field that is set later: what runs now says it."""
    found = drained(ring(2, kept=2), least(3))
    assert steps_of(found) == [["g-0", "g-1"]]


def test_a_minimum_of_a_task_counts() -> None:
    """Two stay of two, but no launcher."""
    held = [replace(one, task="worker" if one.name != "g-2" else "launcher") for one in ring(3, kept=2)]
    assert len(drained(held, least(2, launcher=1)).steps[0].pods) == 3
    assert steps_of(drained(held, least(2, worker=1))) == [["g-2"]]
    assert steps_of(drained(held, least(2, "launcher", launcher=1))) == [["g-2"]]


def test_a_pod_that_is_kept_and_waits_for_its_owner_to_be_known_counts_as_staying() -> None:
    """Else a gang would go for a moment's ignorance."""
    first, second, third = ring(3, kept=2)
    found = drained([replace(first, leaving=True), second, third], least(2))
    assert steps_of(found) == [["g-2"]]
    going = replace(first, leaving=True, termination=Termination(requested_at=NOW, grace=30))
    assert steps_of(drained([going, second, third], least(2))) == [["g-1"], ["g-2"]]


def test_a_job_of_a_broken_gang_is_suspended_with_its_kept_pods() -> None:
    """Without the field it stays whole, since a part of it does."""
    held = [replace(one, labels={"stay": "yes"} if one.name == "a-0" else {}) for one in jobs("a", "b")]
    (unit,) = drained(held, least(2)).steps
    assert (parts_of(unit), unit.overruled) == (["job lab/a", "job lab/b"], frozenset({"uid-a-0"}))
    assert [part.overruled for part in unit.parts] == [{"uid-a-0"}, frozenset()]
    found = drained(held, least(1))
    assert [str(step) for step in found.steps] == ["job lab/b"]


@pytest.mark.parametrize(("running", "goes"), [(2, True), (3, False)])
def test_past_a_deadline_that_keeps_a_gang_that_has_begun_to_go_goes_on(running: int, goes: bool) -> None:
    """Within its budgets, as before the deadline; one that is whole is left alone."""
    found = drained(gang(running), least(3), spec=LATE, started=running < 3)
    assert bool(found.steps) is goes
    if goes:
        assert {unit.action for unit in found.steps} == {DrainAction.EVICT}
        assert steps_of(drained(gang(running), least(3), budget(allowed=1), spec=LATE, started=True)) == [
            ["g-0"]
        ]
    else:
        assert only_block(found).reason is BlockerReason.DEADLINE


def test_past_a_deadline_that_deletes_what_would_stay_is_deleted_too() -> None:
    spec = replace(EVICT, deadline=NOW - SECOND, delete_after_deadline=True)
    (unit,) = drained(ring(3, kept=1), least(2), budget(allowed=0), spec=spec).steps
    assert (unit.action, len(unit.pods)) == (DrainAction.DELETE, 3)
    assert steps_of(drained(ring(3, kept=1), least(1), spec=spec)) == [["g-1", "g-2"]]
