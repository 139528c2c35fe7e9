"""Things go wrong in the middle of a drain: it goes on, takes nothing twice, and all comes back.

With `FAULTS=long` the API server is busy for a minute instead of ten seconds.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from fleet import Fleet
from intercepting import Asked, Interceptor
from mixed_load import MixedLoad, evicted
from stage import Stage
from waiting_for import until

from localcluster.cluster import LocalCluster
from tests.cluster_package.faulty_proxy import status

AWAY_SECONDS = 30.0
BUSY_SECONDS = 60.0 if os.environ.get("FAULTS") == "long" else 10.0
KILLS = 10
#: Evictions a second, where a drain is to last; and where it is to end.
SLOWLY, FAST = 1.0, 100.0


class Replicas:
    """Three of them, each with requests of its own that can be spoilt and counted."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.names: list[str] = []
        for _ in range(3):
            self.join()

    def join(self) -> None:
        """One more, of a name that none had."""
        name = f"server-{len(self._fleet.interceptors) + 1}"
        self._fleet.join(name, intercepted=True)
        self.names.append(name)

    def roll(self) -> None:
        """The oldest makes room for a new one."""
        self.join()
        self._fleet.leave(self.names.pop(0))

    def kill(self, name: str) -> None:
        self.names.remove(name)
        self._fleet.kill(name)

    def evicting(self, *, answered: bool) -> str:
        """The one that leads, once an eviction of its is kept: before it is carried out, or after it."""
        ways = self._fleet.interceptors
        kept = {name: ways[name].keep(is_eviction, answered=answered) for name in self.names}

        def reached() -> str:
            return next((name for name, each in kept.items() if each.reached.is_set()), "")

        return until(reached, "somebody to be evicted")

    @property
    def ways(self) -> Sequence[Interceptor]:
        """Of all that ever were."""
        return list(self._fleet.interceptors.values())

    def evicted(self) -> int:
        return evicted(self.ways).total()


@pytest.fixture(scope="module")
def replicas(module_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    fleet = Fleet(module_cluster, tmp_path_factory.mktemp("fleet"))
    try:
        yield Replicas(fleet)
    finally:
        fleet.close()


@pytest.fixture
def corner(module_cluster: LocalCluster) -> Iterator[Stage]:
    """Nothing of it is cleared: the cluster is of this module alone."""
    made = Stage(module_cluster)
    yield made
    made.close()


def test_nothing_wrong(corner: Stage, replicas: Replicas) -> None:
    """The measure of the others: one eviction for each pod that goes so."""
    before = replicas.evicted()
    load = MixedLoad(corner)
    load.drain()
    ended(load, replicas)
    assert replicas.evicted() - before == 6 + 2 + 4 + 3


def test_the_api_server_is_away_for_half_a_minute(corner: Stage, replicas: Replicas) -> None:
    """For every replica, from the first evictions on."""
    load = MixedLoad(corner)
    under_way(load, replicas)
    for way in replicas.ways:
        way.go_away()
    during(AWAY_SECONDS, load)
    for way in replicas.ways:
        way.come_back()
    ended(load, replicas)


def test_every_write_is_one_too_many_for_a_while(corner: Stage, replicas: Replicas) -> None:
    """429 with Retry-After, Leases included: nobody leads meanwhile."""
    load = MixedLoad(corner)
    under_way(load, replicas)
    busy = status(429, reason="TooManyRequests", Retry_After="1")
    for way in replicas.ways:
        way.order(busy, when=lambda asked: asked.writes, times=sys.maxsize)
    during(BUSY_SECONDS, load)
    for way in replicas.ways:
        way.relent()
    ended(load, replicas)


def test_every_write_conflicts_once(corner: Stage, replicas: Replicas) -> None:
    """Each is refused with 409 and taken when it comes again, until all is given back."""
    load = MixedLoad(corner)
    for way in replicas.ways:
        way.order(status(409, reason="Conflict"), when=EverySecond(), times=sys.maxsize)
    load.drain()
    ended(load, replicas)
    for way in replicas.ways:
        way.relent()


def test_the_watches_are_cut_every_second(corner: Stage, replicas: Replicas) -> None:
    """Until all is given back."""
    load = MixedLoad(corner)
    with cutting(replicas):
        load.drain()
        ended(load, replicas)


def test_the_leader_is_killed_ten_times(corner: Stage, replicas: Replicas) -> None:
    """In turns with an eviction on its lips, and with one granted of which it has not heard; who is killed
    comes back, and another one goes on."""
    load = MixedLoad(corner, extra=KILLS)
    load.drain(rate=SLOWLY)
    for number in range(KILLS):
        replicas.kill(replicas.evicting(answered=bool(number % 2)))
        replicas.join()
    until(load.left, "somebody to be left")
    load.drain(rate=FAST)
    ended(load, replicas)


def test_every_replica_is_replaced_in_the_middle(corner: Stage, replicas: Replicas) -> None:
    """A new one joins and an old one leaves, three times."""
    load = MixedLoad(corner, extra=10)
    load.drain(rate=SLOWLY)
    until(lambda: evicted(replicas.ways), "the first to go")
    for _ in range(3):
        replicas.roll()
    until(load.left, "somebody to be left")
    load.drain(rate=FAST)
    ended(load, replicas)


def under_way(load: MixedLoad, replicas: Replicas) -> None:
    """Drained as far as it goes by itself: budgets wait, and so do finalizers."""
    before = replicas.evicted()
    load.drain()
    until(lambda: replicas.evicted() > before, "the first to go")


def ended(load: MixedLoad, replicas: Replicas) -> None:
    """It is drained and given back, and nothing that happened on the way should not have."""
    until(load.is_drained, "the drain to end", seconds=120)
    load.give_back()
    load.nothing_was_lost(replicas.ways)


def during(seconds: float, load: MixedLoad) -> None:
    """So long the fault lasts; meanwhile life goes on elsewhere, and the drain does not end."""
    end = time.monotonic() + seconds
    until(lambda: load.is_drained() or time.monotonic() > end, "the fault to end", seconds=2 * seconds)
    until(load.left, "somebody to be left")


def is_eviction(asked: Asked) -> bool:
    return asked.path.endswith("/eviction")


class EverySecond:
    """Holds of every second write of each object, beginning with the first."""

    def __init__(self) -> None:
        self._times: Counter[tuple[str, str]] = Counter()

    def __call__(self, asked: Asked) -> bool:
        if not asked.writes:
            return False
        self._times[asked.method, asked.path] += 1
        return self._times[asked.method, asked.path] % 2 == 1


@contextmanager
def cutting(replicas: Replicas) -> Iterator[None]:
    """Every watch is reset once a second."""
    over = threading.Event()

    def cut() -> None:
        while not over.wait(1.0):
            for way in replicas.ways:
                way.cut(when=lambda asked: asked.watch)

    thread = threading.Thread(target=cut, name="cutting")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
