"""What is remembered of a queue: its stop is pending, acknowledged, and pending again after a change."""

from __future__ import annotations

import time

import pytest

from cluster.objects import Metadata, QueueObject
from controller.status.queue_records import FEW_STOPS, PendingStop, QueueRecords
from controller.workqueue import WorkQueue
from queues.snapshot import QueueSnapshot
from queues.states import StopPolicy
from queues.tree import Tree
from tests.support.rules.cases import NOW, queue

SNAPSHOT = QueueSnapshot(Tree({"a": queue("a", stop_policy=StopPolicy.HOLD)}), now=NOW)


@pytest.fixture
def work_queue() -> WorkQueue:
    return WorkQueue(time.monotonic)


@pytest.fixture
def records(work_queue: WorkQueue) -> QueueRecords:
    records = QueueRecords(work_queue)
    records.record_of(obj("a"))
    return records


def obj(name: str, uid: str = "1") -> QueueObject:
    return QueueObject(metadata=Metadata(name=name, uid=uid))


def stop(scope: str = "") -> PendingStop:
    return PendingStop(scope=scope or SNAPSHOT.scope("a"), places="", version=1, at=0.0)


def test_a_pending_stop_is_urgent_until_it_is_acknowledged(records: QueueRecords) -> None:
    assert not records.are_urgent
    records.begin_stop("a", stop())
    assert (records.are_urgent, records.is_pending("a")) == (True, True)
    records.acknowledge_stop("a")
    assert (records.are_urgent, records.is_pending("a")) == (False, False)


def test_of_many_pending_stops_none_is_urgent(records: QueueRecords) -> None:
    """What comes for one of a thousand is handled together with what comes for others."""
    names = [f"q-{number}" for number in range(FEW_STOPS + 1)]
    for name in names:
        records.record_of(obj(name))
        records.begin_stop(name, stop("any"))
    assert (records.pending_stops, records.are_urgent) == (FEW_STOPS + 1, False)
    records.acknowledge_stop(names[0])
    assert (records.pending_stops, records.are_urgent) == (FEW_STOPS, True)


@pytest.mark.parametrize(("scope", "expected"), [("", set()), ("of former specs", {"a"})])
def test_an_acknowledged_stop_is_outdated_once_its_scope_changed(
    records: QueueRecords, scope: str, expected: set[str]
) -> None:
    records.begin_stop("a", stop(scope))
    assert records.outdated_stops(SNAPSHOT) == set(), "a pending one is decided anew in each sync"
    records.acknowledge_stop("a")
    assert records.outdated_stops(SNAPSHOT) == expected


def test_by_one_snapshot_only_what_changed_since_is_looked_at_again(records: QueueRecords) -> None:
    """What is acknowledged after it was looked at, what is pending again, and what was brought up to date."""
    assert records.outdated_stops(SNAPSHOT) == set()
    records.begin_stop("a", stop("former"))
    records.acknowledge_stop("a")
    assert records.outdated_stops(SNAPSHOT) == records.outdated_stops(SNAPSHOT) == {"a"}
    pending = records.begin_stop("a", stop("former"))
    assert records.outdated_stops(SNAPSHOT) == set()
    records.acknowledge_stop("a")
    pending.scope = SNAPSHOT.scope("a")
    assert records.outdated_stops(SNAPSHOT) == set()
    changed = Tree({"a": queue("a", stop_policy=StopPolicy.HOLD), "b": queue("b", "a")})
    assert records.outdated_stops(QueueSnapshot(changed, now=NOW)) == {"a"}


def test_a_stop_that_is_pending_for_another_scope_still_says_what_it_waits_for(records: QueueRecords) -> None:
    records.begin_stop("a", stop("former")).waiting_for = "a replica"
    assert records.begin_stop("a", stop("now")).waiting_for == "a replica"


def test_an_acknowledged_stop_waits_for_nothing_and_neither_does_the_next(records: QueueRecords) -> None:
    first = records.begin_stop("a", stop("former"))
    first.waiting_for = "a replica"
    records.acknowledge_stop("a")
    assert first.waiting_for == ""
    assert records.begin_stop("a", stop("now")).waiting_for == ""


def test_a_queue_that_schedules_has_no_stop(records: QueueRecords) -> None:
    records.begin_stop("a", stop())
    records.end_stop("a")
    assert (records.record_of(obj("a")).stop, records.are_urgent) == (None, False)


def test_a_queue_created_again_keeps_its_stop_alone(records: QueueRecords) -> None:
    """The stop is of the name and the specs; all else was of the object that is gone."""
    record, pending = records.record_of(obj("a")), records.begin_stop("a", stop())
    record.write_under_way, record.written_version = True, 7
    again = records.record_of(obj("a", uid="2"))
    assert (again.uid, again.stop, again.write_under_way, again.written_version) == ("2", pending, False, 0)


def test_a_change_during_a_write_is_urgent(records: QueueRecords) -> None:
    records.set_changed_during_write("a", True)
    assert records.are_urgent
    records.set_changed_during_write("a", False)
    assert not records.are_urgent


def test_a_queue_that_is_forgotten_leaves_nothing(records: QueueRecords) -> None:
    records.begin_stop("a", stop("former"))
    records.acknowledge_stop("a")
    records.set_changed_during_write("a", True)
    records.forget("a")
    assert (records.get("a"), records.are_urgent, records.outdated_stops(SNAPSHOT)) == (None, False, set())


def test_waking_looks_at_the_pending_stops_alone(records: QueueRecords, work_queue: WorkQueue) -> None:
    records.record_of(obj("b"))
    records.begin_stop("a", stop())
    records.wake()
    assert set(work_queue.get([0.0])) == {"a"}


def test_a_stop_is_pending_since_the_first_of_those_that_were_not_acknowledged(records: QueueRecords) -> None:
    def begin(at: float) -> float:
        return records.begin_stop(
            "a", PendingStop(scope=f"at {at}", places="", version=1, at=at)
        ).pending_since

    assert [begin(at) for at in (5.0, 6.0, 7.0)] == [5.0, 5.0, 5.0]
    records.acknowledge_stop("a")
    assert begin(8.0) == 8.0
