"""What a drain tells of pods of namespaces that its queue does not select: they keep nobody waiting."""

from __future__ import annotations

import pytest

from queues.drain.model import Plan, RunningPod
from queues.drain.progress import (
    DrainProgress,
    QueueProgress,
    drained_condition,
    progress_by_queue,
)
from queues.drain.terminating_pods import Delay, DelayedPod
from tests.support.drain.drain_cases import (
    LAB,
    budget,
    planned,
    pod,
    pods,
)

FAR = "far"


def report_of(plan: Plan, *late: RunningPod) -> QueueProgress:
    """Of a queue that selects namespace `lab` alone. `late`: pods on their way that do not end."""
    delays = {one.uid: DelayedPod(pod=one, delay=Delay.NOT_ENDED, message="it does not end") for one in late}
    return progress_by_queue(plan, ["q"], delays=delays, selects=lambda _queue, namespace: namespace == LAB)[
        "q"
    ]


def said(plan: Plan) -> tuple[str, str]:
    finding = drained_condition("q", [report_of(plan)])
    return finding.reason, finding.message


STRANGERS = [pod(f"s{number}", namespace=FAR) for number in range(3)]


@pytest.mark.parametrize(
    "stranger",
    [
        pod("s", namespace=FAR),
        pod("s", namespace=FAR, leaving=True),
    ],
    ids=["to go", "on its way"],
)
def test_a_stranger_keeps_no_queue_from_drained(stranger: RunningPod) -> None:
    """It is evicted like any other; how far that is is not waited for."""
    found = planned([stranger])
    assert found.steps or found.leaving
    assert said(found) == (
        DrainProgress.DRAINED,
        'no pod of queue "q" runs but 1 of namespaces that it does not select',
    )


def test_a_budget_that_keeps_strangers_for_good_blocks_nobody_else() -> None:
    keeps = budget("keeps", namespace=FAR, desired=3, healthy=3, outside=0)
    found = planned(STRANGERS, keeps)
    assert len(found.blocked) == 3
    assert said(found)[0] == DrainProgress.DRAINED
    assert report_of(found) == QueueProgress(not_selected=3)


def test_a_stranger_that_does_not_end_is_no_blocker() -> None:
    found = planned([pod("s", namespace=FAR, leaving=True)])
    assert report_of(found, *found.leaving) == QueueProgress(not_selected=1)


def test_the_queues_own_pods_are_told_of_as_ever() -> None:
    """Beside any number of strangers."""
    found = planned([*pods(2), *STRANGERS])
    report = report_of(found)
    assert (report.left, report.not_selected) == (2, 3)
    assert said(found)[0] == DrainProgress.DRAINING


def test_where_every_namespace_is_selected_nothing_changes() -> None:
    found = planned([*pods(2), *STRANGERS])
    assert progress_by_queue(found, ["q"], delays={})["q"].left == 5
