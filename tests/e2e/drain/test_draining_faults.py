"""Faults in the middle of a drain: it goes on, evicts no pod twice, and everything comes back.

The API server fails, or the leader dies or makes room.

A leader that does not reach the API server loses its Lease after six seconds. With `FAULTS=long` the faults
last half a minute and a minute instead of about ten seconds, and the leader is killed ten times instead of
twice.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.support.drain.draining import (
    NONE,
    budget,
    drain,
    patch_with_deadline,
    wait_for_drain,
    wait_for_running,
)
from tests.support.e2e.drain_replicas import (
    FAST,
    SLOWLY,
    Replicas,
    finish_drain,
)
from tests.support.e2e.mixed_load import MixedLoad
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import DEPLOYMENT, work_body
from tests.support.faults.faulty_proxy import (
    Fault,
    When,
    status,
)
from tests.support.faults.intercepting import Asked

pytestmark = pytest.mark.long

LONG = os.environ.get("FAULTS") == "long"
AWAY_SECONDS = 30.0 if LONG else 10.0
BUSY_SECONDS = 60.0 if LONG else 10.0
#: Half of them before an eviction is carried out, half after it.
KILLS = 10 if LONG else 2


@pytest.fixture(autouse=True)
def ready(replicas: Replicas) -> None:
    """Each test begins with replicas that have read the cluster, whatever the one before did to them."""
    replicas.wait_until_ready()


def test_without_a_fault_each_pod_is_evicted_once(own_sandbox: Sandbox, replicas: Replicas) -> None:
    """The measure of the others: one eviction for each pod that goes so."""
    before = replicas.evicted()
    load = MixedLoad(own_sandbox)
    load.drain()
    finish_drain(load, replicas)
    assert replicas.evicted() - before == 6 + 2 + 4 + 3


def test_the_api_server_is_away(own_sandbox: Sandbox, replicas: Replicas) -> None:
    """For every replica, from the first evictions on."""
    load = MixedLoad(own_sandbox)
    under_way(load, replicas)
    with away(replicas):
        during(AWAY_SECONDS, load)
    finish_drain(load, replicas)


def test_every_write_is_answered_with_429_for_a_while(own_sandbox: Sandbox, replicas: Replicas) -> None:
    """429 with Retry-After, Leases included: nobody leads meanwhile."""
    load = MixedLoad(own_sandbox)
    under_way(load, replicas)
    busy = status(429, reason="TooManyRequests", Retry_After="1")
    with answering(busy, replicas, when=lambda: is_write):
        during(BUSY_SECONDS, load)
    finish_drain(load, replicas)


def test_every_write_conflicts_once(own_sandbox: Sandbox, replicas: Replicas) -> None:
    """Each is refused with 409 and taken when it comes again, until all is given back."""
    load = MixedLoad(own_sandbox)
    with answering(status(409, reason="Conflict"), replicas, when=EverySecond):
        load.drain()
        finish_drain(load, replicas)


def test_the_watches_are_cut_every_second(own_sandbox: Sandbox, replicas: Replicas) -> None:
    """Until all is given back."""
    load = MixedLoad(own_sandbox)
    with cutting(replicas):
        load.drain()
        finish_drain(load, replicas)


def test_the_leader_is_killed_before_an_eviction_and_after_one(
    own_sandbox: Sandbox, replicas: Replicas
) -> None:
    """Once before its eviction reaches the API server, once before the answer reaches it, in turns.

    Another replica goes on with the drain; a new one takes the place of the killed one.
    """
    load = MixedLoad(own_sandbox, extra=KILLS)
    load.drain(rate=SLOWLY)
    for number in range(KILLS):
        replicas.kill(replicas.evicting(answered=bool(number % 2)))
        replicas.join()
    until(load.left, "somebody to be left")
    load.drain(rate=FAST)
    finish_drain(load, replicas)


@pytest.mark.parametrize("answered", [False, True], ids=["before", "after"])
def test_the_leader_is_killed_at_the_writes_that_bring_a_workload_to_zero_and_back(
    own_sandbox: Sandbox, replicas: Replicas, answered: bool
) -> None:
    """Whoever leads next finds the number and its record, or neither: nothing is lost, nothing done twice."""
    queue = own_sandbox.queue(f"scaled-{answered}".lower())
    own_sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", queue, replicas=2)).must(201)
    wait_for_running(own_sandbox, 2, "web-")
    budget(own_sandbox, "web", {"app": "web"}, maxUnavailable=0)
    drain(own_sandbox, queue, "Blocked")
    scaling = replicas.keep(scales_web, answered=answered)
    patch_with_deadline(own_sandbox, queue, seconds=2, afterDeadline="Scale")
    replicas.kill(scaling())
    replicas.join()
    wait_for_drain(own_sandbox, queue, "Drained", left=0)
    assert web(own_sandbox) == (0, f"{queue}/2", 2)

    putting_back = replicas.keep(scales_web, answered=answered)
    own_sandbox.patch_queue(queue, stopPolicy=NONE).must()
    replicas.kill(putting_back())
    replicas.join()
    wait_for_running(own_sandbox, 2, "web-")
    assert web(own_sandbox) == (2, None, 3)


def scales_web(asked: Asked) -> bool:
    return asked.method == "PATCH" and asked.path.partition("?")[0].endswith("/deployments/web")


def web(sandbox: Sandbox) -> tuple[int, str | None, int]:
    """The replicas that it wants, its record, and its generation: each change of its spec makes one."""
    obj = sandbox.api.get(f"{DEPLOYMENT.path(sandbox.namespace)}/web").must().body
    meta = obj["metadata"]
    return obj["spec"]["replicas"], meta["annotations"].get("sluice.dev/suspended"), meta["generation"]


def test_every_replica_is_replaced_in_the_middle(own_sandbox: Sandbox, replicas: Replicas) -> None:
    """A new one joins and an old one leaves, three times."""
    load = MixedLoad(own_sandbox, extra=10)
    before = replicas.evicted()
    load.drain(rate=SLOWLY)
    until(lambda: replicas.evicted() > before, "the first to go", share=0)
    for _ in range(3):
        replicas.roll()
    until(load.left, "somebody to be left")
    load.drain(rate=FAST)
    finish_drain(load, replicas)


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
    """Every watch is reset when it has been answered for a second; how soon that is, the machine decides."""
    over = threading.Event()

    def cut() -> None:
        while not over.wait(0.2):
            for way in replicas.ways:
                way.cut_answered(when=lambda asked: asked.watch, seconds=1.0)

    thread = threading.Thread(target=cut, name="cutting")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
