"""What a queue's status says of its drain: pods of other namespaces, delayed pods, long names."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from msgspec.structs import replace

from queues.drain.model import DrainAction, Plan, RunningPod, Termination
from queues.drain.progress import (
    CONDITION_LIMIT,
    MAX_BLOCKERS,
    MESSAGE_LIMIT,
    NAME_LIMIT,
    Blocker,
    DrainCounts,
    DrainedReason,
    QueueProgress,
    drain_status,
    drained_condition,
    progress_by_queue,
)
from queues.drain.terminating_pods import Delay, DelayedPod, delay_of
from tests.support.cases import each_case
from tests.support.drain.drain_cases import LAB, budget, planned, pod, pods
from tests.support.rules.cases import NOW

YEARS = 1_000_000_000
LONG = "n" * 250


# Counts


@each_case(
    ("action", "counts"),
    [
        (DrainAction.EVICT, (1, 0, 0)),
        (DrainAction.SUSPEND, (0, 1, 0)),
        (DrainAction.DELETE, (0, 0, 1)),
        (DrainAction.SUSPEND_ANYWAY, (0, 1, 3)),
        (DrainAction.CUT_GRACE, (0, 0, 0)),
    ],
)
def test_each_action_has_its_count(action: DrainAction, counts: tuple[int, int, int]) -> None:
    """Evicted and deleted pods, suspended workloads; of a unit with three pods."""
    found = DrainCounts(since=NOW)
    found.add(action, pods=3)
    assert (found.evicted, found.suspended, found.deleted) == counts


# The message of the condition


KEEPS = "PodDisruptionBudget lab/b keeps 2 pods"
BUDGET = Blocker(name="PodDisruptionBudget lab/b", pods=2, never=True, message=KEEPS)
HOOK = Blocker(name="pod lab/p", pods=1, never=False, message="refused again and again: no")
RUNS = 'pods of queue "q" run that may not be evicted'


@pytest.mark.parametrize(
    ("blockers", "message"),
    [
        ([], RUNS),
        ([BUDGET], f"{RUNS}: {KEEPS}"),
        ([HOOK], f"{RUNS}: pod lab/p blocks 1 pod: refused again and again: no"),
        ([HOOK, BUDGET], f"{RUNS}: {KEEPS}; also blocked by pod lab/p (1)"),
    ],
    ids=["none", "named in its message", "not named in its message", "two"],
)
def test_the_message_names_each_blocker_once(blockers: list[Blocker], message: str) -> None:
    """The worst first, with its words."""
    progress = QueueProgress(left=3, blocked=3, blockers=tuple(blockers))
    assert drained_condition("q", [progress]).message == message


# Pods of namespaces that the queue does not select

FAR = "far"


def progress_of(plan: Plan, *late: RunningPod) -> QueueProgress:
    """Of a queue that selects namespace `lab` alone. `late`: leaving pods that do not end."""
    delays = {one.uid: DelayedPod(pod=one, delay=Delay.NOT_ENDED, message="it does not end") for one in late}
    return progress_by_queue(plan, ["q"], delays=delays, selects=lambda _queue, namespace: namespace == LAB)[
        "q"
    ]


def condition_of(plan: Plan) -> tuple[str, str]:
    finding = drained_condition("q", [progress_of(plan)])
    return finding.reason, finding.message


FOREIGN = [pod(f"s{number}", namespace=FAR) for number in range(3)]


@pytest.mark.parametrize(
    "foreign",
    [
        pod("s", namespace=FAR),
        pod("s", namespace=FAR, leaving=True),
    ],
    ids=["to go", "leaving"],
)
def test_a_pod_of_another_namespace_keeps_no_queue_from_drained(foreign: RunningPod) -> None:
    """It is evicted like any other pod, but nothing waits for it."""
    found = planned([foreign])
    assert found.steps or found.leaving
    assert condition_of(found) == (
        DrainedReason.DRAINED,
        'no pod of queue "q" runs but 1 of namespaces that it does not select',
    )


def test_a_budget_that_keeps_pods_of_another_namespace_blocks_no_other() -> None:
    keeps = budget("keeps", namespace=FAR, desired=3, healthy=3, outside=0)
    found = planned(FOREIGN, keeps)
    assert len(found.blocked) == 3
    assert condition_of(found)[0] == DrainedReason.DRAINED
    assert progress_of(found) == QueueProgress(not_selected=3)


def test_a_pod_of_another_namespace_that_does_not_end_is_no_blocker() -> None:
    found = planned([pod("s", namespace=FAR, leaving=True)])
    assert progress_of(found, *found.leaving) == QueueProgress(not_selected=1)


def test_the_queues_own_pods_are_counted_beside_them() -> None:
    found = planned([*pods(2), *FOREIGN])
    report = progress_of(found)
    assert (report.left, report.not_selected) == (2, 3)
    assert condition_of(found)[0] == DrainedReason.DRAINING


def test_a_queue_that_selects_all_namespaces_counts_all_pods() -> None:
    found = planned([*pods(2), *FOREIGN])
    assert progress_by_queue(found, ["q"], delays={})["q"].left == 5


# Delayed pods


def stubborn(number: int, prefix: str = "p", *, namespace: str = LAB, grace: int = YEARS) -> list[RunningPod]:
    """Pods that were asked to go an hour ago, and are still there."""
    termination = Termination(requested_at=NOW - timedelta(hours=1), grace=grace, node="node-0")
    return pods(number, prefix, namespace=namespace, leaving=True, termination=termination)


def delays(*those: RunningPod) -> dict[str, DelayedPod]:
    found = (delay_of(one, now=NOW, longest=300, gone_nodes=()) for one in those)
    return {one.pod.uid: one for one in found if one is not None}


def test_hundreds_of_delayed_pods_of_one_namespace_are_one_blocker() -> None:
    """So they do not hide others; it has the name of the first of them."""
    many, other = stubborn(500), stubborn(1, "x", namespace="other")
    plan = Plan(leaving=(*many, *other))
    report = progress_by_queue(plan, ["q"], delays=delays(*many, *other))["q"]
    assert [(one.name, one.pods, one.never) for one in report.blockers] == [
        ("pod lab/p0 and 499 more of its namespace", 500, False),
        ("pod other/x0", 1, False),
    ]
    assert len(report.blockers) <= MAX_BLOCKERS


def test_different_delays_are_different_blockers() -> None:
    """A grace period of years, and one that is over."""
    slow, hung = stubborn(2), stubborn(2, "h", grace=30)
    report = progress_by_queue(Plan(leaving=(*slow, *hung)), ["q"], delays=delays(*slow, *hung))["q"]
    assert {one.name for one in report.blockers} == {
        "pod lab/p0 and 1 more of its namespace",
        "pod lab/h0 and 1 more of its namespace",
    }


def test_a_queue_with_only_delayed_pods_left_is_blocked_and_names_them() -> None:
    """One that has its place still is being evicted."""
    slow = stubborn(2)
    found = drained_condition(
        "q", progress_by_queue(Plan(leaving=tuple(slow)), ["q"], delays=delays(*slow)).values()
    )
    assert found.reason == DrainedReason.BLOCKED
    assert "pod lab/p0 and 1 more of its namespace blocks 2 pods: it has until" in found.message
    fresh = replace(slow[0], uid="fresh", termination=None)
    found = drained_condition(
        "q", progress_by_queue(Plan(leaving=(*slow, fresh)), ["q"], delays=delays(*slow)).values()
    )
    assert found.reason == DrainedReason.DRAINING


# Long names


def test_of_sixty_budgets_three_are_named() -> None:
    held = [budget(f"{LONG}{number:02}", namespace="lab") for number in range(60)]
    [block, *_] = planned(pods(3), *held).blocked
    assert block.blocker.count("PodDisruptionBudget") == 3
    assert block.blocker.endswith(" and 57 more")


def test_a_condition_of_many_blockers_is_short_and_says_how_many() -> None:
    """So are the blockers of each queue."""
    many = pods(300, LONG)
    held = [budget(f"{LONG}{number:02}") for number in range(60)]
    found = planned(many, *held)
    told = progress_by_queue(found, ["q"], delays={})
    finding = drained_condition("q", [told["q"]] * 50)
    assert len(finding.message) <= CONDITION_LIMIT
    assert finding.message.startswith(f"{RUNS}: PodDisruptionBudget lab/nnn")
    assert "and 45 more" in finding.message
    assert all(
        len(one.name) <= NAME_LIMIT and len(one.message) <= MESSAGE_LIMIT for one in told["q"].blockers
    )


def test_a_status_with_the_longest_names_is_small() -> None:
    many = pods(300, LONG)
    leaving = [
        msgspec.structs.replace(pod, namespace=f"{LONG}{number}", leaving=True)
        for number, pod in enumerate(many)
    ]
    delays = {pod.uid: DelayedPod(pod=pod, delay=Delay.NOT_ENDED, message="f" * 5000) for pod in leaving}
    told = progress_by_queue(planned(leaving), ["q"], delays=delays)["q"]
    written = drain_status(DrainCounts(since=NOW), told, since="2030-01-01T00:00:00Z")
    assert len(written["blockers"]) == MAX_BLOCKERS
    assert len(msgspec.json.encode(written)) < MAX_BLOCKERS * (NAME_LIMIT + MESSAGE_LIMIT + 100)
