"""What is told of a drain has a size of its own, whatever names users give to what blocks it."""

from __future__ import annotations

import msgspec

from queues.drain.progress import (
    CONDITION_LIMIT,
    MAX_BLOCKERS,
    MESSAGE_LIMIT,
    NAME_LIMIT,
    DrainCounts,
    drain_status,
    drained_condition,
    progress_by_queue,
)
from queues.drain.terminating_pods import Delay, DelayedPod
from tests.support.drain.drain_cases import (
    budget,
    planned,
    pods,
)
from tests.support.rules.cases import NOW

LONG = "n" * 250


def test_sixty_budgets_with_long_names_are_three_and_how_many_more() -> None:
    held = [budget(f"{LONG}{number:02}", namespace="lab") for number in range(60)]
    [block, *_] = planned(pods(3), *held).blocked
    assert block.blocker.count("PodDisruptionBudget") == 3
    assert block.blocker.endswith(" and 57 more")


def test_a_condition_of_many_blockers_is_cut_and_names_how_many() -> None:
    """So is what each queue tells of each."""
    many = pods(300, LONG)
    held = [budget(f"{LONG}{number:02}") for number in range(60)]
    found = planned(many, *held)
    told = progress_by_queue(found, ["q"], delays={})
    finding = drained_condition("q", [told["q"]] * 50)
    assert len(finding.message) <= CONDITION_LIMIT
    assert finding.message.startswith('pods of queue "q" run that may not be evicted; blocked by')
    assert "and 45 more" in finding.message
    assert all(
        len(one.name) <= NAME_LIMIT and len(one.message) <= MESSAGE_LIMIT for one in told["q"].blockers
    )


def test_a_report_of_the_longest_names_is_small() -> None:
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
