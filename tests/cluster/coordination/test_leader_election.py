"""Who runs for the leader's Lease, and what follows while our own cannot be renewed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.coordination.leader_election import EXPIRED_SECONDS, LeaderElector
from cluster.coordination.leases import LEASE_SECONDS, Lease, Leases, LeaseSightings, LeaseSpec
from cluster.coordination.own_lease import LAST_BINDS_SECONDS, RETRY_SECONDS, ReplicaLease
from cluster.coordination.replica_lease import ENDED_ANNOTATION
from cluster.coordination.replica_report import ReplicaReport
from cluster.exceptions import Conflict, NotFound, Unreachable
from cluster.objects import Metadata
from tests.support.cluster.notes import eventually

PATIENCE = 30.0


class Kept:
    """Leases of an API server that is there, or is not; nobody else asks it."""

    def __init__(self) -> None:
        self.asked = self.written = 0
        self.away = False
        #: Set by each request.
        self.touched = threading.Event()

    def get(self, *_: Any) -> Any:
        self._ask()
        raise NotFound(404, "NotFound", "not yet")

    def create(self, *_: Any, **__: Any) -> Lease:
        return self.renew()

    def renew(self, *_: Any, **__: Any) -> Lease:
        self._ask()
        self.written += 1
        return Lease(metadata=Metadata(resource_version=str(self.written)))

    def delete(self, *_: Any, **__: Any) -> None: ...

    def _ask(self) -> None:
        self.asked += 1
        self.touched.set()
        if self.away:
            raise Unreachable("nobody is there")


class Lists:
    """The lists of queues that were asked for, each done when a test says so."""

    def __init__(self) -> None:
        self.done: list[bool] = []

    def __call__(self) -> Callable[[], bool]:
        number = len(self.done)
        self.done.append(False)
        return lambda: self.done[number]


@contextmanager
def running(one: LeaderElector | ReplicaLease) -> Iterator[None]:
    one.start()
    try:
        yield
    finally:
        one.stop()


def test_who_has_not_read_the_cluster_leaves_the_lease_to_others() -> None:
    """It would keep it from whoever could lead."""
    kept, ready, looked = Kept(), threading.Event(), threading.Event()
    elected = threading.Event()

    def eligible() -> bool:
        looked.set()
        return ready.is_set()

    elector = LeaderElector(cast(Leases, kept), identity="one", clock=lambda: 1000.0, eligible=eligible)
    seen: list[tuple[int, bool, int]] = []
    elector.add_listener(lambda: seen.append((kept.written, elector.leading, elector.term)))
    elector.add_listener(elected.set)
    with running(elector):
        assert looked.wait(PATIENCE)
        assert (kept.written, elector.leading, elector.term) == (0, False, 0)
        ready.set()
        assert elected.wait(PATIENCE)
        assert seen == [(1, True, 1)]
        ready.clear()
        eventually(lambda: not elector.leading)


class OfAnother(Kept):
    """The Lease of a leader that is gone; the watch has shown its last renewal."""

    lease = Lease(
        metadata=Metadata(name="sluice-controller", resource_version="7"),
        spec=LeaseSpec(holder_identity="other", lease_duration_seconds=LEASE_SECONDS),
    )

    def get(self, *_: Any) -> Lease:
        self._ask()
        return self.lease


def test_the_lease_of_a_lost_leader_is_tried_for_when_it_ends() -> None:
    """Not up to `RETRY_SECONDS` later: stops wait for a leader."""
    now = 1000.0
    sightings = LeaseSightings(lambda: now)
    sightings.record(OfAnother.lease)
    now += LEASE_SECONDS - 0.5
    kept = OfAnother()
    elector = LeaderElector(cast(Leases, kept), identity="one", clock=lambda: now, sightings=sightings)
    stopped = vars(elector)["_stopped"] = Once()
    with running(elector):
        eventually(lambda: stopped.waits)
    assert stopped.waits == [pytest.approx(0.5 + EXPIRED_SECONDS)]
    assert (kept.written, elector.leading) == (0, False)
    now += 0.5 + EXPIRED_SECONDS
    stopped.clear()
    assert elector._try_acquire()
    assert (kept.written, elector.leading) == (1, True)


class TakenSlowly(Kept):
    """A free Lease that is written only once `go_on` is set; `holders`: one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.holders: list[str] = []

    def get(self, *_: Any) -> Lease:
        if not self.holders:
            raise NotFound(404, "NotFound", "not yet")
        return Lease(metadata=Metadata(), spec=LeaseSpec(holder_identity=self.holders[-1]))

    def create(self, *_: Any, holder: str, **__: Any) -> Lease:
        self.touched.set()
        assert self.go_on.wait(PATIENCE)
        return self.renew(holder=holder)

    def renew(self, *_: Any, holder: str, **__: Any) -> Lease:
        self.holders.append(holder)
        return self.get()


def test_a_lease_that_is_taken_while_its_elector_is_stopped_is_given_up() -> None:
    """Else nobody leads for as long as it lasts: whoever took it never led, and had nothing to give up."""
    kept = TakenSlowly()
    elector = LeaderElector(cast(Leases, kept), identity="one", clock=lambda: 1000.0)
    elected: list[str] = []
    elector.add_listener(lambda: elected.append("one"))
    elector.start()
    assert kept.touched.wait(PATIENCE)
    stopping = threading.Thread(target=elector.stop, daemon=True)
    stopping.start()
    assert elector._stopped.wait(PATIENCE)
    kept.go_on.set()
    stopping.join(PATIENCE)
    assert (kept.holders, elected, elector.leading) == (["one", ""], [], False)
    assert not elector.running


class TakenWithoutAnAnswer(TakenSlowly):
    """A Lease whose writes are stored, and whose answers are lost while `away`."""

    def create(self, *_: Any, holder: str, **__: Any) -> Lease:
        return self.renew(holder=holder)

    def renew(self, *_: Any, holder: str, **__: Any) -> Lease:
        self.holders.append(holder)
        self._ask()
        return self.get()


def test_a_lease_that_a_write_without_an_answer_has_taken_is_given_up() -> None:
    """Its elector never led. Others would wait for six seconds until it has expired."""
    kept = TakenWithoutAnAnswer()
    kept.away = True
    elector = LeaderElector(cast(Leases, kept), identity="one", clock=lambda: 1000.0)
    assert not elector._try_acquire()
    kept.away = False
    elector._give_up()
    assert kept.holders == ["one", ""]


def test_a_lease_of_another_is_left_alone_by_who_stops() -> None:
    """Also after a write of ours that it may have been stored on top of."""
    kept = TakenWithoutAnAnswer()
    kept.away = True
    elector = LeaderElector(cast(Leases, kept), identity="one", clock=lambda: 1000.0)
    assert not elector._try_acquire()
    kept.away = False
    kept.holders.append("other")
    elector._give_up()
    assert kept.holders == ["one", "other"]


def test_a_leader_that_sees_another_holder_leads_no_more_at_once() -> None:
    """Somebody gave the Lease to another, or deleted it and another was faster."""
    kept = TakenSlowly()
    kept.go_on.set()
    elector = LeaderElector(cast(Leases, kept), identity="one", clock=lambda: 1000.0)
    assert elector._try_acquire()
    assert elector.leading
    kept.holders.append("other")
    assert elector._try_acquire()
    assert not elector.leading


def test_the_lease_of_a_leader_that_is_gone_is_created_once_it_would_have_ended() -> None:
    """Its holder leads until it notices that somebody has deleted it. One that nobody has seen is free."""
    now = 1000.0
    kept = TakenSlowly()
    kept.go_on.set()
    kept.holders.append("other")
    elector = LeaderElector(cast(Leases, kept), identity="one", clock=lambda: now)
    assert elector._try_acquire()
    kept.holders.clear()
    now += LEASE_SECONDS
    assert elector._try_acquire()
    assert (kept.holders, elector.leading) == ([], False)
    now += 0.1
    assert elector._try_acquire()
    assert (kept.holders, elector.leading) == (["one"], True)


def presence(kept: Kept, lists: Lists, clock: Callable[[], float]) -> ReplicaLease:
    return ReplicaLease(
        cast(Leases, kept), identity="one", clock=clock, report=ReplicaReport, relist_queues=lists
    )


class Once(threading.Event):
    """Ends whoever waits for it, and notes for how long that would have been."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        self.set()
        return True


def test_a_renewal_that_fails_is_repeated_after_a_pause() -> None:
    """Else every replica asks a server that is just coming up, as fast as it can."""
    kept = Kept()
    kept.away = True
    one = presence(kept, Lists(), lambda: 1000.0)
    stopped = vars(one)["_stopped"] = Once()
    with running(one):
        eventually(lambda: stopped.waits or kept.asked > 1)
    assert (kept.asked, stopped.waits) == (1, [RETRY_SECONDS])


@pytest.mark.parametrize(("looks", "expected"), [(0, True), (3, True), (10**9, False)], ids=str)
def test_a_replica_that_stops_deletes_its_lease_once_no_bind_is_under_way_that_only_it_knows(
    looks: int, expected: bool
) -> None:
    """`looks`: after how many the last bind is stored. Else the Lease is left to expire."""
    now, looked = 1000.0, 0

    def has_binds() -> bool:
        nonlocal now, looked
        now, looked = now + LAST_BINDS_SECONDS / 10, looked + 1
        return looked <= looks

    deleted: list[str] = []
    one = ReplicaLease(
        cast(Leases, SimpleNamespace(delete=deleted.append)),
        identity="one",
        clock=lambda: now,
        report=ReplicaReport,
        relist_queues=Lists(),
        has_binds=has_binds,
    )
    one._end()
    assert deleted == (["sluice-replica-one"] if expected else [])
    assert not one.alive


def test_after_a_gap_the_queues_are_listed_anew_whatever_was_listed_before_it() -> None:
    """Others may have acknowledged stops without us while our Lease was not held."""
    now = 1000.0
    kept, lists = Kept(), Lists()
    one = presence(kept, lists, lambda: now)
    assert one._renew(ReplicaReport())
    assert (lists.done, one.alive) == ([False], False)
    lists.done[0] = True
    kept.away = True
    now += 2
    assert not one._renew(ReplicaReport())
    now += 20
    kept.away = False
    assert one._renew(ReplicaReport())
    assert (lists.done, one.alive) == ([True, False], False)
    lists.done[1] = True
    now += 1
    assert one._renew(ReplicaReport())
    assert one.alive


class ClearedLate(threading.Event):
    """Is cleared only after a stop, which began after its thread had looked whether it is stopped."""

    def __init__(self, stop: Callable[[], object]) -> None:
        super().__init__()
        self._stop = stop
        self.waits: list[float | None] = []

    def clear(self) -> None:
        self._stop()
        super().clear()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        return True


def test_a_stop_is_not_lost_on_a_replica_that_is_about_to_renew() -> None:
    """It renewed once more, and slept until the next renewal was due."""
    kept = Kept()
    one = presence(kept, Lists(), lambda: 1000.0)
    changed = vars(one)["_changed"] = ClearedLate(one._stopped.set)
    one._run()
    assert (kept.written, changed.waits) == (0, [])


class OneLease(Kept):
    """The Lease of a replica, with a uid; `calls`: what was written, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.uid = ""
        self.calls: list[str] = []

    def create(self, *_: Any, **__: Any) -> Lease:
        self.uid = f"uid-{len(self.calls)}"
        return self.renew()

    def renew(self, *_: Any, **__: Any) -> Lease:
        if not self.uid:
            raise NotFound(404, "NotFound", "deleted")
        self.calls.append("renew")
        return self._lease()

    def get(self, *_: Any) -> Lease:
        return self._lease()

    def annotate(self, lease: Lease, annotations: dict[str, str]) -> None:
        if lease.metadata.version < len(self.calls):
            raise Conflict(409, "Conflict", "somebody was faster")
        self.calls.append(f"{next(iter(annotations))}={annotations[ENDED_ANNOTATION]}")

    def delete(self, *_: Any, **__: Any) -> None:
        self.calls.append("delete")

    def _lease(self) -> Lease:
        metadata = Metadata(uid=self.uid, resource_version=str(len(self.calls)))
        return Lease(metadata=metadata, spec=LeaseSpec(renew_time="now"))


@pytest.mark.parametrize("created_anew", [True, False], ids=["by somebody", "by itself"])
def test_a_replica_whose_lease_was_deleted_lists_the_queues_before_it_answers(created_anew: bool) -> None:
    kept, lists = OneLease(), Lists()
    one = presence(kept, lists, lambda: 1000.0)
    assert one._renew(ReplicaReport())
    lists.done[0] = True
    assert one._renew(ReplicaReport())
    assert one.alive
    kept.uid = "uid-of-another" if created_anew else ""
    assert one._renew(ReplicaReport())
    assert (lists.done, one.alive) == ([True, False], False)
    lists.done[1] = True
    assert one._renew(ReplicaReport())
    assert one.alive


@pytest.mark.parametrize("changed", [True, False])
def test_a_replica_marks_its_lease_as_ended_before_it_deletes_it(changed: bool) -> None:
    """Also where somebody has changed it since the last renewal."""
    kept = OneLease()
    one = presence(kept, Lists(), lambda: 1000.0)
    assert one._renew(ReplicaReport())
    kept.calls += ["edit"] if changed else []
    one._end()
    assert kept.calls[-2:] == [f"{ENDED_ANNOTATION}=now", "delete"]
