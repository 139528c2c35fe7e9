"""Leases of other replicas: which reading counts, and that a request that hangs does not delay the next."""

from __future__ import annotations

import msgspec
import pytest

from cluster.cache.changes import QueueChange
from cluster.coordination.leases import LEASE_SECONDS, LeaseList
from cluster.coordination.replica_report import ReplicaReport
from cluster.coordination.replicas import ReplicaReading
from cluster.inflight.binds import REQUEST_SECONDS
from controller.stops.replica_readings import AGAIN_SECONDS, AT_ONCE, HEDGE_SECONDS, ReplicaReadings
from tests.support.controller.leases import Surroundings, lease
from tests.support.http.wire_objects import policies

STATUS = QueueChange.STATUS


class Readings(Surroundings):
    def __init__(self) -> None:
        super().__init__()
        self.received: list[ReplicaReading] = []
        self.readings = ReplicaReadings(self.context, received=self.received.append)
        self.events = self.context.other_replicas.events
        self.heard: list[str | None] = []
        self.events.listen(lambda lease: self.heard.append(lease.metadata.name if lease else None))

    def request(self, *, since: float | None = None) -> None:
        self.readings.request("research", STATUS, since=self.clock.seconds if since is None else since)

    def shows(self, name: str, report: ReplicaReport, *, version: int) -> None:
        """The watch shows this Lease."""
        self.events.upsert(lease(name, report, version=version))

    def read(self) -> ReplicaReading:
        """A second later: the Leases are listed."""
        self.clock.seconds += 1.0
        self.sync()
        self.request()
        self.readers.answer()
        self.sync()
        return self.received[-1]

    def sync(self) -> None:
        self.changes()
        self.readings.start_sync()

    def seen(self) -> dict[str, int] | None:
        """What each replica has seen, by the reading that counts."""
        reading = self.readings.latest()
        return None if reading is None else {name: view.seen for name, view in reading.views.items()}


@pytest.fixture
def setup() -> Readings:
    return Readings()


def test_a_reading_adds_the_changes_that_wait_for_it_once(setup: Readings) -> None:
    setup.request()
    assert setup.changes() == {}
    setup.readers.answer()
    assert setup.changes() == {"research": {STATUS}}
    assert (setup.seen(), len(setup.received)) == ({}, 1)
    assert setup.changes() == {}


def test_a_reading_does_not_count_for_a_stop_that_came_after_it_began(setup: Readings) -> None:
    setup.request()
    setup.clock.seconds += 0.1
    stopped_at = setup.clock.seconds
    setup.readers.answer()
    setup.sync()
    assert setup.readings.latest(since=stopped_at) is None
    assert setup.readings.latest(since=stopped_at - 0.1) is not None


def test_a_request_that_began_too_early_does_not_keep_another_from_being_sent(setup: Readings) -> None:
    setup.request()
    setup.clock.seconds += 0.01
    setup.request()
    assert len(setup.readers) == 2


def test_one_request_serves_all_callers_that_it_is_new_enough_for(setup: Readings) -> None:
    for _ in range(3):
        setup.request(since=setup.clock.seconds - 1.0)
    assert len(setup.readers) == 1


def test_beside_a_request_that_hangs_a_bounded_number_of_others_is_sent(setup: Readings) -> None:
    for number in range(AT_ONCE + 2):
        setup.request(since=0.0)
        assert len(setup.readers) == min(number + 1, AT_ONCE)
        setup.clock.seconds += HEDGE_SECONDS
    setup.readers.answer(1)
    assert setup.changes() == {"research": {STATUS}}
    assert setup.seen() == {}


def test_a_reading_that_arrives_after_a_younger_one_is_dropped(setup: Readings) -> None:
    """The first request hangs, so its answer is older than that of the second."""
    setup.request(since=0.0)
    setup.clock.seconds += HEDGE_SECONDS
    setup.request(since=0.0)
    setup.reports["other"] = ReplicaReport(seen=7)
    setup.readers.answer(1)
    setup.sync()
    setup.reports["other"] = ReplicaReport(seen=3)
    setup.readers.answer()
    setup.sync()
    assert (setup.seen(), len(setup.received)) == ({"other": 7}, 1)


def test_a_late_answer_does_not_make_a_live_replica_look_dead(setup: Readings) -> None:
    """Its Lease was renewed while the answer was on its way: the age of a Lease counts until the request."""
    setup.reports["other"] = ReplicaReport(seen=7)
    setup.request()
    setup.readers.answer()
    setup.sync()
    setup.sync()
    setup.clock.seconds += 1.0
    setup.request()
    setup.clock.seconds += 20.0
    setup.readers.answer()
    setup.sync()
    assert len(setup.received) == 2
    assert (setup.seen(), setup.received[-1].left) == ({"other": 7}, False)


def test_a_lease_that_is_not_renewed_is_dropped_once_and_deleted_after_the_time_of_a_request(
    setup: Readings,
) -> None:
    """A replica that leads by then counts it as well. Later nothing of that replica is under way."""
    setup.reports["other"] = ReplicaReport(seen=7)
    for _ in range(3):
        setup.sync()
        setup.request()
        setup.readers.answer()
        setup.sync()
        setup.clock.seconds += 10.0
        setup.readings.start_sync()
    assert setup.seen() == {}
    assert [(reading.left, reading.expired) for reading in setup.received] == [
        (True, False),
        (True, True),
        (False, False),
    ]
    setup.writers.answer()
    assert (setup.expired, len(setup.writers), setup.deleted) == ({"other"}, 0, [])
    setup.clock.seconds += REQUEST_SECONDS - 20.0
    setup.request()
    setup.readers.answer()
    setup.sync()
    setup.writers.answer()
    assert setup.deleted == ["sluice-replica-other"]


def test_a_lease_that_was_marked_as_expired_is_not_waited_for(setup: Readings) -> None:
    """Whoever leads next knows at once that this replica was lost, and keeps the Lease as long."""
    setup.reports["other"], setup.expired = ReplicaReport(seen=7), {"other"}
    setup.request()
    setup.readers.answer()
    setup.sync()
    (reading,) = setup.received
    assert (reading.views, reading.left, reading.vanished, reading.expired) == ({}, True, True, True)
    assert (reading.unmarked, reading.ended, len(setup.writers)) == ((), (), 0)


def test_a_mark_is_void_once_the_lease_is_renewed(setup: Readings) -> None:
    """That replica lives: it was late. It answers by queues that it has listed since."""
    renewed = lease("other", ReplicaReport(seen=7), expired=True, renewed_at="2026-11-23T09:00:20.000001Z")
    reading = setup.context.other_replicas.read(LeaseList(items=[renewed]), began=setup.clock.seconds)
    assert (reading.views, reading.expired) == ({"other": ReplicaReport(seen=7)}, False)


def test_a_lease_without_a_renewal_is_never_marked(setup: Readings) -> None:
    """No server of ours writes one. A mark on it would be void at once, and make it look renewed."""
    silent = LeaseList(items=[lease("other", ReplicaReport(seen=7), renewed_at="")])
    replicas = setup.context.other_replicas
    replicas.read(silent, began=setup.clock.seconds)
    setup.clock.seconds += 10.0
    reading = replicas.read(silent, began=setup.clock.seconds)
    assert (reading.views, reading.expired, reading.unmarked) == ({}, True, ())


def test_a_lease_that_is_gone_with_its_mark_is_of_a_replica_that_ended_in_order(setup: Readings) -> None:
    setup.reports["other"] = ReplicaReport(seen=7)
    setup.read()
    setup.ends("other")
    last = setup.read()
    assert (last.left, last.vanished, last.expired, last.lost) == (True, True, False, [ReplicaReport(seen=7)])
    assert setup.seen() == {}


@pytest.mark.parametrize("was_listed", [True, False])
@pytest.mark.parametrize("was_shown", ["deleted", "not deleted yet", "before a gap"])
def test_a_lease_that_is_gone_without_a_mark_counts_until_it_would_have_ended(
    setup: Readings, was_listed: bool, was_shown: str
) -> None:
    """Anybody may have deleted it. Its replica may answer, and is lost if it does not come back."""
    report = ReplicaReport(seen=7)
    if was_listed:
        setup.reports["other"] = report
    setup.read()
    setup.shows("other", report, version=99)
    setup.reports.clear()
    if was_shown == "deleted":
        setup.events.remove(lease("other", report, version=105))
    elif was_shown == "before a gap":
        setup.events.replace([])
    for _ in range(int(LEASE_SECONDS)):
        last = setup.read()
        assert (setup.seen(), last.expired) == ({"other": 7}, False)
    lost = [setup.read() for _ in range(3)]
    assert setup.seen() == {}
    assert [each.expired for each in lost].count(True) == 1
    assert [each.lost for each in lost].count([report]) == 1


def test_a_replica_that_has_another_lease_by_now_is_not_lost(setup: Readings) -> None:
    """It has listed the queues since, and reports what it has seen."""
    setup.reports["other"] = ReplicaReport(seen=7)
    setup.read()
    setup.reports["other"] = ReplicaReport(seen=9)
    setup.uids["other"] = "another"
    last = setup.read()
    assert (setup.seen(), last.left, last.lost) == ({"other": 9}, False, [])
    setup.reports.clear()
    setup.read()
    assert setup.seen() == {"other": 9}


def test_a_replica_that_the_watch_has_shown_counts_before_it_is_listed(setup: Readings) -> None:
    """Also if its Lease is gone by then: only the watch has shown it."""
    setup.read()
    setup.shows("other", ReplicaReport(seen=3), version=105)
    assert setup.seen() == {"other": 3}
    setup.events.remove(lease("other", ReplicaReport(seen=4), version=106))
    assert setup.seen() == {"other": 4}
    setup.version = 110
    setup.read()
    assert setup.seen() == {"other": 4}


def test_a_reading_is_as_new_as_each_report_in_it(setup: Readings) -> None:
    """Else pods could be thought of as known that a replica let through after the list."""
    setup.read()
    setup.shows("other", ReplicaReport(seen=3), version=105)
    reading = setup.readings.latest()
    assert reading is not None
    assert (reading.version, reading.views) == (105, {"other": ReplicaReport(seen=3)})


def test_a_gap_that_begins_while_the_end_of_another_is_read_has_an_end_of_its_own(setup: Readings) -> None:
    """The watch and the list are read by two threads."""
    setup.read()
    setup.clock.seconds += 1.0
    setup.request()
    setup.events.replace([])
    setup.readers.answer()
    setup.sync()
    assert not setup.received[-1].left
    setup.clock.seconds += LEASE_SECONDS
    assert setup.context.other_replicas.is_due
    assert setup.read().left
    assert not setup.context.other_replicas.is_due


def test_after_a_gap_of_the_watch_a_replica_may_be_gone_that_only_the_gap_had(setup: Readings) -> None:
    setup.read()
    assert not setup.read().left
    setup.events.replace([])
    after = [setup.read() for _ in range(8)]
    assert [(each.left, each.lost) for each in after] == [
        *[(False, [])] * 5,
        (True, None),
        *[(False, [])] * 2,
    ]


def test_leases_of_other_names_are_of_no_replica(setup: Readings) -> None:
    """Whatever label they have."""
    stranger = lease("other", ReplicaReport(seen=3))
    named = msgspec.structs.replace(stranger.metadata, name="backup-job")
    setup.strangers.append(msgspec.structs.replace(stranger, metadata=named))
    setup.read()
    assert setup.seen() == {}


def test_a_replica_that_is_killed_before_any_reading_had_it_is_lost_with_the_report_on_its_lease(
    setup: Readings,
) -> None:
    """The reading that is requested when it comes hangs. It may have let pods pass all the same."""
    setup.request()
    setup.readers.answer()
    setup.sync()
    setup.reports["other"] = ReplicaReport(seen=7)
    setup.events.upsert(lease("other", setup.reports["other"]))
    setup.changes()
    setup.clock.seconds += 7.0
    setup.readings.start_sync()
    setup.request()
    setup.readers.answer(1)
    setup.sync()
    last = setup.received[-1]
    assert (last.left, last.vanished, last.expired, last.lost) == (True, True, True, [ReplicaReport(seen=7)])


def test_the_leases_are_read_as_soon_as_a_replica_comes(setup: Readings) -> None:
    """Else one that ends in order before the next reading would never have been known."""
    setup.request()
    setup.readers.answer()
    setup.sync()
    setup.clock.seconds += 0.1
    setup.reports["other"] = ReplicaReport(seen=7)
    setup.shows("other", setup.reports["other"], version=105)
    setup.changes()
    setup.readers.answer()
    setup.sync()
    assert setup.seen() == {"other": 7}
    setup.reports["other"] = ReplicaReport(seen=8)
    setup.shows("other", setup.reports["other"], version=106)
    setup.changes()
    assert len(setup.readers) == 0


def test_a_lost_replica_counts_from_its_last_renewal_not_from_the_last_reading(setup: Readings) -> None:
    """Readings may be seconds apart; the watch shows each renewal at once."""
    setup.reports["other"] = ReplicaReport(seen=7)
    setup.events.upsert(lease("other", setup.reports["other"]))
    setup.clock.seconds += 5.0
    for _ in range(2):
        setup.request()
        setup.readers.answer()
        setup.sync()
        setup.clock.seconds += 1.1
        setup.readings.start_sync()
    assert (setup.seen(), setup.received[-1].left) == ({}, True)


@pytest.mark.parametrize("fault", ["unreachable", "another etcd"])
def test_a_list_that_cannot_be_used_is_dropped_and_requested_again(setup: Readings, fault: str) -> None:
    setup.reachable = fault != "unreachable"
    setup.pods = 101 if fault == "another etcd" else 100
    setup.request()
    setup.readers.answer()
    assert setup.changes() == {}
    assert (setup.seen(), setup.received) == (None, [])
    setup.reachable, setup.pods = True, 100
    setup.readings.start_sync()
    setup.request()
    setup.readers.answer()
    assert setup.changes() == {"research": {STATUS}}


def test_after_a_reading_the_next_one_is_requested_a_little_later(setup: Readings) -> None:
    """The watch of the Leases shows a report sooner, unless it is late."""
    setup.request()
    setup.readers.answer()
    for _ in range(2):
        setup.sync()
        setup.request(since=0.0)
        assert len(setup.readers) == 0
    setup.clock.seconds += AGAIN_SECONDS
    setup.request(since=0.0)
    assert len(setup.readers) == 1


def test_a_caller_that_names_no_moment_is_served_one_sync_later(setup: Readings) -> None:
    setup.request()
    setup.readers.answer()
    setup.sync()
    setup.request(since=float("-inf"))
    assert len(setup.readers) == 0
    setup.sync()
    setup.request(since=float("-inf"))
    assert len(setup.readers) == 1


# What the watch of the Leases shows


def test_a_report_that_the_watch_shows_counts_at_once(setup: Readings) -> None:
    """With its version: the pods are to be as new as the last report."""
    setup.reports["other"] = ReplicaReport(seen=3)
    setup.request()
    setup.readers.answer()
    setup.sync()
    setup.request(since=0.0)
    setup.shows("other", ReplicaReport(seen=7), version=105)
    assert setup.changes() == {"research": {STATUS}}
    reading = setup.readings.latest(since=0.0)
    assert (setup.seen(), reading and reading.version) == ({"other": 7}, 105)


def test_a_report_that_the_watch_showed_before_the_list_came_is_not_lost(setup: Readings) -> None:
    setup.reports["other"] = ReplicaReport(seen=3)
    setup.request()
    setup.readers.answer()
    setup.sync()
    setup.clock.seconds += 1.0
    setup.request()
    setup.shows("other", ReplicaReport(seen=7), version=105)
    setup.readers.answer()
    setup.changes()
    assert setup.seen() == {"other": 7}


@pytest.mark.parametrize(("name", "version"), [("other", 99), ("self", 105)], ids=["older", "own"])
def test_what_a_list_says_is_not_changed_by_other_events(setup: Readings, name: str, version: int) -> None:
    setup.reports["other"] = ReplicaReport(seen=3)
    setup.request()
    setup.readers.answer()
    setup.sync()
    setup.shows(name, ReplicaReport(seen=7), version=version)
    setup.changes()
    assert setup.seen() == {"other": 3}


def test_renewals_alone_are_not_passed_on(setup: Readings) -> None:
    for _ in range(2):
        setup.shows("other", ReplicaReport(seen=7), version=105)
    assert setup.heard == ["sluice-replica-other"]


def test_the_leases_are_read_again_when_one_is_gone_while_something_waits(setup: Readings) -> None:
    setup.shows("other", ReplicaReport(seen=3), version=99)
    setup.changes()
    setup.reports["other"] = ReplicaReport(seen=3)
    setup.request()
    setup.readers.answer()
    setup.sync()
    setup.request(since=0.0)
    assert len(setup.readers) == 0
    setup.events.replace([])
    setup.changes()
    assert len(setup.readers) == 1


def test_a_replica_that_comes_to_answer_by_the_present_policies_is_noticed_once(setup: Readings) -> None:
    """Whether the watch shows it first or a reading, and again after it was gone."""
    store = setup.context.store
    configmap = policies(small="actions: allocate\ntiers: [{}]")
    configmap["metadata"]["resourceVersion"] = "5"
    setup.server.has(configmap)
    seen = []
    for version in (4, 5, 5):
        setup.clock.seconds += 1.0
        setup.sync()
        setup.reports["other"] = ReplicaReport(seen=7, policies=version)
        setup.events.upsert(lease("other", setup.reports["other"]))
        setup.sync()
        setup.request()
        setup.readers.answer()
        setup.sync()
        seen.append(store.policies.reports)
    assert seen == [0, 1, 1]
    setup.ends("other")
    setup.read()
    assert store.policies.reports == 1
    setup.reports["other"] = ReplicaReport(seen=8, policies=5)
    setup.read()
    assert store.policies.reports == 2
