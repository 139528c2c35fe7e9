"""What a new leader reads off a pod that may have been let in again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from queues.quota.let_in_again import LATE_SECONDS, SAFE_SECONDS, WITH_WORKLOAD, ReadPod
from tests.support.cases import each_case

TERM = datetime(2030, 1, 1, 12, tzinfo=UTC)
LONG_AGO = TERM - timedelta(hours=1)


def after(seconds: float) -> datetime:
    return TERM + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("pod", "is_another"),
    [
        (ReadPod(created=TERM, workload=LONG_AGO), True),
        (ReadPod(created=TERM), True),
        (ReadPod(created=after(WITH_WORKLOAD), workload=TERM), False),
        (ReadPod(created=TERM, workload=LONG_AGO, is_made_again=False), False),
    ],
)
def test_a_pod_that_came_later_than_its_workload_may_be_another(pod: ReadPod, is_another: bool) -> None:
    assert pod.may_be_another is is_another


@each_case(
    ("bound", "now", "is_safe"),
    [
        (after(-1), after(SAFE_SECONDS - 2), True),
        (after(-1), after(SAFE_SECONDS - 1), False),
        (after(-SAFE_SECONDS), after(0), False),
        (None, after(0), False),
        (after(LATE_SECONDS - 1), after(LATE_SECONDS + SAFE_SECONDS - 2), True),
        (after(LATE_SECONDS), after(LATE_SECONDS), False),
    ],
)
def test_one_on_a_node_is_left_alone_for_a_minute(
    bound: datetime | None, now: datetime, is_safe: bool
) -> None:
    """Of what got its node later than soon after the term began, the leader knows by itself."""
    pod = ReadPod(created=LONG_AGO, bound=bound, is_placed=True)
    assert pod.is_safe_in(TERM, now=now) is is_safe


def test_one_without_a_node_is_left_alone_for_the_first_minute_of_the_term() -> None:
    pod = ReadPod(created=LONG_AGO)
    assert pod.is_safe_in(TERM, now=after(SAFE_SECONDS - 1))
    assert not pod.is_safe_in(TERM, now=after(SAFE_SECONDS))


def test_what_is_older_than_the_term_may_have_come_for_one_that_another_leader_evicted() -> None:
    assert ReadPod(created=after(LATE_SECONDS - 1)).is_of_former(TERM)
    assert not ReadPod(created=after(LATE_SECONDS)).is_of_former(TERM)
