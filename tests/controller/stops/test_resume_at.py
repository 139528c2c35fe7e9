"""What the controller does about a queue's `resumeAt`, and what it writes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cluster.objects import QueueObject
from controller.context import ControllerContext
from controller.stops.resume_at import (
    AUTHOR,
    RETRY_SECONDS,
    ResumeStep,
    resume_if_due,
    resume_patch,
    resume_step,
)
from controller.workqueue import WorkQueue
from queues.apimachinery.timestamps import rfc3339
from queues.queue import Queue
from queues.states import Desired, StopPolicy
from tests.support.cases import each_case
from tests.support.http.asking import SetClock
from tests.support.http.wire_objects import queue as wire_queue
from tests.support.rules.cases import CLOSED, DRAIN, HOLD, NONE, NOW, OPEN, SECOND, SUSPENDED, queue

NOTHING, WRITE, WARN = ResumeStep.NOTHING, ResumeStep.WRITE, ResumeStep.WARN


def timed(desired: Desired = SUSPENDED, policy: StopPolicy = NONE, *, at: datetime | None = NOW) -> Queue:
    return queue("q", desired=desired, stop_policy=policy, resume_at=at)


@each_case(
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


@each_case(
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


class Context:
    """What `resume_if_due` needs: records the submitted write, and the queues that are to be synced again."""

    def __init__(self) -> None:
        self.receive: Callable[[bool | None], object] | None = None
        self.clock = SetClock()
        self.store = SimpleNamespace(clock=self.clock)
        self.writers = None
        self.work_queue = WorkQueue(self.clock.monotonic)
        self.events: list[str] = []
        self.recorder = SimpleNamespace(record=lambda _, *, reason, **__: self.events.append(reason))

    def submit(self, _writers: Any, _key: Any, _send: Any, receive: Any, **_: Any) -> None:
        self.receive = receive

    def due(self) -> set[str]:
        return set(self.work_queue.get([0.0], at_once=True))


@pytest.mark.parametrize(
    ("written", "events", "later"), [(True, ["ResumedOnTime"], set()), (None, [], {"q"})]
)
def test_a_write_that_met_a_conflict_is_made_again_soon(
    written: bool | None, events: list[str], later: set[str]
) -> None:
    """A status that is written meanwhile is such a conflict. Else the next resync would write it."""
    context = Context()
    body = wire_queue("q", state="Suspended", resumeAt=rfc3339(context.clock.now() - SECOND))
    obj = msgspec.convert(body, QueueObject)
    resume_if_due(obj, context=cast(ControllerContext, context))
    assert context.receive is not None
    context.receive(written)
    assert context.due() == set()
    context.clock.seconds += RETRY_SECONDS
    assert (context.events, context.due()) == (events, later)
