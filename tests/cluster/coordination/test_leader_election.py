"""Who runs for the leader's Lease, and what follows while our own cannot be renewed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from cluster.coordination.leader_election import EXPIRED_SECONDS, LeaderElector
from cluster.coordination.leases import LEASE_SECONDS, Lease, Leases, LeaseSightings, LeaseSpec
from cluster.coordination.replica_report import ReplicaReport
from cluster.coordination.replicas import (
    RETRY_SECONDS,
    ReplicaLease,
)
from cluster.exceptions import NotFound, Unreachable
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
    elector.add_listener(elected.set)
    with running(elector):
        assert looked.wait(PATIENCE)
        assert (kept.written, elector.leading, elector.term) == (0, False, 0)
        ready.set()
        assert elected.wait(PATIENCE)
        assert (kept.written, elector.leading, elector.term) == (1, True, 1)
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
