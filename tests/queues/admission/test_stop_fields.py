"""Which of `reason` and `resumeAt` an edit takes away: each case of the table."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from queues.admission.queue_edits import fields_to_clear
from queues.queue import Queue
from queues.states import Desired, StopPolicy
from tests.support.cases import each_case

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER, PAST = NOW + timedelta(hours=1), NOW - timedelta(hours=1)
BOTH = ("resumeAt", "reason")


def queue(
    state: str = "Open", policy: str = "None", *, at: datetime | None = LATER, why: str = "disks"
) -> Queue:
    return Queue(name="q", desired=Desired(state), stop_policy=StopPolicy(policy), resume_at=at, reason=why)


def gone(
    before: Queue, after: Queue, *, same: tuple[str, ...] = BOTH, anew: tuple[str, ...] = ()
) -> tuple[str, ...]:
    return fields_to_clear(before, after, same=same, set_anew=anew, now=NOW)


STOPS = [
    queue(state, policy)
    for state, policy in product(Desired, StopPolicy)
    if (state, policy) != (Desired.OPEN, StopPolicy.NONE)
]


@each_case("stop", [*STOPS, queue()], ids=repr)
def test_an_edit_of_anything_else_leaves_both(stop: Queue) -> None:
    assert gone(stop, stop) == ()


@each_case("stop", STOPS, ids=repr)
def test_the_end_of_a_stop_takes_what_was_of_it(stop: Queue) -> None:
    assert gone(stop, queue()) == BOTH


def test_the_reason_of_an_opening_does_not_stay_to_become_that_of_the_next_stop() -> None:
    assert gone(queue("Suspended"), queue(why="repaired", at=None), same=()) == ("reason",)


def test_a_resume_time_that_is_set_while_opening_is_kept_for_the_next_stop() -> None:
    assert gone(queue("Suspended", at=None), queue(why=""), same=()) == ()


@each_case("stop", STOPS, ids=repr)
def test_fields_written_before_a_stop_belong_to_that_stop(stop: Queue) -> None:
    """The end of the stop before took its own away."""
    closed = stop.desired is Desired.CLOSED
    assert gone(queue(), stop) == (("resumeAt",) if closed else ())


def test_a_time_that_is_past_is_not_that_of_a_stop_that_begins() -> None:
    assert gone(queue(at=PAST), queue("Suspended", at=PAST)) == ("resumeAt",)


CHANGES = [(one, other) for one, other in product(STOPS, STOPS) if one != other]


@pytest.mark.parametrize("anew", [(), ("reason",), ("resumeAt",), BOTH], ids=str)
def test_a_stop_after_another_keeps_what_the_request_sets(anew: tuple[str, ...]) -> None:
    for before, after in CHANGES:
        cleared = tuple(field for field in BOTH if field not in anew)
        assert gone(before, after, anew=anew) == cleared, (before, after)


def test_a_stop_after_another_keeps_a_value_that_changes() -> None:
    for before, after in CHANGES:
        assert gone(before, after, same=()) == (), (before, after)
