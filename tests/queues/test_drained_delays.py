"""Pods on their way that are delayed: how a queue's report names and counts them."""

from __future__ import annotations

from datetime import timedelta

from msgspec.structs import replace

from queues.drain.model import (
    Plan,
    RunningPod,
    Termination,
)
from queues.drain.progress import (
    MAX_BLOCKERS,
    DrainProgress,
    drained_condition,
    progress_by_queue,
)
from queues.drain.terminating_pods import DelayedPod, delay_of
from tests.support.drain.drain_cases import LAB, pods
from tests.support.rules.cases import NOW

YEARS = 1_000_000_000


def stubborn(number: int, prefix: str = "p", *, namespace: str = LAB, grace: int = YEARS) -> list[RunningPod]:
    """Pods that were asked to go an hour ago, and are still there."""
    termination = Termination(requested_at=NOW - timedelta(hours=1), grace=grace, node="node-0")
    return pods(number, prefix, namespace=namespace, leaving=True, termination=termination)


def delays(*those: RunningPod) -> dict[str, DelayedPod]:
    found = (delay_of(one, now=NOW, longest=300, gone_nodes=()) for one in those)
    return {one.pod.uid: one for one in found if one is not None}


def test_hundreds_of_one_namespace_are_one_blocker() -> None:
    """So they hide nobody else; it is named by the first of them."""
    many, other = stubborn(500), stubborn(1, "x", namespace="other")
    plan = Plan(leaving=(*many, *other))
    report = progress_by_queue(plan, ["q"], delays=delays(*many, *other))["q"]
    assert [(one.name, one.pods, one.never) for one in report.blockers] == [
        ("pod lab/p0 and 499 more of its namespace", 500, False),
        ("pod other/x0", 1, False),
    ]
    assert len(report.blockers) <= MAX_BLOCKERS


def test_what_delays_them_differently_is_told_apart() -> None:
    """A grace period of years, and one that is over."""
    slow, hung = stubborn(2), stubborn(2, "h", grace=30)
    report = progress_by_queue(Plan(leaving=(*slow, *hung)), ["q"], delays=delays(*slow, *hung))["q"]
    assert {one.name for one in report.blockers} == {
        "pod lab/p0 and 1 more of its namespace",
        "pod lab/h0 and 1 more of its namespace",
    }


def test_a_queue_of_which_only_delayed_pods_are_left_is_blocked_and_says_by_what() -> None:
    """One that has its place yet is being evicted."""
    slow = stubborn(2)
    found = drained_condition(
        "q", progress_by_queue(Plan(leaving=tuple(slow)), ["q"], delays=delays(*slow)).values()
    )
    assert found.reason == DrainProgress.BLOCKED
    assert "pod lab/p0 and 1 more of its namespace (2): it has until" in found.message
    fresh = replace(slow[0], uid="fresh", termination=None)
    found = drained_condition(
        "q", progress_by_queue(Plan(leaving=(*slow, fresh)), ["q"], delays=delays(*slow)).values()
    )
    assert found.reason == DrainProgress.DRAINING
