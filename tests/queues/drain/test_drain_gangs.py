"""Gangs of which workloads are a part: what goes together, and what it waits for."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from queues.drain.model import BlockerReason, DrainAction, RunningPod, Unit
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
