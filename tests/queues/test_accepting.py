"""What a queue still takes once it accepts no more: the pods of work it had accepted."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from queues.admission.accepted_work import Owner, is_accepted_work
from tests.support.rules.cases import NOW, SECOND


def owner(*, queue: str = "q", created: datetime = NOW) -> Owner:
    return Owner(kind="Job", name="train", queue=queue, created=created)


@pytest.mark.parametrize(
    ("created", "taken"),
    [
        (NOW - timedelta(days=30), True),
        (NOW - SECOND, True),
        (NOW, True),
        (NOW + SECOND, False),
        (NOW + timedelta(days=30), False),
    ],
)
def test_work_counts_as_accepted_by_the_second(created: datetime, taken: bool) -> None:
    """Work of before the queue turned, or of the same second, keeps its pods; later work does not."""
    assert is_accepted_work(owner(created=created), queue="q", refusing_since=NOW) is taken


def test_a_pod_of_nobody_is_new_work() -> None:
    """Without an owner that we watch there is nothing that was accepted."""
    assert is_accepted_work(None, queue="q", refusing_since=NOW) is False


def test_a_pod_of_nobody_is_new_work_even_before_the_turn_is_written() -> None:
    """A turn that is not written yet does not let in what has no owner."""
    assert not is_accepted_work(None, queue="q", refusing_since=None)


@pytest.mark.parametrize("refusing_since", [None, NOW, NOW + SECOND])
def test_an_owner_in_another_queue_counts_for_nothing(refusing_since: datetime | None) -> None:
    """Work that another queue accepted is new work for this one, however old."""
    assert not is_accepted_work(
        owner(queue="other", created=NOW - SECOND), queue="q", refusing_since=refusing_since
    )


@pytest.mark.parametrize("created", [NOW - SECOND, NOW, NOW + SECOND])
def test_before_the_turn_is_written_every_stored_owner_came_before_it(created: datetime) -> None:
    """While `Accepting` has not turned False yet, an owner that is stored already was accepted."""
    assert is_accepted_work(owner(created=created), queue="q", refusing_since=None)


def test_times_are_compared_as_moments() -> None:
    """A time written in another zone is the moment it names."""
    east = (NOW + SECOND).astimezone(timezone(timedelta(hours=9)))
    assert not is_accepted_work(owner(created=east), queue="q", refusing_since=NOW)
