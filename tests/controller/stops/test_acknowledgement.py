"""The evidence for an acknowledgement, which the leader gathers from Leases, pods, guards and passes."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from cluster.cache.changes import QueueChange
from cluster.coordination.leases import LEASE_SECONDS
from cluster.coordination.replica_report import ReplicaReport
from cluster.debounce import Trigger
from cluster.inflight.binds import BindPass, PassKey
from controller.pods.member_labels import MemberLabels
from controller.pods.retry import BindPassRetry
from controller.stops.acknowledgement import (
    MAX_VOLUME_READS,
    VOLUME_SECONDS,
    StopAcknowledgement,
    may_be_a_bind,
)
from controller.stops.bind_guard import BindGuards
from controller.stops.replica_readings import AGAIN_SECONDS
from controller.stops.volume_waits import VolumeWaits
from queues.status.acknowledgement import ObstacleReason, UnlabelledView
from tests.support.cases import each_case
from tests.support.cluster.recounting import MARKED
from tests.support.controller.leases import Surroundings, lease
from tests.support.http.asking import SetClock
from tests.support.http.wire_objects import member, queue

REQUEST_SECONDS = 60.0


@each_case(
    ("assumed", "waiting_at", "now", "expected"),
    [
        (True, None, 1000.0, True),
        (True, None, 1059.9, True),
        (True, None, 1060.0, False),
        (True, 999.9, 1001.0, True),
        (True, 1000.0, 1001.0, False),
        (False, None, 1000.0, False),
    ],
    ids=[
        "just lost",
        "lost for less than a request takes",
        "lost for as long as a request takes",
        "it waited for a volume before",
        "it waited for a volume afterwards",
        "let through by filter here",
    ],
)
def test_a_pass_of_a_lost_replica_may_be_a_bind_for_as_long_as_a_request_takes(
    assumed: bool, waiting_at: float | None, now: float, expected: bool
) -> None:
    """The bind may have passed the guard of that replica."""
    bind_pass = BindPass(namespace="team", name="work", queue="research", at=1000.0, assumed=assumed)
    found = may_be_a_bind(bind_pass, waiting_at=waiting_at, now=now, request_seconds=REQUEST_SECONDS)
    assert found is expected


# What a stop waits for

QUEUE, PARENT = "research", "labs"
#: Of the queues, once they have the stop.
STOP = 50
#: Of the marker that is begun once the stop is known.
MARKED_AT = 150
SEEN = ReplicaReport(seen=STOP, open=(), admitting=(), pods=200, passes=(), binds=())


class Labels:
    """Every member has its label. `assume`: assumes the passes of those that got it lately. `left`: when
    members left the watch, of which no list was read since. `waited_until`: up to when they were waited for.
    `taken`: called as changes of labels are taken.
    """

    def __init__(self, clock: SetClock) -> None:
        self.passes_assumed = 0
        self.left: list[float] = []
        self.waited_until: list[float] = []
        self.begun: list[int] = []
        self.assume: Callable[[], object] | None = None
        self.taken: Callable[[], object] = lambda: None
        self.clock = clock

    def settle(self, _queues: frozenset[str]) -> None:
        if self.assume is not None:
            self.passes_assumed += 1
            self.assume()
            self.assume = None

    def look_for(self, _queues: frozenset[str], *, since: int, departures_until: float) -> UnlabelledView:
        assert since
        self.waited_until.append(departures_until)
        self.taken()
        return UnlabelledView(
            at=self.clock.monotonic(),
            listed=True,
            departed="a member left the watch" if self.left else "",
            departed_at=min(self.left, default=math.inf),
        )

    def begin_list(self, version: int) -> None:
        self.begun.append(version)

    def version_since(self, _queues: frozenset[str], version: int) -> int:
        return version

    def request_all(self) -> None:
        """No pod lacks the label."""


class Leader(Surroundings):
    """A leader that knows the stop of `research` since now. The stop waits only for what a test adds."""

    def __init__(self) -> None:
        super().__init__()
        self.guarded: dict[str, float] = {}
        self.retried: list[PassKey] = []
        guards = SimpleNamespace(on=self.guarded)
        self.server.has(
            queue("root"), queue(PARENT), queue(QUEUE, parent=PARENT, version=STOP, state="Suspended")
        )
        self.member_labels = Labels(self.clock)
        self.acknowledgement = StopAcknowledgement(
            self.context,
            guards=cast(BindGuards, guards),
            bind_pass_retry=cast(BindPassRetry, SimpleNamespace(retry_pods=self.retried.extend)),
            member_labels=cast(MemberLabels, self.member_labels),
        )
        self.stopped_at = self.clock.seconds

    def waits_for(self) -> ObstacleReason | None:
        """By what is known in this sync."""
        first = self.acknowledgement.advance(QUEUE, since=STOP, at=self.stopped_at)
        return None if first is None else first.reason

    def let_through(self, name: str, *, namespace: str = "team") -> None:
        """Filter lets this pod pass now."""
        self.server.store.bind_passes.record_filter_pass(
            namespace=namespace, name=name, queue=QUEUE, uid=f"uid-{name}"
        )

    def sync(self) -> ObstacleReason | None:
        """In a sync after the Leases were read, if they were requested, and all pods are known."""
        self.waits_for()
        while len(self.readers):
            self.readers.answer()
        self.changes()
        self.pods = max(self.pods, self.version)
        self.acknowledgement.record({})
        return self.waits_for()


@pytest.fixture
def leader() -> Leader:
    return Leader()


def nothing(_: Leader) -> None: ...


def replica_up_to_date(leader: Leader) -> None:
    leader.reports["other"] = SEEN


def replica_behind(leader: Leader) -> None:
    leader.reports["other"] = ReplicaReport(seen=STOP - 1, open=(), pods=200, passes=())


def replica_behind_with_pods(leader: Leader) -> None:
    leader.reports["other"] = ReplicaReport(seen=STOP, open=(), pods=99, passes=(), binds=())


def replica_with_pass(leader: Leader) -> None:
    passes = ((QUEUE, "team", "work"),)
    leader.reports["other"] = ReplicaReport(seen=STOP, open=(QUEUE,), pods=200, passes=passes, binds=(QUEUE,))


def replica_with_pass_of_the_parent(leader: Leader) -> None:
    passes = ((PARENT, "team", "work"),)
    leader.reports["other"] = ReplicaReport(seen=STOP, open=(PARENT,), pods=200, passes=passes, binds=())


def replica_of_an_older_version(leader: Leader) -> None:
    leader.reports["other"] = ReplicaReport(seen=STOP)


def leases_unreadable(leader: Leader) -> None:
    leader.reachable = False


def bindable_pod(leader: Leader) -> None:
    leader.server.has(member("work", queue=QUEUE))


def bindable_pod_guarded(leader: Leader) -> None:
    bindable_pod(leader)
    leader.guarded["team"] = leader.clock.seconds - 3600.0


def namespace_changed(leader: Leader) -> None:
    relists = leader.server.store.member_relists = Trigger(clock=lambda: leader.clock.seconds)
    relists.fire(STOP)


def namespace_changed_later(leader: Leader) -> None:
    """Which anybody may have done who may annotate it."""
    relists = leader.server.store.member_relists = Trigger(clock=lambda: leader.clock.seconds)
    relists.fire(leader.version + 1)


def test_pods_that_the_watch_shows_while_members_are_looked_at_count_with_the_next_look(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to which version the pods are known is read before the members are: one that comes in between might
    be bindable, and was not looked at.
    """
    assert leader.waits_for() is not None
    while len(leader.readers):
        leader.readers.answer()
    leader.changes()
    leader.acknowledgement.record({})
    known, members = leader.version, leader.server.store.members
    looked_at = members.bindable_namespaces

    def late(queue: str) -> list[str]:
        found = looked_at(queue)
        leader.pods = known + 1_000
        return found

    leader.pods = 0
    monkeypatch.setattr(members, "bindable_namespaces", late)
    assert leader.waits_for() is ObstacleReason.PODS_BEHIND
    assert leader.waits_for() is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (nothing, None),
        (namespace_changed, ObstacleReason.PODS_BEHIND),
        (namespace_changed_later, None),
        (replica_up_to_date, None),
        (replica_behind, ObstacleReason.REPLICA_BEHIND),
        (replica_behind_with_pods, ObstacleReason.PODS_BEHIND),
        (replica_with_pass, ObstacleReason.PASS_OPEN),
        (replica_with_pass_of_the_parent, None),
        (replica_of_an_older_version, ObstacleReason.PODS_BEHIND),
        (leases_unreadable, ObstacleReason.REPLICAS_UNKNOWN),
        (bindable_pod, ObstacleReason.UNGUARDED),
        (bindable_pod_guarded, None),
    ],
    ids=lambda value: value.__name__.replace("_", " ") if callable(value) else "",
)
def test_what_a_stop_waits_for(
    leader: Leader, given: Callable[[Leader], None], expected: ObstacleReason | None
) -> None:
    given(leader)
    leader.sync()
    assert leader.sync() is expected


@pytest.mark.parametrize(("replica", "expected"), [(nothing, 0), (replica_behind, 1)], ids=["none", "behind"])
def test_the_leases_are_read_again_while_a_replica_has_something_to_report(
    leader: Leader, replica: Callable[[Leader], None], expected: int
) -> None:
    replica(leader)
    bindable_pod(leader)
    for _ in range(3):  # the guard is not on
        assert leader.sync() is not None
    leader.clock.seconds += AGAIN_SECONDS
    leader.acknowledgement.record({})
    assert leader.waits_for() is not None
    assert len(leader.readers) == expected


def test_a_reading_that_began_before_the_stop_was_known_does_not_count(leader: Leader) -> None:
    """A replica may have joined since, and have listed the queues before the stop was written."""
    leader.acknowledgement.stand_by({})
    leader.readers.answer()
    leader.changes()
    leader.clock.seconds += 0.1
    leader.stopped_at = leader.clock.seconds
    assert leader.waits_for() is ObstacleReason.REPLICAS_UNKNOWN
    assert leader.sync() is None


@pytest.mark.parametrize(
    ("other", "pods", "expected"),
    [
        (nothing, MARKED_AT, None),
        (nothing, MARKED_AT - 1, "behind"),
        (replica_up_to_date, MARKED_AT, "behind"),
    ],
    ids=["alone", "alone, the marker has not come", "beside another replica"],
)
def test_where_no_other_replica_is_the_pods_are_new_enough_by_a_marker_that_was_begun_at_once(
    leader: Leader,
    monkeypatch: pytest.MonkeyPatch,
    other: Callable[[Leader], None],
    pods: int,
    expected: str | None,
) -> None:
    """Another one may have let pods through until it reported the stop, after that marker."""
    leader.sync()  # after a start a former process may be gone
    prompted: list[str] = []
    progress = leader.server.store.watch_progress
    monkeypatch.setattr(progress, "prompt", prompted.append)
    monkeypatch.setattr(progress, "prompted_version", lambda _kind, *, since: MARKED_AT if prompted else 0)
    leader.clock.seconds += 1.0
    leader.stopped_at = leader.clock.seconds
    leader.acknowledgement.forget(QUEUE)
    other(leader)
    leader.version = MARKED_AT + 50  # of the Leases
    for _ in range(2):
        leader.waits_for()
    assert (prompted, leader.member_labels.begun) == (["pods"], [MARKED_AT] * 2)
    leader.pods = pods
    leader.readers.answer()
    leader.changes()
    leader.acknowledgement.record({})
    assert leader.waits_for() is (None if expected is None else ObstacleReason.PODS_BEHIND)


def test_the_passes_of_a_lost_replica_are_assumed_once_its_pods_are_known(leader: Leader) -> None:
    """The process before this one is lost. kube-scheduler is made to retry these pods."""
    leader.server.has(member("work", queue=QUEUE, resources=MARKED))
    leader.guarded["team"] = leader.clock.seconds - 3600.0
    leader.version, leader.pods = 105, 105
    leader.waits_for()
    leader.pods = 104
    leader.readers.answer()
    leader.changes()
    leader.acknowledgement.record({})
    assert leader.waits_for() is not None
    assert leader.retried == []
    leader.pods = 105
    leader.acknowledgement.record({})
    assert leader.waits_for() is ObstacleReason.PASS_OPEN
    assert leader.retried == [("team", "work")]


@pytest.mark.parametrize("ends_in_order", [True, False])
def test_a_bind_is_assumed_that_the_guard_of_a_killed_replica_may_have_allowed(
    leader: Leader, ends_in_order: bool
) -> None:
    """Of a pod that no scheduler calls filter for: for as long as a request takes, and once. A replica that
    ends in order has waited for such binds."""
    leader.reports["other"] = ReplicaReport(
        seen=STOP - 1, open=(), admitting=(), pods=200, passes=(), binds=()
    )
    leader.server.has(member("work", queue=QUEUE))
    leader.guarded["team"] = leader.clock.seconds - 3600.0
    assert leader.sync() is ObstacleReason.REPLICA_BEHIND
    leader.clock.seconds += LEASE_SECONDS + 1.0
    if ends_in_order:
        leader.ends("other")
    leader.sync()
    leader.sync()
    assert leader.waits_for() is (None if ends_in_order else ObstacleReason.PASS_OPEN)
    assert leader.retried == []
    leader.clock.seconds += REQUEST_SECONDS
    leader.sync()
    leader.sync()
    assert leader.waits_for() is None


def test_a_pass_is_assumed_that_a_replica_may_have_given_which_no_reading_had_while_it_lived(
    leader: Leader,
) -> None:
    """It came after the last reading and was killed before the stop, which the next reading is for."""
    leader.sync()
    leader.sync()
    assert leader.waits_for() is None
    leader.server.has(member("work", queue=QUEUE, resources=MARKED))
    leader.guarded["team"] = leader.clock.seconds
    report = ReplicaReport(seen=STOP - 1, open=(), admitting=(), pods=200, passes=(), binds=())
    leader.context.other_replicas.events.upsert(lease("other", report))
    leader.reports["other"] = report
    leader.clock.seconds += LEASE_SECONDS + 1.0
    leader.stopped_at = leader.clock.seconds
    leader.sync()
    leader.sync()
    assert leader.waits_for() is ObstacleReason.PASS_OPEN
    assert set(leader.retried) == {("team", "work")}


def test_a_stop_that_waits_for_the_pass_of_an_unknown_pod_makes_the_pods_catch_up_with_our_last_write(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That write is later than the Leases and the marker. Where no pod changes, nothing else has the watch
    catch up with it, and the stop would wait until one does.
    """
    store, written = leader.server.store, leader.version + 50
    store.bind_passes.record_filter_pass(namespace="team", name="nobody", queue=QUEUE, uid="uid-nobody")
    leader.clock.seconds += 1.0
    store.own_writes.record(leader.clock.seconds, written)
    demanded: list[tuple[str, int]] = []
    demand = store.watch_progress.demand

    def record_demand(kind: str, version: int) -> bool:
        demanded.append((kind, version))
        return demand(kind, version)

    monkeypatch.setattr(store.watch_progress, "demand", record_demand)
    assert leader.sync() is ObstacleReason.PASS_OPEN
    assert max(demanded) == ("pods", written)
    leader.pods = written
    leader.acknowledgement.record({})
    assert leader.waits_for() is None


def let_through_and_wait_for_volume(leader: Leader, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass of `work` is open that its pod's volume makes harmless: it was read after the guard was on."""
    monkeypatch.setattr(VolumeWaits, "_waits_for_volume", lambda _self, _namespace, _name: True)
    leader.server.has(member("work", queue=QUEUE, resources=MARKED))
    leader.guarded["team"] = leader.clock.seconds
    leader.let_through("work")
    leader.clock.seconds += VOLUME_SECONDS
    assert leader.sync() is ObstacleReason.PASS_OPEN
    while len(leader.writers):
        leader.writers.answer()
    assert leader.sync() is None


def test_a_known_wait_for_a_volume_counts_though_too_many_passes_are_open_to_read_more(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bind had not been sent when the guard was on, however many other passes there are."""
    let_through_and_wait_for_volume(leader, monkeypatch)
    leader.guarded["labs"] = leader.clock.seconds - 3600.0
    for number in range(MAX_VOLUME_READS):
        name = f"other-{number}"
        leader.server.has(member(name, queue=QUEUE, namespace="labs", resources=MARKED))
        leader.let_through(name, namespace="labs")
    assert leader.sync() is None
    assert not len(leader.writers), "no other pod's volumes are read"


def test_a_known_wait_for_a_volume_counts_for_a_pass_that_is_younger(
    leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its scheduler tried it again: a bind that follows is sent later, and meets the guard all the same."""
    let_through_and_wait_for_volume(leader, monkeypatch)
    leader.let_through("work")
    assert leader.sync() is None
    leader.clock.seconds += 0.1
    leader.guarded["team"] = leader.clock.seconds  # it was off meanwhile
    assert leader.sync() is ObstacleReason.PASS_OPEN


def test_a_pass_that_is_assumed_for_a_pod_that_got_its_label_counts_at_once(leader: Leader) -> None:
    """Though the passes were gathered before in the same sync, for another queue."""
    leader.sync()
    leader.server.has(member("work", queue=QUEUE, resources=MARKED))
    leader.guarded["team"] = leader.clock.seconds - 1.0
    assert leader.waits_for() is None
    passes = leader.server.store.bind_passes
    leader.member_labels.assume = lambda: passes.assume_pass(
        namespace="team", name="work", queue=QUEUE, uid="uid-work"
    )
    assert leader.waits_for() is ObstacleReason.PASS_OPEN


def test_members_that_leave_all_the_time_do_not_put_off_a_stop_for_good(leader: Leader) -> None:
    """Those count that left until the stop waited for nothing else."""
    left = leader.member_labels.left
    left.append(leader.clock.seconds)
    leader.guarded["team"] = leader.clock.seconds - 3600.0
    leader.sync()
    bindable_pod(leader)
    assert leader.waits_for() is ObstacleReason.UNLABELLED
    leader.clock.seconds += 0.1
    left.append(leader.clock.seconds)
    assert leader.waits_for() is ObstacleReason.UNLABELLED
    del left[0]
    assert leader.waits_for() is None
    leader.member_labels.passes_assumed += 1  # a pod may have had that pass, and have left the watch
    assert leader.waits_for() is ObstacleReason.UNLABELLED


def test_members_that_leave_count_while_a_stop_waits_for_something_else(leader: Leader) -> None:
    leader.member_labels.left.append(leader.clock.seconds)
    leader.sync()
    leader.acknowledgement.forget(QUEUE)
    bindable_pod(leader)  # the guard is not on
    assert leader.sync() is ObstacleReason.UNGUARDED
    leader.clock.seconds += 0.1
    leader.member_labels.left[:] = [leader.clock.seconds]
    leader.guarded["team"] = leader.clock.seconds - 3600.0
    assert leader.waits_for() is ObstacleReason.UNLABELLED


def test_a_member_that_leaves_the_watch_as_changes_of_labels_are_taken_is_in_the_evidence(
    leader: Leader,
) -> None:
    """It may have lost its label. Were members gathered later, it would be neither one nor such a change."""
    leader.sync()
    bindable_pod(leader)  # the guard is not on
    leader.member_labels.taken = lambda: leader.server.lacks(member("work", queue=QUEUE, version=150))
    assert leader.waits_for() is ObstacleReason.UNGUARDED
    assert leader.waits_for() is None


def test_all_have_seen_a_version_once_a_reading_that_began_after_it_says_so(leader: Leader) -> None:
    leader.reports["other"] = ReplicaReport(seen=STOP - 1)
    assert not leader.acknowledgement.demand_version_of_all(STOP, queue=QUEUE, change=QueueChange.SPEC)
    leader.readers.answer()
    assert leader.changes() == {QUEUE: {QueueChange.SPEC}}
    leader.acknowledgement.record({})
    assert not leader.acknowledgement.demand_version_of_all(STOP)
    leader.reports["other"] = SEEN
    leader.acknowledgement.record({})
    leader.clock.seconds += 1.0
    assert not leader.acknowledgement.demand_version_of_all(STOP)
    leader.readers.answer()
    leader.changes()
    assert leader.acknowledgement.demand_version_of_all(STOP)
    assert leader.acknowledgement.demand_version_of_all(STOP - 1)


def test_all_have_a_version_though_later_ones_come_all_the_time(
    leader: Leader,
) -> None:
    """Each is requested while the reading for it is under way, as when many queues are created."""
    for version in range(STOP, STOP + 5):
        assert not leader.acknowledgement.demand_version_of_all(version)
        leader.clock.seconds += 0.01
    leader.readers.answer()
    leader.changes()
    assert leader.acknowledgement.demand_version_of_all(STOP)


@pytest.mark.parametrize(
    ("admitting", "expected"), [((), True), ((QUEUE,), False), (("labs",), True), (None, False)]
)
def test_nothing_is_pending_once_every_replica_says_so(
    leader: Leader, admitting: tuple[str, ...] | None, expected: bool
) -> None:
    leader.reports["other"] = ReplicaReport(seen=STOP, admitting=admitting)
    assert leader.acknowledgement.demand_nothing_pending(QUEUE) is None
    leader.readers.answer()
    leader.changes()
    assert leader.acknowledgement.demand_nothing_pending(QUEUE) is expected


def test_what_former_replicas_let_through_is_assumed_before_the_first_stop_is_acknowledged(
    leader: Leader,
) -> None:
    """Once none of them answers any more. The Leases are read then, whoever waits for that."""
    events = leader.context.other_replicas.events
    events.certain_at, events.gaps = leader.clock.seconds + 6.0, 2
    leader.server.has(member("work", queue=QUEUE, resources=MARKED))
    leader.guarded["team"] = leader.clock.seconds
    assert leader.sync() is ObstacleReason.REPLICAS_UNKNOWN
    assert not leader.acknowledgement.demand_all_known(STOP)
    leader.clock.seconds += 6.0
    assert leader.waits_for() is ObstacleReason.REPLICA_LOST
    assert not leader.acknowledgement.demand_all_known(STOP)
    for _ in range(2):
        leader.sync()
    assert leader.acknowledgement.demand_all_known(STOP)
    assert leader.waits_for() is ObstacleReason.PASS_OPEN
    assert set(leader.retried) == {("team", "work")}


def test_the_end_of_a_gap_is_asked_for_now_and_then_while_the_leases_cannot_be_read(leader: Leader) -> None:
    leader.context.other_replicas.events.gaps = 2
    leader.reachable = False
    asked = 0
    for _ in range(100):
        leader.acknowledgement.record({})
        while len(leader.readers):
            asked += 1
            leader.readers.answer()
        leader.changes()
        leader.clock.seconds += 0.01
    assert 1 < asked < 10


def test_what_the_watch_has_shown_counts_for_what_all_are_known_to_have_seen(leader: Leader) -> None:
    """`demand_version_of_all` had its answer before that."""
    assert leader.sync() is None
    assert leader.acknowledgement.demand_version_of_all(STOP)
    behind = lease("other", ReplicaReport(seen=STOP - 1), version=STOP - 1, uid="of-another")
    leader.context.other_replicas.events.upsert(behind)
    assert not leader.acknowledgement.demand_all_known(STOP)
    leader.context.other_replicas.events.upsert(
        lease("other", ReplicaReport(seen=STOP), version=STOP + 1, uid="of-another")
    )
    assert leader.acknowledgement.demand_all_known(STOP)
