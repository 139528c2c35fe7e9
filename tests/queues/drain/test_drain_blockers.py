"""What keeps whom from going, and whether for good: one case at a time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from queues.apimachinery.label_selectors import Selector
from queues.drain.model import (
    BlockerReason,
    DrainAction,
    DrainSpec,
    KeepRule,
    RunningPod,
    SuspendableWorkload,
)
from tests.support.drain.drain_cases import (
    LAB,
    blocked,
    budget,
    gang,
    job,
    keeping,
    only_block,
    planned,
    planned_unread,
    pod,
    pods,
    steps_of,
    work,
)
from tests.support.rules.cases import (
    NOW,
    SECOND,
    plain,
)

WAITS, NEVER = (BlockerReason.BUDGET, False), (BlockerReason.BUDGET, True)
BUSY = (BlockerReason.BUDGET_BUSY, False)
B = (LAB, "b")

#: The deadline has passed, and who is left stays, or is deleted.
OVERDUE = DrainSpec(deadline=NOW - SECOND)
DELETE = DrainSpec(deadline=NOW, delete_after_deadline=True)
SCALE = replace(DELETE, scale_after_deadline=True)


def scalable(name: str, *, suspended: bool = False) -> SuspendableWorkload:
    """A Deployment that the plan may bring to zero; `suspended`: it was."""
    return replace(work(name, kind="deployments", suspended=suspended), scaled=True)


# Two budgets


def test_a_pod_under_two_budgets_never_goes() -> None:
    """The eviction API answers 500 for ever, whatever they allow: both are named, and the way out."""
    found = only_block(planned([pod("a")], budget("b", allowed=9), budget("c", allowed=9)))
    assert (found.reason, found.never) == (BlockerReason.TWO_BUDGETS, True)
    assert found.blocker == "PodDisruptionBudget lab/b and PodDisruptionBudget lab/c"
    assert "refuses pod lab/a for ever" in found.message
    assert "leave it under one of them" in found.message


def test_a_pod_under_two_budgets_that_does_not_run_yet_goes() -> None:
    """The API looks at no budget then."""
    assert steps_of(planned([pod(running=False)], budget("b"), budget("c"))) == [["p"]]


def test_an_unready_pod_under_two_budgets_never_goes() -> None:
    """The API counts the budgets before it looks at their policies."""
    spares = [budget(name, always_allow_unready=True) for name in "bc"]
    assert only_block(planned([pod(ready=False)], *spares)).reason is BlockerReason.TWO_BUDGETS


@pytest.mark.parametrize("held", [job(3), gang(3)], ids=["job", "gang"])
def test_one_pod_under_two_budgets_keeps_the_whole_unit(held: list[RunningPod]) -> None:
    *others, last = held
    twice = pod(
        last.name, pod_group=last.pod_group, workload=last.workload, labels={"app": "web", "tier": "front"}
    )
    found = planned([*others, twice], budget(allowed=9), budget("t", labels={"tier": "front"}, allowed=9))
    assert only_block(found).reason is BlockerReason.TWO_BUDGETS
    assert found.left == 3


# Jobs


def test_a_job_goes_when_its_budget_allows_all_of_it() -> None:
    assert blocked(planned(job(3), budget(allowed=2))) == {"j-0 j-1 j-2": WAITS}
    (unit,) = planned(job(3), budget(allowed=3)).steps
    assert unit.budgets == (B,)


def test_a_job_needs_each_of_its_budgets() -> None:
    """Some of its pods under one, some under another; the one that never allows it is told first."""
    made_by = job(1)[0].workload
    held = [*job(2), pod("db", labels={"app": "db"}, workload=made_by)]
    db = budget("db", labels={"app": "db"}, allowed=1)
    assert len(planned(held, budget(allowed=2), db).steps) == 1
    assert only_block(planned(held, budget(allowed=1), db)).blocker == "PodDisruptionBudget lab/b"
    never = budget("db", labels={"app": "db"}, desired=1, outside=0)
    found = only_block(planned(held, budget(allowed=1), never))
    assert (found.blocker, found.never) == ("PodDisruptionBudget lab/db", True)


def test_one_job_of_a_budget_goes_at_a_time() -> None:
    """Though the budget would allow both: it learns of the first only when its pods are gone."""
    found = planned([*job(2, "one"), *job(2, "two")], budget(allowed=4))
    assert [str(unit) for unit in found.steps] == ["job lab/one"]
    busy = (
        "PodDisruptionBudget lab/b lets one workload be suspended at a time, and pods of another are leaving"
    )
    assert only_block(found).message == busy
    assert blocked(found) == {"two-0 two-1": BUSY}


def test_jobs_of_two_budgets_go_together() -> None:
    held = [*job(2, "one"), *job(2, "two", labels={"app": "db"})]
    found = planned(held, budget(allowed=2), budget("db", labels={"app": "db"}, allowed=2))
    assert len(found.steps) == 2


@pytest.mark.parametrize("after", [job(1), pods(1), gang(1)], ids=["job", "pod", "gang"])
def test_a_budget_waits_for_the_pods_of_a_suspended_workload(after: list[RunningPod]) -> None:
    """While one of them is not being deleted, whoever suspended it, though a rule would have kept it."""
    before = job(1, "before", suspended=True, labels={"app": "web", "stay": "yes"})
    found = planned([*before, *after], budget(allowed=9), spec=keeping(stay="yes"))
    assert list(blocked(found).values()) == [BUSY]
    assert found.busy_budgets == {B}


@pytest.mark.parametrize("after", [job(1), pods(1), gang(1)], ids=["job", "pod", "gang"])
def test_a_budget_does_not_wait_for_pods_that_are_being_deleted(after: list[RunningPod]) -> None:
    """They are not healthy any more: one that hangs on a finalizer keeps nobody else."""
    found = planned([*job(1, "before", suspended=True, leaving=True), *after], budget(allowed=9))
    assert (len(found.steps), found.blocked, found.busy_budgets) == (1, (), frozenset())


@pytest.mark.parametrize("after", [job(1), pods(1), gang(1)], ids=["job", "pod", "gang"])
def test_a_budget_waits_for_suspended_workloads_of_other_drains(after: list[RunningPod]) -> None:
    """Its budgets are told to us; they are not ours to tell on."""
    found = planned(after, budget(allowed=9), busy_budgets=[B])
    assert list(blocked(found).values()) == [BUSY]
    assert found.busy_budgets == frozenset()


def test_a_pod_that_takes_nothing_of_a_busy_budget_goes() -> None:
    """Pods that do not run yet, and pods that it does not select."""
    after = [pod("starting", running=False, ready=False), pod("elsewhere", labels={})]
    found = planned([*job(1, suspended=True), *after], budget(allowed=9))
    assert sorted(map(tuple, steps_of(found))) == [("elsewhere",), ("starting",)]


def test_pods_go_beside_a_job_as_far_as_the_budget_allows() -> None:
    """What the Job takes is not there for them."""
    found = planned([*job(2), *pods(2, priority=1)], budget(allowed=3))
    assert steps_of(found) == [["j-0", "j-1"], ["p0"]]


def test_the_unready_pods_of_a_job_count() -> None:
    """No eviction looks again whether they are ready by now; only AlwaysAllow lets them go all the same."""
    held = job(2, ready=False)
    whole: dict[str, Any] = {"allowed": 1, "healthy": 3, "desired": 2}
    assert not planned(held, budget(**whole)).steps
    assert planned(held, budget(**whole, always_allow_unready=True)).steps


@pytest.mark.parametrize("spec", [keeping(stay="yes"), DrainSpec(keep=Selector())], ids=["one", "all"])
def test_a_job_with_a_kept_pod_stays(spec: DrainSpec) -> None:
    """It would go with the others; all of it kept is kept, and no block."""
    held = [*job(2), pod("kept", workload=job(1)[0].workload, labels={"stay": "yes"})]
    found = planned(held, spec=spec)
    if spec == DrainSpec(keep=Selector()):
        assert (len(found.kept), found.blocked) == (3, ())
        return
    block = only_block(found)
    assert (block.reason, block.never, block.blocker) == (BlockerReason.KEPT_PART, True, "pod lab/kept")
    assert "stays by rule (KeepSelector)" in block.message
    assert [(one.name, rule) for one, rule in found.kept] == [("kept", KeepRule.LABEL)]
    assert found.left == 2


# Gangs


def test_a_gang_starts_only_where_all_of_it_may_go() -> None:
    assert blocked(planned(gang(3), budget(allowed=2))) == {"g-0 g-1 g-2": WAITS}
    assert steps_of(planned(gang(3), budget(allowed=3))) == [["g-0", "g-1", "g-2"]]


@pytest.mark.parametrize("started_gangs", [[(LAB, "g")], []], ids=["remembered", "seen"])
def test_a_gang_that_has_started_goes_pod_by_pod(started_gangs: list[tuple[str, str]]) -> None:
    """As far as the budget allows; the rest stalls, and that is said."""
    first, *others = gang(3)
    gone = pod(first.name, pod_group="g", leaving=True)
    found = planned(
        others if started_gangs else [gone, *others], budget(allowed=1), started_gangs=started_gangs
    )
    assert steps_of(found) == [["g-1"]]
    assert only_block(found).message.startswith("podgroup lab/g has begun to go and stalls: ")


def test_a_gang_without_its_kept_part_goes() -> None:
    """Evicting the others takes nobody along."""
    held = [*gang(2), pod("kept", pod_group="g", labels={"stay": "yes"})]
    assert steps_of(planned(held, spec=keeping(stay="yes"))) == [["g-0", "g-1"]]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [(DrainSpec(deadline=NOW), BlockerReason.DEADLINE), (DrainSpec(), BlockerReason.BUDGET)],
    ids=["deadline", "budget"],
)
def test_what_is_left_of_a_gang_is_left_by_what_somebody_has_set(
    spec: DrainSpec, reason: BlockerReason
) -> None:
    """A pod of two in a gang that was begun, and one Job of two."""
    rest = [pod("g-1", pod_group="g"), *job(1, pod_group="g")]
    found = planned(rest, budget(), spec=spec, started_gangs=[(LAB, "g")])
    assert {names: why for names, (why, _) in blocked(found).items()} == {"g-1": reason, "j-0": reason}
    assert len(planned(rest, budget(), spec=DELETE, started_gangs=[(LAB, "g")]).steps) == 2


def test_a_gang_that_waits_does_not_keep_others_from_going() -> None:
    found = planned([*gang(3), pod("alone", priority=1)], budget(allowed=1))
    assert steps_of(found) == [["alone"]]


# Budgets that can never allow it


def test_a_deployment_of_three_of_which_two_have_to_run_never_ends() -> None:
    """One goes, and its replacement waits for the queue: the others are told of at once, with the way out."""
    found = planned(pods(3), budget(allowed=1, healthy=3, desired=2, outside=0))
    assert steps_of(found) == [["p0"]]
    assert blocked(found) == {"p1": NEVER, "p2": NEVER}
    assert {block.message for block in found.blocked} == {
        "PodDisruptionBudget lab/b keeps 2 pods for good: it wants 2 healthy, and replacements wait for the "
        "queue; lower what it wants, delete it, or set spec.drain.deadline with afterDeadline Scale or Delete"
    }


def test_it_is_blocked_for_good_after_the_first_pod_has_gone_too() -> None:
    found = planned(pods(2), budget(allowed=0, healthy=2, desired=2, outside=0))
    assert blocked(found) == {"p0": NEVER, "p1": NEVER}


def test_a_budget_that_pods_outside_may_fill_is_waited_for() -> None:
    """The pods outside are not ready yet; when they are, all may go."""
    assert blocked(planned(pods(2), budget(healthy=2, desired=2, outside=2))) == {"p0": WAITS, "p1": WAITS}


def test_pods_of_which_some_may_go_later_are_not_blocked_for_good() -> None:
    """Who it will be is not known before; how many stay is."""
    found = planned(pods(3), budget(healthy=2, desired=2, outside=1))
    assert blocked(found) == {"p0": WAITS, "p1": WAITS, "p2": WAITS}
    assert "allows 0 now, and 1 would have to go; it keeps 1 pod for good" in (found.blocked[0].message)


def test_a_broken_pod_does_not_stay_for_good() -> None:
    """Two healthy pods are what the budget wants: the third, which is not ready, may go."""
    held = [pod("broken", ready=False, age=9), *pods(2)]
    found = planned(held, budget(allowed=0, healthy=2, desired=2, outside=0))
    assert steps_of(found) == [["broken"]]
    assert blocked(found) == {"p0": NEVER, "p1": NEVER}


def test_pods_that_are_not_ready_yet_may_make_room() -> None:
    """None is healthy now; once all are, one may go: nobody can say that it will not be this one."""
    found = planned(pods(3, ready=False), budget(desired=2, outside=0))
    assert set(blocked(found).values()) == {WAITS}


@pytest.mark.parametrize(
    "of", [{"outside": None}, {"outside": 0, "current": False}], ids=["outside", "status"]
)
def test_never_is_not_set_where_it_is_unknown(of: Mapping[str, Any]) -> None:
    """Nobody looked at the pods outside, or the status is of a former generation."""
    assert blocked(planned([pod()], budget(desired=1, **of))) == {"p": WAITS}


def test_pending_disruptions_do_not_set_never() -> None:
    """The budget would allow it, were it not for what its status does not know yet."""
    found = planned(pods(3), budget(allowed=1, healthy=3, desired=2, outside=2), pending_disruptions={B: 1})
    assert set(blocked(found).values()) == {WAITS}


def test_a_job_with_more_pods_than_may_ever_go_is_blocked_for_good() -> None:
    """Two of its pods could, but it goes whole: it is told so, though another Job is on its way too."""
    found = planned(
        [*job(1, "first", priority=-1), *job(3)], budget(allowed=3, healthy=4, desired=1, outside=0)
    )
    assert steps_of(found) == [["first-0"]]
    assert blocked(found) == {"j-0 j-1 j-2": NEVER}
    assert only_block(found).message.startswith("PodDisruptionBudget lab/b keeps 1 pod ")
    assert "; 3 pods go together or not at all; " in only_block(found).message


def test_a_gang_never_goes_though_a_part_of_it_takes_nothing_yet() -> None:
    """What does not run yet would be missing with the rest; and running, it would be one more to ask for."""
    held = [*gang(1), pod("starting", pod_group="g", running=False, ready=False)]
    assert set(blocked(planned(held, budget(healthy=1, desired=1, outside=0))).values()) == {NEVER}


def test_pods_that_stay_anyway_make_room_for_others() -> None:
    """The pod under two budgets stays healthy, which is all that the budget wants."""
    stuck = pod("stuck", labels={"app": "web", "tier": "front"}, priority=-1)
    found = planned(
        [stuck, pod("other")],
        budget(allowed=1, healthy=2, desired=1, outside=0),
        budget("t", labels={"tier": "front"}),
    )
    assert steps_of(found) == [["other"]]


# Deadlines


@pytest.mark.parametrize("held", [[pod()], job(2), gang(2)], ids=["pod", "job", "gang"])
def test_past_the_deadline_pods_stay(held: list[RunningPod]) -> None:
    """`afterDeadline: Keep`: nobody is asked any more, whatever the budgets say."""
    block = only_block(planned(held, budget(allowed=9), spec=OVERDUE))
    assert (block.reason, block.blocker, block.never) == (BlockerReason.DEADLINE, "spec.drain.deadline", True)
    assert block.message.startswith("the deadline 2030-01-01T11:59:59Z has passed")


def test_past_the_deadline_pods_are_deleted() -> None:
    """`afterDeadline: Delete`: under one budget, two or none; Jobs are suspended all the same."""
    twice = pod("twice", labels={"app": "web", "tier": "front"})
    found = planned(
        [pod(), twice, *job(2), *gang(2)], budget(), budget("t", labels={"tier": "front"}), spec=DELETE
    )
    assert {str(unit): unit.action for unit in found.steps} == {
        "pod lab/p": DrainAction.DELETE,
        "pod lab/twice": DrainAction.DELETE,
        "podgroup lab/g": DrainAction.DELETE,
        "job lab/j": DrainAction.SUSPEND_ANYWAY,
    }
    assert found.blocked == ()


def test_past_the_deadline_what_can_be_scaled_is() -> None:
    """`afterDeadline: Scale`: Jobs are suspended, all else is deleted."""
    web = pods(2, "web-", workload=scalable("web"))
    found = planned([pod(), *web, *job(2), *gang(2)], budget(), spec=SCALE)
    assert {str(unit): unit.action for unit in found.steps} == {
        "pod lab/p": DrainAction.DELETE,
        "deployment lab/web": DrainAction.SCALE,
        "podgroup lab/g": DrainAction.DELETE,
        "job lab/j": DrainAction.SUSPEND_ANYWAY,
    }
    assert [len(unit.pods) for unit in found.steps if unit.workload is not None and unit.workload.scaled] == [
        2
    ]


def test_pods_of_what_was_scaled_are_leaving_until_no_controller_deletes_them() -> None:
    """Then they are deleted one by one."""
    held = [pod("a", workload=scalable("web", suspended=True))]
    found = planned(held, spec=SCALE)
    assert (found.steps, [each.name for each in found.leaving]) == ((), ["a"])
    stalled = replace(scalable("web", suspended=True), stalled=True)
    found = planned([pod("a", workload=stalled)], spec=SCALE)
    assert [(str(unit), unit.action) for unit in found.steps] == [("pod lab/a", DrainAction.DELETE)]


def test_a_workload_of_which_a_pod_stays_by_rule_is_not_scaled() -> None:
    """Its other pods are deleted, as they would be without."""
    web = scalable("web")
    held = [pod("a", workload=web), pod("kept", workload=web, labels={"stay": "yes"})]
    found = planned(held, spec=replace(SCALE, keep=keeping(stay="yes").keep))
    assert [(str(unit), unit.action) for unit in found.steps] == [("pod lab/a", DrainAction.DELETE)]
    assert ([each.name for each, _ in found.kept], found.blocked) == (["kept"], ())


def test_past_the_deadline_pods_that_stay_by_rule_stay() -> None:
    """So does the Job that would take a kept pod along."""
    held = [pod("d", daemon=True), *job(1), pod("kept", workload=job(1)[0].workload, labels={"stay": "yes"})]
    spec = DrainSpec(keep=keeping(stay="yes").keep, deadline=NOW, delete_after_deadline=True)
    found = planned(held, spec=spec)
    assert [one.name for one, _ in found.kept] == ["d", "kept"]
    assert only_block(found).reason is BlockerReason.KEPT_PART


def test_before_the_deadline_budgets_hold() -> None:
    spec = DrainSpec(deadline=NOW + SECOND, delete_after_deadline=True)
    assert blocked(planned([pod()], budget(), spec=spec)) == {"p": WAITS}


def test_a_deadline_that_deletes_is_the_end_of_a_budget_that_never_allows_it() -> None:
    """Waiting helps: neither "for good" nor "set a deadline" is said where one is set."""
    spec = DrainSpec(deadline=NOW + timedelta(hours=1), delete_after_deadline=True)
    found = only_block(planned([pod()], budget(desired=1, outside=0), spec=spec))
    assert (found.reason, found.never) == WAITS
    assert "for good" not in found.message
    assert found.message.endswith("what is left is deleted at the deadline 2030-01-01T13:00:00Z")
    twice = only_block(planned([pod()], budget(), budget("c"), spec=spec))
    assert not twice.never
    assert twice.message.endswith("or wait: what is left is deleted at the deadline 2030-01-01T13:00:00Z")


def test_a_deadline_that_scales_is_such_an_end_too() -> None:
    spec = replace(SCALE, deadline=NOW + timedelta(hours=1))
    found = only_block(planned([pod()], budget(desired=1, outside=0), spec=spec))
    assert (found.reason, found.never) == WAITS
    assert found.message.endswith("is scaled to zero or deleted at the deadline 2030-01-01T13:00:00Z")


def test_a_deadline_that_keeps_is_no_way_past_a_budget() -> None:
    spec = DrainSpec(deadline=NOW + SECOND)
    assert only_block(planned([pod()], budget(desired=1, outside=0), spec=spec)).never


# Settings


@pytest.mark.parametrize("overdue", [DrainSpec(), DELETE], ids=["in time", "overdue"])
def test_no_pod_goes_where_the_settings_cannot_be_read(overdue: DrainSpec) -> None:
    """What they would have kept is not known. DaemonSets stay by rule all the same."""
    spec = DrainSpec(
        unreadable="spec.drain is a riddle",
        deadline=overdue.deadline,
        delete_after_deadline=overdue.delete_after_deadline,
    )
    found = planned([pod(), *job(2), pod("d", daemon=True)], spec=spec)
    assert found.steps == ()
    assert {(block.reason, block.blocker, block.message, block.never) for block in found.blocked} == {
        (BlockerReason.SETTINGS, "spec.drain", "spec.drain is a riddle", True)
    }
    assert [one.name for one, _ in found.kept] == ["d"]


# All of them


def test_every_blocker_has_a_message_of_one_line() -> None:
    """All that the plan knows of, each in words that can be shown; what others refuse is not its own."""
    told = [
        only_block(planned([pod()], budget())),
        only_block(planned([pod()], budget(), budget("c"))),
        only_block(planned_unread(job(1))),
        planned([*job(1), *job(1, "k")], budget(allowed=2)).blocked[0],
        only_block(planned([*job(1), pod("d", daemon=True, workload=job(1)[0].workload)])),
        only_block(planned([pod()], spec=OVERDUE)),
        only_block(planned([pod()], spec=DrainSpec(unreadable="so it is"))),
    ]
    assert [block.reason for block in told] == [
        one for one in BlockerReason if one is not BlockerReason.REFUSED
    ]
    assert all(plain(block.message) and plain(block.blocker) and block.message for block in told)


def test_a_budget_whose_status_cannot_be_computed_blocks_for_good() -> None:
    """What its controller says is told; the deadline is the way past it, as past any other."""
    held = budget(broken="jobs.batch does not implement the scale subresource")
    block = only_block(planned(job(2), held))
    assert (block.reason, block.never) == (BlockerReason.BUDGET, True)
    assert "jobs.batch does not implement" in block.message
    assert len(planned(job(2), held, spec=DELETE).steps) == 1


@pytest.mark.parametrize(("stalled", "steps"), [(False, 0), (True, 2)])
def test_past_the_deadline_pods_of_a_suspended_job_are_deleted_if_no_controller_does(
    stalled: bool, steps: int
) -> None:
    """Once it has been told of; before, whoever suspended it is given the time to end them."""
    made = work(suspended=True)
    held = [replace(one, workload=replace(made, stalled=stalled)) for one in job(2, suspended=True)]
    found = planned(held, spec=DELETE)
    assert [unit.action for unit in found.steps] == [DrainAction.DELETE] * steps
    assert len(found.leaving) == 2 - steps
    assert planned(held).steps == ()


# Budgets that are too many to be looked at


@pytest.mark.parametrize("held", [job(2), gang(2)], ids=["job", "gang"])
def test_a_job_or_gang_does_not_go_where_its_budgets_are_unknown(held: list[RunningPod]) -> None:
    """A suspended Job asks no budget; past the deadline none is asked anyway."""
    block = only_block(planned_unread(held))
    assert (block.reason, block.never) == (BlockerReason.MANY_BUDGETS, True)
    assert "afterDeadline Scale or Delete" in block.message
    assert len(planned_unread(held, spec=DELETE).steps) == 1


def test_a_single_pod_with_unknown_budgets_is_left_to_the_eviction_api() -> None:
    """It looks at all of them."""
    assert steps_of(planned_unread(pods(2))) == [["p0"], ["p1"]]
