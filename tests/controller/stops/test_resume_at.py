"""What the controller does about a queue's `resumeAt`, and what it writes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from controller.stops.resume_at import AUTHOR, ResumeStep, resume_patch, resume_step
from queues.queue import Queue
from queues.states import Desired, StopPolicy
from tests.support.rules.cases import CLOSED, DRAIN, HOLD, NONE, NOW, OPEN, SECOND, SUSPENDED, queue

NOTHING, WRITE, WARN = ResumeStep.NOTHING, ResumeStep.WRITE, ResumeStep.WARN


def timed(desired: Desired = SUSPENDED, policy: StopPolicy = NONE, *, at: datetime | None = NOW) -> Queue:
    return queue("q", desired=desired, stop_policy=policy, resume_at=at)


@pytest.mark.parametrize(
    ("stop", "expected"),
    [
        (timed(at=None), NOTHING),
        (timed(at=NOW + SECOND), NOTHING),
        (timed(OPEN), NOTHING),
        (timed(CLOSED), NOTHING),
        (timed(), WRITE),
        (timed(at=NOW - SECOND), WRITE),
        (timed(at=NOW.replace(tzinfo=None)), WRITE),
        (timed(at=NOW.astimezone(timezone(timedelta(hours=14)))), WRITE),
        (timed(OPEN, HOLD), WRITE),
        (timed(OPEN, DRAIN), WRITE),
        (timed(CLOSED, HOLD), WRITE),
        (timed(SUSPENDED, HOLD), WRITE),
    ],
    ids=[
        "no time",
        "a time in the future",
        "Open",
        "Closed",
        "suspended, the time is now",
        "suspended, the time is past",
        "a time without a zone",
        "a time of another zone",
        "held",
        "drained",
        "Closed and held",
        "suspended and held",
    ],
)
def test_the_end_of_a_stop_is_written_once_its_time_is_past(stop: Queue, expected: ResumeStep) -> None:
    assert resume_step(stop, resumed_for="", now=NOW) is expected


@pytest.mark.parametrize(
    ("resumed_for", "expected"),
    [
        ("", WRITE),
        (NOW.isoformat(), WARN),
        ((NOW - SECOND).isoformat(), WRITE),
        ("nonsense", WRITE),
    ],
    ids=["never resumed", "resumed for this time", "resumed for an earlier time", "an edited annotation"],
)
def test_a_stop_that_was_written_again_with_the_same_time_gets_a_warning(
    resumed_for: str, expected: ResumeStep
) -> None:
    """A GitOps tool restores the old text; the controller does not write against it."""
    assert resume_step(timed(), resumed_for=resumed_for, now=NOW) is expected


def test_a_stop_with_a_later_time_is_not_warned_about_before_that_time() -> None:
    stop = timed(at=NOW + SECOND)
    assert resume_step(stop, resumed_for=(NOW + SECOND).isoformat(), now=NOW) is NOTHING


@pytest.mark.parametrize(
    ("desired", "policy", "state"),
    [
        (SUSPENDED, NONE, "Open"),
        (SUSPENDED, HOLD, "Open"),
        (OPEN, HOLD, "Open"),
        (OPEN, DRAIN, "Open"),
        (CLOSED, HOLD, "Closed"),
    ],
)
def test_the_write_removes_the_stop_and_leaves_a_close(
    desired: Desired, policy: StopPolicy, state: str
) -> None:
    body = resume_patch(timed(desired, policy), resource_version="7")
    assert body["spec"] == {"state": state, "stopPolicy": "None", "resumeAt": None, "reason": None}


def test_the_write_is_for_one_resource_version_and_names_the_time() -> None:
    """An edit in between refuses it; the time keeps it from being written twice."""
    metadata = resume_patch(timed(), resource_version="7")["metadata"]
    assert metadata["resourceVersion"] == "7"
    assert metadata["annotations"] == {
        "sluice.dev/resumed": NOW.isoformat(),
        "sluice.dev/on-behalf-of": AUTHOR,
    }
