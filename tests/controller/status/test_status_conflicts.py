"""Foreign writes of a status: which count, who made them, and how long the same is not written again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cluster.metrics import Metrics
from cluster.objects import QueueObject
from controller.status.queue_status import current_status
from controller.status.status_conflicts import (
    AUTHOR_SECONDS,
    QUIET_SECONDS,
    REWRITE,
    SAME_AUTHOR_SECONDS,
    WITHOUT_QUEUE_CONTROLLER,
    Contest,
    OwnedObject,
    StatusConflicts,
    WrittenStatus,
    changed_by_others,
    last_writer,
    rival_text,
    says_something_new,
)
from controller.workqueue import WorkQueue
from tests.support.cases import each_case
from tests.support.controller.contexts import context_with
from tests.support.http.asking import SetClock

STATUS: dict[str, object] = {"f:status": {"f:state": {}}}
SPEC: dict[str, object] = {"f:spec": {"f:weight": {}}}


def owner(manager: str, second: int, fields: dict[str, object]) -> dict[str, object]:
    time = datetime(2030, 1, 1, 12, 0, second, tzinfo=UTC).isoformat()
    return {"manager": manager, "operation": "Update", "time": time, "fieldsV1": fields}


@each_case(
    ("owners", "name"),
    [
        ([], "somebody"),
        ([owner("sluice", 1, STATUS)], "sluice"),
        ([owner("sluice", 1, STATUS), owner("other", 2, STATUS)], "other"),
        ([owner("sluice", 3, STATUS), owner("other", 2, STATUS)], "sluice"),
        ([owner("other", 2, STATUS), owner("sluice", 2, STATUS)], "other"),
        ([owner("editor", 9, SPEC), owner("other", 2, STATUS)], "other"),
        ([owner("editor", 9, SPEC)], "somebody"),
        ([{"manager": "", "fieldsV1": STATUS}], "somebody"),
    ],
    ids=lambda case: str(len(case)) if isinstance(case, list) else case,
)
def test_the_last_to_write_a_status_is_named(owners: list[dict[str, object]], name: str) -> None:
    """A writer of the spec does not count, nor an earlier one; of two in one second it is not us."""
    found = msgspec.convert({"metadata": {"managedFields": owners}}, OwnedObject)
    assert last_writer(found.metadata.managed_fields) == name


@pytest.mark.parametrize(
    ("manager", "advice"),
    [("vc-controller-manager", True), ("operator", True), ("vc-scheduler", False)],
)
def test_the_advice_is_for_the_writer_that_is_named(manager: str, advice: bool) -> None:
    """The flag of Volcano's controller manager switches no scheduler off."""
    text = rival_text(manager)
    assert text.startswith(f'"{manager}" writes the status of this queue again and again')
    assert (WITHOUT_QUEUE_CONTROLLER in text, "Volcano's scheduler" in text) == (advice, not advice)


def test_each_foreign_write_waits_twice_as_long_up_to_a_limit() -> None:
    """The first one is overwritten at once."""
    contest, waits, now = Contest(), [], 1000.0
    for version in range(1, 10):
        contest = contest.next("other", version=version, now=now)
        waits.append(contest.until - now)
        now = contest.until
    assert waits == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, REWRITE.longest, REWRITE.longest]
    assert (contest.times, contest.version) == (9, 9)


def test_a_queue_that_was_left_alone_begins_anew() -> None:
    """One write today and one tomorrow are no rivalry."""
    contest = Contest().next("a", version=1, now=1000.0).next("a", version=2, now=1001.0)
    assert contest.next("a", version=3, now=1001.0 + QUIET_SECONDS).is_rivalry
    assert contest.next("a", version=3, now=1002.0 + QUIET_SECONDS).times == 1


# Which foreign writes count

WRITTEN_AT = 5


def queue_with(*, version: int = WRITTEN_AT + 1, uid: str = "uid-a", **status: Any) -> QueueObject:
    stored: dict[str, Any] = {"state": "Open", "observedGeneration": 1, **status}
    return msgspec.convert(
        {"metadata": {"name": "a", "uid": uid, "resourceVersion": str(version)}, "status": stored},
        QueueObject,
    )


def active(status: str = "True", *, kind: str = "Active", message: str = "runs") -> dict[str, str]:
    return {"type": kind, "status": status, "message": message, "lastTransitionTime": "2029-01-01T00:00:00Z"}


OURS = queue_with(version=WRITTEN_AT, conditions=[active()])
WRITTEN = WrittenStatus("uid-a", WRITTEN_AT, current_status(OURS.status))


@each_case(
    ("obj", "expected"),
    [
        (OURS, False),
        (queue_with(conditions=[active()]), False),
        (queue_with(conditions=[active()], running=7, allocated={"pods": "7"}), False),
        (queue_with(conditions=[active()], stop={"revision": "x"}), False),
        (queue_with(conditions=[active(), active(kind="PolicyResolved")]), False),
        (queue_with(conditions=[{**active(), "lastTransitionTime": "2031-01-01T00:00:00Z"}]), False),
        (queue_with(conditions=[active()], state="Closed"), True),
        (queue_with(conditions=[active("False")]), True),
        (queue_with(conditions=[active(message="another text")]), True),
        (queue_with(conditions=[]), True),
        (queue_with(conditions=[active()], observedGeneration=2), True),
        (queue_with(conditions=[active()], state="Closed", version=WRITTEN_AT - 1), False),
        (queue_with(conditions=[active()], state="Closed", uid="uid-b"), False),
    ],
    ids=[
        "our own write",
        "nothing differs",
        "counts",
        "the stop",
        "a condition that we do not write",
        "the time of a condition",
        "the state",
        "the status of a condition",
        "the text of a condition",
        "a condition is gone",
        "the generation",
        "an older version",
        "another object",
    ],
)
def test_a_foreign_write_counts_if_it_changes_what_we_said(obj: QueueObject, expected: bool) -> None:
    assert changed_by_others(WRITTEN, obj) is expected


@each_case(
    ("status", "expected"),
    [
        ({"conditions": [active()]}, False),
        ({"conditions": [active()], "running": 7}, False),
        ({"conditions": [active()], "observedGeneration": 0}, False),
        ({"conditions": [active()], "observedGeneration": 2}, True),
        ({"conditions": [active()], "state": "Closed"}, True),
        ({"conditions": [active("False")]}, True),
    ],
    ids=["the same", "counts", "a former generation", "a new generation", "the state", "a condition"],
)
def test_what_we_have_not_written_yet_does_not_wait(status: dict[str, Any], expected: bool) -> None:
    assert says_something_new(current_status(queue_with(**status).status), WRITTEN) is expected


# From the first foreign write to the second controller, with a clock that the test moves


class Course:
    """A queue whose status we wrote, and others write again."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.metrics = Metrics()
        self.events: list[str] = []
        self._version = WRITTEN_AT
        self._sent: list[tuple[Callable[[], object], Callable[[bool], object]]] = []
        self._work_queue = WorkQueue(self.clock.monotonic)
        self._managed: list[dict[str, object]] = []
        self._conflicts = StatusConflicts(
            context_with(
                store=SimpleNamespace(clock=self.clock),
                client=SimpleNamespace(get=lambda _path: self._stored()),
                recorder=SimpleNamespace(record=lambda _, *, reason, **__: self.events.append(reason)),
                status_writers=SimpleNamespace(submit=self._submit),
                work_queue=self._work_queue,
                metrics=self.metrics,
            )
        )
        self._conflicts.record_write(OURS)

    def _stored(self) -> bytes:
        return msgspec.json.encode({"metadata": {"managedFields": self._managed}})

    def _submit(
        self, _key: object, write: Callable[[], object], *, done: Callable[[bool], object], **_: object
    ) -> bool:
        self._sent.append((write, done))
        return True

    def seconds(self, **status: Any) -> float:
        """For how long a status of ours waits that says Open, unless told otherwise."""
        obj = queue_with(version=self._version, conditions=[], state="Unknown")
        wanted = queue_with(**{"conditions": [active()], **status})
        return self._conflicts.seconds_to_wait(obj, current_status(wanted.status))

    def foreign_write(self, manager: str = "other") -> None:
        self._version += 1
        self._managed = [owner(manager, 1, STATUS)]

    def answered(self) -> None:
        """The API server has said who wrote."""
        for write, done in self._sent:
            write()
            done(True)
        self._sent.clear()
        self._work_queue.get([0.0], at_once=True)

    def conflict(self, manager: str = "other") -> float:
        """A foreign write, and how long the same status waits once its writer is known. The wait passes."""
        self.foreign_write(manager)
        self.seconds()
        self.answered()
        seconds = self.seconds()
        self.clock.seconds += seconds
        return seconds


@pytest.fixture
def course() -> Course:
    return Course()


def test_a_foreign_write_waits_for_its_writers_name(course: Course) -> None:
    """The next write of ours would hide it. Then it is named, and overwritten."""
    course.foreign_write()
    assert course.seconds() == SAME_AUTHOR_SECONDS
    assert course.events == []
    course.answered()
    assert (course.seconds(), course.events) == (0.0, ["StatusOverwritten"])


@pytest.mark.parametrize(
    ("status", "limit"),
    [({}, SAME_AUTHOR_SECONDS), ({"state": "Suspended"}, AUTHOR_SECONDS)],
    ids=["the same", "something new"],
)
def test_no_longer_than_the_name_may_take(course: Course, status: dict[str, Any], limit: float) -> None:
    """What is new waits for less."""
    course.foreign_write()
    assert course.seconds(**status) == limit
    course.clock.seconds += limit
    assert (course.seconds(**status), course.events) == (0.0, ["StatusOverwritten"])


@pytest.mark.parametrize(
    ("status", "limit"),
    [({}, SAME_AUTHOR_SECONDS), ({"state": "Suspended"}, AUTHOR_SECONDS)],
    ids=["the same", "something new"],
)
def test_somebody_who_writes_all_the_time_is_waited_for_no_longer(
    course: Course, status: dict[str, Any], limit: float
) -> None:
    """Each of the writes comes before the API server has said who made the last one."""
    for tenth in range(10):
        course.foreign_write()
        assert course.seconds(**status) == pytest.approx(limit * (10 - tenth) / 10)
        course.clock.seconds += limit / 10
    course.clock.seconds += limit / 10
    course.foreign_write()
    assert (course.seconds(**status), course.events) == (0.0, ["StatusOverwritten"])
    course.foreign_write()
    course.seconds(**status)
    assert course.events == ["StatusOverwritten"], "the next one is asked about anew"


def test_one_write_has_one_event(course: Course) -> None:
    course.conflict()
    assert course.seconds() == 0.0
    assert course.events == ["StatusOverwritten"]
    assert course.metrics.registry.get_sample_value("sluice_statuses_put_back_total") == 1


def test_a_write_of_ours_that_we_do_not_know_is_no_foreign_one(course: Course) -> None:
    """Of the leader before us, say."""
    assert course.conflict("sluice") == 0.0
    assert course.events == []


def test_the_third_in_a_row_is_a_second_controller(course: Course) -> None:
    """From the second on the same status waits; its writer need not be asked for any more."""
    assert [course.conflict() for _ in range(3)] == [0.0, 0.5, 1.0]
    assert course.events == ["StatusOverwritten", "StatusOverwritten", "SecondController"]
    course.foreign_write()
    assert course.seconds() == 2.0


def test_a_status_that_says_something_new_is_written_at_once(course: Course) -> None:
    """Neither an acknowledgement nor a close waits for another writer."""
    for _ in range(3):
        course.conflict()
    course.foreign_write()
    assert course.seconds() == 2.0
    assert course.seconds(conditions=[active("False")]) == 0.0


def test_a_queue_that_is_forgotten_has_no_conflict(course: Course) -> None:
    course.conflict()
    course._conflicts.forget("a")
    course.foreign_write()
    assert course.seconds() == 0.0
