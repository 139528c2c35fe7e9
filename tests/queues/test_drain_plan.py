"""Who goes, in which order, and what keeps whom: one case at a time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import pytest

from queues import planning
from queues.draining import Hindrance, How, Rule, Runner, Wishes
from queues.selectors import Selector
from tests.queues.cases import NOW, SECOND, plain
from tests.queues.drain_cases import LAB, blocked, budget, going, job, keeping, only, planned, pod, pods

WAITS, NEVER = (Hindrance.BUDGET, False), (Hindrance.BUDGET, True)
BUSY = (Hindrance.BUDGET_BUSY, False)
B = (LAB, "b")

#: The deadline has passed, and who is left stays, or is deleted.
OVERDUE = Wishes(deadline=NOW - SECOND)
DELETE = Wishes(deadline=NOW, delete_after=True)


def gang(number: int, name: str = "g", **fields: object) -> list[Runner]:
    return pods(number, f"{name}-", group=name, **fields)


# Units


def test_a_pod_is_evicted_by_itself() -> None:
    (unit,) = planned([pod("a")]).steps
    assert (unit.how, str(unit), unit.begun, unit.budgets) == (How.EVICT, "pod lab/a", False, ())


@pytest.mark.parametrize("kind", ["jobs", "jobsets", "jobs.batch.volcano.sh"])
def test_work_that_pauses_is_suspended_whole(kind: str) -> None:
    """One step, whatever the number of its pods."""
    held = [pod(one.name, work=one.work) for one in job(3)]
    (unit,) = planned(held).steps
    assert (unit.how, unit.work, len(unit.pods)) == (How.SUSPEND, held[0].work, 3)


def test_a_gang_is_evicted_whole() -> None:
    """One step of all its pods, the least important and youngest first."""
    low, *others = gang(3)
    found = planned([*others, pod(low.name, group="g", priority=1), pod("alone")])
    assert going(found) == [["alone"], ["g-1", "g-2", "g-0"]]
    assert {unit.how for unit in found.steps} == {How.EVICT}


def test_pods_of_a_gang_that_pauses_go_as_work() -> None:
    """A Job of Volcano has a PodGroup too."""
    (unit,) = planned(job(2, group="g")).steps
    assert (unit.how, unit.gang) == (How.SUSPEND, "")


def test_gangs_of_one_name_in_two_namespaces_are_two() -> None:
    found = planned([pod("a", group="g"), pod("b", group="g", namespace="other")])
    assert [str(unit) for unit in found.steps] == ["podgroup lab/g", "podgroup other/g"]


def test_the_table_of_units_has_the_three() -> None:
    """The page at the top of the module is what the tests above say."""
    first = [line.split("  ")[0] for line in (planning.__doc__ or "").splitlines()]
    assert [word for word in first if word in {"work that pauses", "gang", "pod"}] == [
        "work that pauses",
        "gang",
        "pod",
    ]


# Order


def test_the_lowest_priority_goes_first() -> None:
    found = planned([pod("high", priority=10), pod("low", priority=-1), pod("middle")])
    assert going(found) == [["low"], ["middle"], ["high"]]


def test_of_one_priority_the_youngest_goes_first() -> None:
    found = planned([pod("old", age=9), pod("young", age=1), pod("lower and older", age=99, priority=-1)])
    assert going(found) == [["lower and older"], ["young"], ["old"]]


def test_of_one_age_they_go_by_name() -> None:
    """The order is the same whoever leads, and whatever the store gives first."""
    assert going(planned([pod("c"), pod("a"), pod("b")])) == [["a"], ["b"], ["c"]]


def test_a_gang_that_has_begun_goes_by_name_too() -> None:
    """Its pods are of one age and priority as a rule."""
    held = [pod(name, group="g") for name in ("c", "a", "b")]
    assert going(planned(held, begun=[(LAB, "g")])) == [["a"], ["b"], ["c"]]


def test_a_unit_counts_by_its_most_important_pod_and_its_youngest() -> None:
    """A Job with one important pod goes after those that are less important."""
    mixed = [*job(1, "mixed", priority=5), pod("mixed-1", work=job(1, "mixed")[0].work, age=50)]
    found = planned([*mixed, pod("four", priority=4), pod("five", priority=5, age=3)])
    assert [str(unit) for unit in found.steps] == ["pod lab/four", "job lab/mixed", "pod lab/five"]


def test_what_has_begun_goes_before_all_others() -> None:
    """Whatever its priority: it is finished first."""
    found = planned([pod("low", priority=-9), *gang(2, priority=9)], begun=[(LAB, "g")])
    assert going(found) == [["g-0"], ["g-1"], ["low"]]
    assert [unit.begun for unit in found.steps] == [True, True, False]


def test_a_budget_is_given_to_the_first_in_order() -> None:
    """What it allows is taken by those that go first; the others are told of."""
    found = planned([pod("high", priority=1), pod("old", age=5), pod("young")], budget(allowed=1))
    assert going(found) == [["young"]]
    assert blocked(found) == {"old": WAITS, "high": WAITS}


# Who is on the way


def test_who_is_leaving_is_not_asked_again() -> None:
    found = planned([pod("a", leaving=True), pod("b")])
    assert going(found) == [["b"]]
    assert [one.name for one in found.leaving] == ["a"]


def test_the_pods_of_suspended_work_are_on_their_way() -> None:
    """The Job controller deletes them."""
    found = planned(job(2, paused=True))
    assert (found.steps, len(found.leaving)) == ((), 2)


def test_a_rule_keeps_nobody_who_is_on_the_way() -> None:
    """Neither whom others delete, nor the pods of work that is suspended."""
    held = [pod("a", leaving=True), *job(1, paused=True)]
    found = planned(held, wishes=keeping(app="web"))
    assert found.kept == ()
    assert found.leaving == tuple(held)


def test_nothing_is_asked_of_a_drain_that_is_done() -> None:
    found = planned([pod("d", daemon=True)])
    assert (found.steps, found.blocked, found.left) == ((), (), 0)
    assert [(one.name, rule) for one, rule in found.kept] == [("d", Rule.DAEMON)]


# What a pod takes of its budget


@pytest.mark.parametrize(
    ("fields", "of", "goes"),
    [
        ({}, {"allowed": 1}, True),
        ({}, {"allowed": 0}, False),
        ({"ready": False}, {"allowed": 0}, False),
        ({"ready": False}, {"allowed": 0, "spares_unready": True}, True),
        ({}, {"allowed": 0, "spares_unready": True}, False),
        ({"ready": False}, {"allowed": 0, "healthy": 2, "desired": 2}, True),
        ({"ready": False}, {"allowed": 0, "healthy": 1, "desired": 2}, False),
        ({}, {"allowed": 0, "healthy": 2, "desired": 2}, False),
        ({"running": False, "ready": False}, {"allowed": 0}, True),
        ({"labels": {"app": "db"}}, {"allowed": 0}, True),
        ({"namespace": "other"}, {"allowed": 0}, True),
    ],
)
def test_a_pod_goes_where_the_eviction_api_would_let_it(
    fields: Mapping[str, object], of: Mapping[str, object], goes: bool
) -> None:
    """Ready pods take one of what is allowed; others as its policy says; pods that do not run yet nothing."""
    assert bool(planned([pod(**fields)], budget(**of)).steps) is goes


def test_pods_that_no_budget_holds_for_take_nothing() -> None:
    """The pod that does not run yet and the broken one go, and so does as many as the budget allows."""
    held = [
        pod("starting", running=False, ready=False),
        pod("broken", ready=False),
        *pods(2),
    ]
    found = planned(held, budget(allowed=1, spares_unready=True, healthy=2, desired=1))
    assert sorted(map(tuple, going(found))) == [("broken",), ("p0",), ("starting",)]
    assert {unit.pods[0].name: unit.budgets for unit in found.steps} == {
        "starting": (),
        "broken": (),
        "p0": (B,),
    }


def test_what_was_asked_for_counts_before_the_budget_knows() -> None:
    found = planned(pods(3), budget(allowed=2), taken={B: 1, (LAB, "other"): 9})
    assert going(found) == [["p0"]]


def test_more_asked_for_than_allowed_is_not_less_than_nothing() -> None:
    """The budget's status may be older than what was asked for."""
    found = only(planned([pod()], budget(allowed=1), taken={B: 5}))
    assert found.message == "PodDisruptionBudget lab/b allows 0 now, and 1 would have to go"


# Two budgets


def test_a_pod_under_two_budgets_never_goes() -> None:
    """The eviction API answers 500 for ever, whatever they allow: both are named, and the way out."""
    found = only(planned([pod("a")], budget("b", allowed=9), budget("c", allowed=9)))
    assert (found.hindrance, found.never) == (Hindrance.TWO_BUDGETS, True)
    assert found.by == "PodDisruptionBudget lab/b and PodDisruptionBudget lab/c"
    assert "refuses pod lab/a for ever" in found.message
    assert "leave it under one of them" in found.message


def test_a_pod_under_two_budgets_that_does_not_run_yet_goes() -> None:
    """The API looks at no budget then."""
    assert going(planned([pod(running=False)], budget("b"), budget("c"))) == [["p"]]


def test_an_unready_pod_under_two_budgets_never_goes() -> None:
    """The API counts the budgets before it looks at their policies."""
    spares = [budget(name, spares_unready=True) for name in "bc"]
    assert only(planned([pod(ready=False)], *spares)).hindrance is Hindrance.TWO_BUDGETS


@pytest.mark.parametrize("held", [job(3), gang(3)], ids=["job", "gang"])
def test_one_pod_under_two_budgets_keeps_the_whole_unit(held: list[Runner]) -> None:
    *others, last = held
    twice = pod(last.name, group=last.group, work=last.work, labels={"app": "web", "tier": "front"})
    found = planned([*others, twice], budget(allowed=9), budget("t", labels={"tier": "front"}, allowed=9))
    assert only(found).hindrance is Hindrance.TWO_BUDGETS
    assert found.left == 3


# Jobs


def test_a_job_goes_when_its_budget_allows_all_of_it() -> None:
    assert blocked(planned(job(3), budget(allowed=2))) == {"j-0 j-1 j-2": WAITS}
    (unit,) = planned(job(3), budget(allowed=3)).steps
    assert unit.budgets == (B,)


def test_a_job_needs_each_of_its_budgets() -> None:
    """Some of its pods under one, some under another; the one that never allows it is told first."""
    made_by = job(1)[0].work
    held = [*job(2), pod("db", labels={"app": "db"}, work=made_by)]
    db = budget("db", labels={"app": "db"}, allowed=1)
    assert len(planned(held, budget(allowed=2), db).steps) == 1
    assert only(planned(held, budget(allowed=1), db)).by == "PodDisruptionBudget lab/b"
    never = budget("db", labels={"app": "db"}, desired=1, outside=0)
    found = only(planned(held, budget(allowed=1), never))
    assert (found.by, found.never) == ("PodDisruptionBudget lab/db", True)


def test_one_job_of_a_budget_goes_at_a_time() -> None:
    """Though the budget would allow both: it learns of the first only when its pods are gone."""
    found = planned([*job(2, "one"), *job(2, "two")], budget(allowed=4))
    assert [str(unit) for unit in found.steps] == ["job lab/one"]
    assert (
        only(found).message
        == "PodDisruptionBudget lab/b lets one work go at a time, and another is on its way"
    )
    assert blocked(found) == {"two-0 two-1": BUSY}


def test_jobs_of_two_budgets_go_together() -> None:
    held = [*job(2, "one"), *job(2, "two", labels={"app": "db"})]
    found = planned(held, budget(allowed=2), budget("db", labels={"app": "db"}, allowed=2))
    assert len(found.steps) == 2


@pytest.mark.parametrize("leaving", [False, True], ids=["not told yet", "leaving"])
def test_a_job_waits_for_the_pods_of_one_that_is_suspended(leaving: bool) -> None:
    """As long as one of them is there, whoever suspended it, and though a rule would have kept it."""
    before = job(1, "before", paused=True, leaving=leaving, labels={"app": "web", "stay": "yes"})
    found = planned([*before, *job(1)], budget(allowed=9), wishes=keeping(stay="yes"))
    assert blocked(found) == {"j-0": BUSY}


def test_the_pods_of_a_suspended_job_are_taken_already() -> None:
    """Its status still counts them as healthy: what it allows is for them, and nobody else goes instead."""
    found = planned([*job(2, paused=True), *pods(2)], budget(allowed=3))
    assert going(found) == [["p0"]]
    gone = planned([*job(2, paused=True, leaving=True), *pods(2)], budget(allowed=1))
    assert going(gone) == [["p0"]]


def test_pods_go_beside_a_job_as_far_as_the_budget_allows() -> None:
    """What the Job takes is not there for them."""
    found = planned([*job(2), *pods(2, priority=1)], budget(allowed=3))
    assert going(found) == [["j-0", "j-1"], ["p0"]]


def test_the_unready_pods_of_a_job_count() -> None:
    """No eviction looks again whether they are ready by now; only AlwaysAllow lets them go all the same."""
    held = job(2, ready=False)
    whole = {"allowed": 1, "healthy": 3, "desired": 2}
    assert not planned(held, budget(**whole)).steps
    assert planned(held, budget(**whole, spares_unready=True)).steps


@pytest.mark.parametrize("wishes", [keeping(stay="yes"), Wishes(keep=Selector())], ids=["one", "all"])
def test_a_job_of_which_a_pod_is_to_stay_stays(wishes: Wishes) -> None:
    """It would go with the others; all of it kept is kept, and no block."""
    held = [*job(2), pod("kept", work=job(1)[0].work, labels={"stay": "yes"})]
    found = planned(held, wishes=wishes)
    if wishes == Wishes(keep=Selector()):
        assert (len(found.kept), found.blocked) == (3, ())
        return
    block = only(found)
    assert (block.hindrance, block.never, block.by) == (Hindrance.KEPT_PART, True, "pod lab/kept")
    assert "take it out of drain.keep" in block.message
    assert [(one.name, rule) for one, rule in found.kept] == [("kept", Rule.LABEL)]
    assert found.left == 2


# Gangs


def test_a_gang_is_begun_only_where_all_of_it_may_go() -> None:
    assert blocked(planned(gang(3), budget(allowed=2))) == {"g-0 g-1 g-2": WAITS}
    assert going(planned(gang(3), budget(allowed=3))) == [["g-0", "g-1", "g-2"]]


@pytest.mark.parametrize("begun", [[(LAB, "g")], []], ids=["remembered", "seen"])
def test_a_gang_that_has_begun_goes_pod_by_pod(begun: list[tuple[str, str]]) -> None:
    """As far as the budget allows; the rest stalls, and that is said. It is known again by whom it sees leave."""
    first, *others = gang(3)
    gone = pod(first.name, group="g", leaving=True)
    found = planned(others if begun else [gone, *others], budget(allowed=1), begun=begun)
    assert going(found) == [["g-1"]]
    assert only(found).message.startswith("podgroup lab/g has begun to go and stalls: ")


def test_a_gang_without_its_kept_part_goes() -> None:
    """Evicting the others takes nobody along."""
    held = [*gang(2), pod("kept", group="g", labels={"stay": "yes"})]
    assert going(planned(held, wishes=keeping(stay="yes"))) == [["g-0", "g-1"]]


def test_a_gang_that_waits_does_not_keep_others_from_going() -> None:
    found = planned([*gang(3), pod("alone", priority=1)], budget(allowed=1))
    assert going(found) == [["alone"]]


# Budgets that can never allow it


def test_a_deployment_of_three_of_which_two_have_to_run_never_ends() -> None:
    """One goes, and its replacement waits for the queue: the other two are told of at once, with the way out."""
    found = planned(pods(3), budget(allowed=1, healthy=3, desired=2, outside=0))
    assert going(found) == [["p0"]]
    assert blocked(found) == {"p1": NEVER, "p2": NEVER}
    assert {block.message for block in found.blocked} == {
        "PodDisruptionBudget lab/b keeps 2 pods for good: it wants 2 healthy, and replacements wait for the "
        "queue; lower what it wants, delete it, or set spec.drain.deadline with afterDeadline Delete"
    }


def test_it_is_still_said_when_the_first_has_gone() -> None:
    found = planned(pods(2), budget(allowed=0, healthy=2, desired=2, outside=0))
    assert blocked(found) == {"p0": NEVER, "p1": NEVER}


def test_a_budget_that_others_may_fill_is_waited_for() -> None:
    """The pods outside are not ready yet; when they are, all may go."""
    assert blocked(planned(pods(2), budget(healthy=2, desired=2, outside=2))) == {"p0": WAITS, "p1": WAITS}


def test_some_that_may_go_and_some_that_never_do_are_told_together() -> None:
    """Who it will be is not known before; how many stay is."""
    found = planned(pods(3), budget(healthy=2, desired=2, outside=1))
    assert blocked(found) == {"p0": WAITS, "p1": WAITS, "p2": WAITS}
    assert "allows 0 now, and 1 would have to go; PodDisruptionBudget lab/b keeps 1 pod for good" in (
        found.blocked[0].message
    )


def test_a_broken_pod_does_not_stay_for_good() -> None:
    """Two healthy pods are what the budget wants: the third, which is not ready, may go."""
    held = [pod("broken", ready=False, age=9), *pods(2)]
    found = planned(held, budget(allowed=0, healthy=2, desired=2, outside=0))
    assert going(found) == [["broken"]]
    assert blocked(found) == {"p0": NEVER, "p1": NEVER}


def test_those_that_are_not_ready_yet_may_still_make_room() -> None:
    """None is healthy now; once all are, one may go: nobody can say that it will not be this one."""
    found = planned(pods(3, ready=False), budget(desired=2, outside=0))
    assert set(blocked(found).values()) == {WAITS}


@pytest.mark.parametrize(
    "of", [{"outside": None}, {"outside": 0, "current": False}], ids=["outside", "status"]
)
def test_never_is_not_said_where_it_is_not_known(of: Mapping[str, object]) -> None:
    """Nobody looked at the pods outside, or the status is of a former generation."""
    assert blocked(planned([pod()], budget(desired=1, **of))) == {"p": WAITS}


def test_what_was_asked_for_a_moment_ago_does_not_make_never() -> None:
    """The budget would allow it, were it not for what its status does not know yet."""
    found = planned(pods(3), budget(allowed=1, healthy=3, desired=2, outside=2), taken={B: 1})
    assert set(blocked(found).values()) == {WAITS}


def test_a_job_larger_than_what_may_ever_go_never_goes() -> None:
    """Two of its pods could, but it goes whole: it is told so, though another Job is on its way too."""
    found = planned(
        [*job(1, "first", priority=-1), *job(3)], budget(allowed=3, healthy=4, desired=1, outside=0)
    )
    assert going(found) == [["first-0"]]
    assert blocked(found) == {"j-0 j-1 j-2": NEVER}
    assert only(found).message.startswith(
        "3 go together or not at all: PodDisruptionBudget lab/b keeps 1 pod "
    )


def test_pods_that_stay_anyway_make_room_for_others() -> None:
    """The pod under two budgets stays healthy, which is all that the budget wants."""
    stuck = pod("stuck", labels={"app": "web", "tier": "front"}, priority=-1)
    found = planned(
        [stuck, pod("other")],
        budget(allowed=1, healthy=2, desired=1, outside=0),
        budget("t", labels={"tier": "front"}),
    )
    assert going(found) == [["other"]]


# Deadlines


@pytest.mark.parametrize("held", [[pod()], job(2), gang(2)], ids=["pod", "job", "gang"])
def test_past_the_deadline_who_is_left_stays(held: list[Runner]) -> None:
    """`afterDeadline: Keep`: nobody is asked any more, whatever the budgets say."""
    block = only(planned(held, budget(allowed=9), wishes=OVERDUE))
    assert (block.hindrance, block.by, block.never) == (Hindrance.DEADLINE, "spec.drain.deadline", True)
    assert block.message.startswith("the deadline 2030-01-01T11:59:59Z has passed")


def test_past_the_deadline_who_is_left_is_deleted() -> None:
    """`afterDeadline: Delete`: under one budget, two or none; Jobs are suspended, whatever happens to their pods."""
    twice = pod("twice", labels={"app": "web", "tier": "front"})
    found = planned(
        [pod(), twice, *job(2), *gang(2)], budget(), budget("t", labels={"tier": "front"}), wishes=DELETE
    )
    assert {str(unit): unit.how for unit in found.steps} == {
        "pod lab/p": How.DELETE,
        "pod lab/twice": How.DELETE,
        "podgroup lab/g": How.DELETE,
        "job lab/j": How.SUSPEND_ANYWAY,
    }
    assert found.blocked == ()


def test_past_the_deadline_who_stays_by_rule_stays() -> None:
    """So does the Job that would take a kept pod along."""
    held = [pod("d", daemon=True), *job(1), pod("kept", work=job(1)[0].work, labels={"stay": "yes"})]
    wishes = Wishes(keep=keeping(stay="yes").keep, deadline=NOW, delete_after=True)
    found = planned(held, wishes=wishes)
    assert [one.name for one, _ in found.kept] == ["d", "kept"]
    assert only(found).hindrance is Hindrance.KEPT_PART


def test_before_the_deadline_budgets_hold() -> None:
    wishes = Wishes(deadline=NOW + SECOND, delete_after=True)
    assert blocked(planned([pod()], budget(), wishes=wishes)) == {"p": WAITS}


def test_a_deadline_that_deletes_is_the_end_of_a_budget_that_never_allows_it() -> None:
    """Waiting helps: neither never nor "set a deadline" is said where that is set; the deadline is told in UTC."""
    wishes = Wishes(deadline=NOW + timedelta(hours=1), delete_after=True)
    found = only(planned([pod()], budget(desired=1, outside=0), wishes=wishes))
    assert (found.hindrance, found.never) == WAITS
    assert "for good" not in found.message
    assert found.message.endswith("what is left is deleted at the deadline 2030-01-01T13:00:00Z")
    twice = only(planned([pod()], budget(), budget("c"), wishes=wishes))
    assert not twice.never
    assert twice.message.endswith("or wait: what is left is deleted at the deadline 2030-01-01T13:00:00Z")


def test_a_deadline_that_keeps_is_no_way_past_a_budget() -> None:
    wishes = Wishes(deadline=NOW + SECOND)
    assert only(planned([pod()], budget(desired=1, outside=0), wishes=wishes)).never


# Settings


@pytest.mark.parametrize("overdue", [Wishes(), DELETE], ids=["in time", "overdue"])
def test_nobody_goes_where_the_settings_cannot_be_read(overdue: Wishes) -> None:
    """What they would have kept is not known. DaemonSets stay by rule all the same."""
    wishes = Wishes(
        unreadable="spec.drain is a riddle", deadline=overdue.deadline, delete_after=overdue.delete_after
    )
    found = planned([pod(), *job(2), pod("d", daemon=True)], wishes=wishes)
    assert found.steps == ()
    assert {(block.hindrance, block.by, block.message, block.never) for block in found.blocked} == {
        (Hindrance.SETTINGS, "spec.drain", "spec.drain is a riddle", True)
    }
    assert [one.name for one, _ in found.kept] == ["d"]


# What is left


def test_left_counts_pods_that_go_wait_and_leave_but_not_who_stays() -> None:
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


def test_every_hindrance_is_told_on_one_line() -> None:
    """All that the enumeration has, each in words that can be shown."""
    told = [
        only(planned([pod()], budget())),
        only(planned([pod()], budget(), budget("c"))),
        planned([*job(1), *job(1, "k")], budget(allowed=2)).blocked[0],
        only(planned([*job(1), pod("d", daemon=True, work=job(1)[0].work)])),
        only(planned([pod()], wishes=OVERDUE)),
        only(planned([pod()], wishes=Wishes(unreadable="so it is"))),
    ]
    assert [block.hindrance for block in told] == list(Hindrance)
    assert all(plain(block.message) and plain(block.by) and block.message for block in told)
