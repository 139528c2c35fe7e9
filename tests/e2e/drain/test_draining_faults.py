"""Things go wrong in the middle of a drain: it goes on, takes nothing twice, and all comes back.

With `FAULTS=long` the API server is busy for a minute instead of ten seconds.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.e2e.drain_replicas import Replicas, ended
from tests.support.e2e.mixed_load import MixedLoad
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import until
from tests.support.faults.faulty_proxy import (
    Fault,
    When,
    status,
)
from tests.support.faults.intercepting import Asked

AWAY_SECONDS = 30.0
BUSY_SECONDS = 60.0 if os.environ.get("FAULTS") == "long" else 10.0


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
    with away(replicas):
        during(AWAY_SECONDS, load)
    ended(load, replicas)


def test_every_write_is_one_too_many_for_a_while(corner: Stage, replicas: Replicas) -> None:
    """429 with Retry-After, Leases included: nobody leads meanwhile."""
    load = MixedLoad(corner)
    under_way(load, replicas)
    busy = status(429, reason="TooManyRequests", Retry_After="1")
    with answering(busy, replicas, when=lambda: is_write):
        during(BUSY_SECONDS, load)
    ended(load, replicas)


def test_every_write_conflicts_once(corner: Stage, replicas: Replicas) -> None:
    """Each is refused with 409 and taken when it comes again, until all is given back."""
    load = MixedLoad(corner)
    with answering(status(409, reason="Conflict"), replicas, when=EverySecond):
        load.drain()
        ended(load, replicas)


def test_the_watches_are_cut_every_second(corner: Stage, replicas: Replicas) -> None:
    """Until all is given back."""
    load = MixedLoad(corner)
    with cutting(replicas):
        load.drain()
        ended(load, replicas)


def under_way(load: MixedLoad, replicas: Replicas) -> None:
    """The first have gone, and the queue says how many are left: budgets wait, and so do finalizers.

    What a queue says of a drain is written beside the first evictions, not before them.
    """
    before = replicas.evicted()
    load.drain()
    until(lambda: replicas.evicted() > before and load.left(), "the first to go", share=0)


def during(seconds: float, load: MixedLoad) -> None:
    """So long the fault lasts; meanwhile life goes on elsewhere, and the drain does not end."""
    end = time.monotonic() + seconds
    until(lambda: load.is_drained() or time.monotonic() > end, "the fault to end", seconds=2 * seconds)
    until(load.left, "somebody to be left")


def is_write(asked: Asked) -> bool:
    return asked.writes


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
def away(replicas: Replicas) -> Iterator[None]:
    """No replica reaches the API server."""
    for way in replicas.ways:
        way.go_away()
    try:
        yield
    finally:
        for way in replicas.ways:
            way.come_back()


@contextmanager
def answering(fault: Fault, replicas: Replicas, *, when: Callable[[], When]) -> Iterator[None]:
    """The requests that it holds of are answered so. `when`: made anew for each replica."""
    for way in replicas.ways:
        way.order(fault, when=when(), times=sys.maxsize)
    try:
        yield
    finally:
        for way in replicas.ways:
            way.relent()


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
