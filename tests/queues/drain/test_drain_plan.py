"""Who goes, how and in which order: one case at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from queues.drain import plan as planning
from queues.drain.model import (
    BlockerReason,
    DrainAction,
    KeepRule,
)
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
    pods,
    steps_of,
)

WAITS = (BlockerReason.BUDGET, False)
B = (LAB, "b")


# Units


def test_a_pod_is_evicted_by_itself() -> None:
    (unit,) = planned([pod("a")]).steps
    assert (unit.action, str(unit), unit.started, unit.budgets) == (DrainAction.EVICT, "pod lab/a", False, ())


@pytest.mark.parametrize("kind", ["jobs", "jobsets", "jobs.batch.volcano.sh"])
def test_a_workload_is_suspended_whole(kind: str) -> None:
    """One step, whatever the number of its pods."""
    held = [pod(one.name, workload=one.workload) for one in job(3)]
    (unit,) = planned(held).steps
    assert (unit.action, unit.workload, len(unit.pods)) == (DrainAction.SUSPEND, held[0].workload, 3)


def test_a_gang_is_evicted_whole() -> None:
    """One step of all its pods, the least important and youngest first."""
    low, *others = gang(3)
    found = planned([pod(low.name, pod_group="g", priority=1), *reversed(others), pod("alone")])
    assert steps_of(found) == [["alone"], ["g-1", "g-2", "g-0"]]
    assert {unit.action for unit in found.steps} == {DrainAction.EVICT}


def test_pods_of_a_gang_with_a_workload_go_with_the_workload() -> None:
    """A Job of Volcano has a PodGroup too."""
    (unit,) = planned(job(2, pod_group="g")).steps
    assert (unit.action, unit.gang) == (DrainAction.SUSPEND, "")


def test_gangs_of_one_name_in_two_namespaces_are_two() -> None:
    found = planned([pod("a", pod_group="g"), pod("b", pod_group="g", namespace="other")])
    assert [str(unit) for unit in found.steps] == ["podgroup lab/g", "podgroup other/g"]


def test_the_table_of_units_has_the_three() -> None:
    """The page at the top of the module is what the tests above say."""
    first = [line.split("  ")[0] for line in (planning.__doc__ or "").splitlines()]
    assert [word for word in first if word in {"workload", "gang", "pod"}] == [
        "workload",
        "gang",
        "pod",
    ]


# Order


def test_the_lowest_priority_goes_first() -> None:
    found = planned([pod("high", priority=10), pod("low", priority=-1), pod("middle")])
    assert steps_of(found) == [["low"], ["middle"], ["high"]]


def test_of_pods_of_one_priority_the_youngest_goes_first() -> None:
    found = planned([pod("old", age=9), pod("young", age=1), pod("lower and older", age=99, priority=-1)])
    assert steps_of(found) == [["lower and older"], ["young"], ["old"]]


def test_pods_of_one_age_go_by_name() -> None:
    """The order is the same whoever leads, and whatever the store gives first."""
    assert steps_of(planned([pod("c"), pod("a"), pod("b")])) == [["a"], ["b"], ["c"]]


def test_a_gang_that_has_started_goes_by_name() -> None:
    """Its pods are of one age and priority as a rule."""
    held = [pod(name, pod_group="g") for name in ("c", "a", "b")]
    assert steps_of(planned(held, started_gangs=[(LAB, "g")])) == [["a"], ["b"], ["c"]]


def test_a_unit_counts_by_its_most_important_pod_and_its_youngest() -> None:
    """A Job with one important pod goes after those that are less important."""
    mixed = [*job(1, "mixed", priority=5), pod("mixed-1", workload=job(1, "mixed")[0].workload, age=50)]
    found = planned([*mixed, pod("four", priority=4), pod("five", priority=5, age=3)])
    assert [str(unit) for unit in found.steps] == ["pod lab/four", "job lab/mixed", "pod lab/five"]


def test_a_unit_that_has_started_goes_first() -> None:
    """Whatever its priority: it is finished first."""
    found = planned([pod("low", priority=-9), *gang(2, priority=9)], started_gangs=[(LAB, "g")])
    assert steps_of(found) == [["g-0"], ["g-1"], ["low"]]
    assert [unit.started for unit in found.steps] == [True, True, False]


def test_the_first_units_take_what_a_budget_allows() -> None:
    """What it allows is taken by those that go first; the others are told of."""
    found = planned([pod("high", priority=1), pod("old", age=5), pod("young")], budget(allowed=1))
    assert steps_of(found) == [["young"]]
    assert blocked(found) == {"old": WAITS, "high": WAITS}


# Who is on the way


def test_a_leaving_pod_is_not_a_step() -> None:
    found = planned([pod("a", leaving=True), pod("b")])
    assert steps_of(found) == [["b"]]
    assert [one.name for one in found.leaving] == ["a"]


def test_the_pods_of_a_suspended_workload_are_leaving() -> None:
    """The Job controller deletes them."""
    found = planned(job(2, suspended=True))
    assert (found.steps, len(found.leaving)) == ((), 2)


def test_a_leaving_pod_is_not_kept_by_a_rule() -> None:
    """Neither whom others delete, nor the pods of work that is suspended."""
    held = [pod("a", leaving=True), *job(1, suspended=True)]
    found = planned(held, spec=keeping(app="web"))
    assert found.kept == ()
    assert found.leaving == tuple(held)


def test_a_drain_with_no_pods_has_no_steps() -> None:
    found = planned([pod("d", daemon=True)])
    assert (found.steps, found.blocked, found.left) == ((), (), 0)
    assert [(one.name, rule) for one, rule in found.kept] == [("d", KeepRule.DAEMON)]


# What a pod takes of its budget


@each_case(
    ("fields", "of", "goes"),
    [
        ({}, {"allowed": 1}, True),
        ({}, {"allowed": 0}, False),
        ({"ready": False}, {"allowed": 0}, False),
        ({"ready": False}, {"allowed": 0, "always_allow_unready": True}, True),
        ({}, {"allowed": 0, "always_allow_unready": True}, False),
        ({"ready": False}, {"allowed": 0, "healthy": 2, "desired": 2}, True),
        ({"ready": False}, {"allowed": 0, "healthy": 1, "desired": 2}, False),
        ({}, {"allowed": 0, "healthy": 2, "desired": 2}, False),
        ({"running": False, "ready": False}, {"allowed": 0}, True),
        ({"labels": {"app": "db"}}, {"allowed": 0}, True),
        ({"namespace": "other"}, {"allowed": 0}, True),
    ],
)
def test_a_pod_goes_where_the_eviction_api_would_let_it(
    fields: Mapping[str, Any], of: Mapping[str, Any], goes: bool
) -> None:
    """Ready pods take one of what is allowed; others as its policy says; pods that do not run yet nothing."""
    assert bool(planned([pod(**fields)], budget(**of)).steps) is goes


def test_pods_that_are_not_ready_take_nothing_of_a_budget() -> None:
    """The pod that does not run yet and the broken one go, and so does as many as the budget allows."""
    held = [
        pod("starting", running=False, ready=False),
        pod("broken", ready=False),
        *pods(2),
    ]
    found = planned(held, budget(allowed=1, always_allow_unready=True, healthy=2, desired=1))
    assert sorted(map(tuple, steps_of(found))) == [("broken",), ("p0",), ("starting",)]
    assert {unit.pods[0].name: unit.budgets for unit in found.steps} == {
        "starting": (),
        "broken": (),
        "p0": (B,),
    }


def test_pending_disruptions_count_before_the_budget_shows_them() -> None:
    found = planned(pods(3), budget(allowed=2), pending_disruptions={B: 1, (LAB, "other"): 9})
    assert steps_of(found) == [["p0"]]


def test_more_pending_disruptions_than_allowed_are_not_negative() -> None:
    """The budget's status may be older than what was asked for."""
    found = only_block(planned([pod()], budget(allowed=1), pending_disruptions={B: 5}))
    assert found.message == "PodDisruptionBudget lab/b allows 0 now, and 1 would have to go"


# What is left


def test_left_counts_steps_and_blocked_and_leaving_pods() -> None:
    """1 to go, 2 of a Job that waits, 3 on their way; the DaemonSet's pod is not counted."""
    held = [
        pod("goes", labels={}),
        *job(2),
        *pods(3, "leaves", leaving=True),
        pod("d", daemon=True),
    ]
    found = planned(held, budget())
    assert (len(found.steps), len(found.blocked), len(found.leaving), len(found.kept)) == (1, 1, 3, 1)
    assert found.left == 6
