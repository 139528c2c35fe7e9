"""Leases of other replicas: which reading counts, and that none that hangs delays the next."""

from __future__ import annotations

import pytest

from cluster.cache.changes import QueueChange
from cluster.coordination.replica_report import ReplicaReport
from cluster.coordination.replicas import ReplicaReading
from controller.stops.replica_readings import AT_ONCE, HEDGE_SECONDS, ReplicaReadings
from tests.support.controller.leases import Surroundings

STATUS = QueueChange.STATUS


class Room(Surroundings):
    def __init__(self) -> None:
        super().__init__()
        self.received: list[ReplicaReading] = []
        self.readings = ReplicaReadings(self.context, received=self.received.append)

    def request(self, *, since: float | None = None) -> None:
        self.readings.request("research", STATUS, since=self.clock.seconds if since is None else since)

    def look(self) -> None:
        self.changes()
        self.readings.start_sync()

    def seen(self) -> dict[str, int] | None:
        """What each replica has seen, by the reading that counts."""
        reading = self.readings.latest()
        return None if reading is None else {name: view.seen for name, view in reading.views.items()}


@pytest.fixture
def room() -> Room:
    return Room()


def test_a_reading_wakes_those_who_wait_for_it_once(room: Room) -> None:
    room.request()
    assert room.changes() == {}
    room.readers.answer()
    assert room.changes() == {"research": {STATUS}}
    assert (room.seen(), len(room.received)) == ({}, 1)
    assert room.changes() == {}


def test_a_reading_does_not_count_for_what_came_after_it_began(room: Room) -> None:
    room.request()
    room.clock.seconds += 0.1
    stopped_at = room.clock.seconds
    room.readers.answer()
    room.look()
    assert room.readings.latest(since=stopped_at) is None
    assert room.readings.latest(since=stopped_at - 0.1) is not None


def test_a_request_that_began_too_early_is_not_waited_for(room: Room) -> None:
    room.request()
    room.clock.seconds += 0.01
    room.request()
    assert len(room.readers) == 2


def test_one_request_is_enough_for_all_who_ask_in_time(room: Room) -> None:
    for _ in range(3):
        room.request(since=room.clock.seconds - 1.0)
    assert len(room.readers) == 1


def test_beside_a_request_that_hangs_others_are_sent_up_to_a_bound(room: Room) -> None:
    for number in range(AT_ONCE + 2):
        room.request(since=0.0)
        assert len(room.readers) == min(number + 1, AT_ONCE)
        room.clock.seconds += HEDGE_SECONDS
    room.readers.answer(1)
    assert room.changes() == {"research": {STATUS}}
    assert room.seen() == {}


def test_a_reading_that_comes_after_a_younger_one_is_dropped(room: Room) -> None:
    """The first request hangs; what it brings is older than what the second has brought."""
    room.request(since=0.0)
    room.clock.seconds += HEDGE_SECONDS
    room.request(since=0.0)
    room.reports["other"] = ReplicaReport(seen=7)
    room.readers.answer(1)
    room.look()
    room.reports["other"] = ReplicaReport(seen=3)
    room.readers.answer()
    room.look()
    assert (room.seen(), len(room.received)) == ({"other": 7}, 1)


def test_a_late_answer_does_not_make_a_live_replica_look_dead(room: Room) -> None:
    """Its Lease was renewed while the answer was on its way: the age of a Lease counts until the request."""
    room.reports["other"] = ReplicaReport(seen=7)
    room.request()
    room.readers.answer()
    room.look()
    room.look()
    room.clock.seconds += 1.0
    room.request()
    room.clock.seconds += 20.0
    room.readers.answer()
    room.look()
    assert len(room.received) == 2
    assert (room.seen(), room.received[-1].left) == ({"other": 7}, False)


def test_a_lease_that_is_not_renewed_is_dropped_and_deleted(room: Room) -> None:
    room.reports["other"] = ReplicaReport(seen=7)
    for _ in range(2):
        room.look()
        room.request()
        room.readers.answer()
        room.look()
        room.clock.seconds += 10.0
        room.readings.start_sync()
    assert (room.seen(), room.received[-1].left) == ({}, True)
    room.writers.answer()
    assert room.deleted == ["sluice-replica-other"]


@pytest.mark.parametrize("fault", ["unreachable", "another etcd"])
def test_a_list_that_cannot_be_used_is_no_reading_and_is_asked_for_again(room: Room, fault: str) -> None:
    room.reachable = fault != "unreachable"
    room.pods = 101 if fault == "another etcd" else 100
    room.request()
    room.readers.answer()
    assert room.changes() == {}
    assert (room.seen(), room.received) == (None, [])
    room.reachable, room.pods = True, 100
    room.readings.start_sync()
    room.request()
    room.readers.answer()
    assert room.changes() == {"research": {STATUS}}


def test_who_was_just_given_a_reading_asks_for_the_next_one_a_look_later(room: Room) -> None:
    room.request()
    room.readers.answer()
    room.look()
    room.request(since=0.0)
    assert len(room.readers) == 0
    room.look()
    room.request(since=0.0)
    assert len(room.readers) == 1
