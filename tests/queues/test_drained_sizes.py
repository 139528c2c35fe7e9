"""What is told of a drain has a size of its own, whatever names users give to what blocks it."""

from __future__ import annotations

import msgspec

from queues.drain.progress import (
    CONDITION_LIMIT,
    MESSAGE_LIMIT,
    NAME_LIMIT,
    TOLD,
    Tally,
    drained,
    reports,
    status,
)
from queues.drain.terminating_pods import Delay, Delayed
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
    assert block.by.count("PodDisruptionBudget") == 3
    assert block.by.endswith(" and 57 more")


def test_a_condition_of_many_blockers_is_cut_and_names_how_many() -> None:
    """So is what each queue tells of each."""
    runners = pods(300, LONG)
    held = [budget(f"{LONG}{number:02}") for number in range(60)]
    found = planned(runners, *held)
    told = reports(found, ["q"], delays={})
    finding = drained("q", [told["q"]] * 50)
    assert len(finding.message) <= CONDITION_LIMIT
    assert finding.message.startswith('pods of queue "q" run that may not be evicted; blocked by')
    assert "and 45 more" in finding.message
    assert all(
        len(one.name) <= NAME_LIMIT and len(one.message) <= MESSAGE_LIMIT for one in told["q"].blockers
    )


def test_a_report_of_the_longest_names_is_small() -> None:
    runners = pods(300, LONG)
    leaving = [
        msgspec.structs.replace(pod, namespace=f"{LONG}{number}", leaving=True)
        for number, pod in enumerate(runners)
    ]
    delays = {pod.uid: Delayed(pod=pod, delay=Delay.NOT_ENDED, message="f" * 5000) for pod in leaving}
    told = reports(planned(leaving), ["q"], delays=delays)["q"]
    written = status(Tally(since=NOW), told, since="2030-01-01T00:00:00Z")
    assert len(written["blockers"]) == TOLD
    assert len(msgspec.json.encode(written)) < TOLD * (NAME_LIMIT + MESSAGE_LIMIT + 100)
