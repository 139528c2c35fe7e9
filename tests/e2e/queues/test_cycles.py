"""Two edits at once through two of three replicas can close a cycle: its queues stand still and nothing else
does, and the event on each names both edits and what to type."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Api
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import queue_body
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until

REPLICAS = ("server-1", "server-2", "server-3")
#: How late the replicas hear of each other's edits while these race, in seconds.
LATE = 1.0


@pytest.fixture
def own_sandbox(module_cluster: LocalCluster, fleet: Fleet) -> Iterator[Sandbox]:
    made = Sandbox(module_cluster)
    yield made
    made.close()


def admitted(sandbox: Sandbox, moves: dict[str, str]) -> list[str]:
    """Ask for these parents at the same moment; who got its own. Where not all did, nobody is left moved."""

    def move(name: str) -> bool:
        with Api(sandbox.cluster) as api:
            return api.patch(f"{QUEUES}/{name}", {"spec": {"parent": moves[name]}}).status == 200

    with ThreadPoolExecutor(len(moves)) as pool:
        passed = [name for name, there in zip(moves, pool.map(move, moves), strict=True) if there]
    for name in passed if len(passed) < len(moves) else ():
        until(partial(moved_back, sandbox, name), f"{name} to move back")
    return passed


def moved_back(sandbox: Sandbox, name: str) -> bool:
    return sandbox.patch_queue(name, parent="root").status == 200


def closed_into_a_cycle(sandbox: Sandbox, fleet: Fleet, moves: dict[str, str]) -> None:
    """Make the edits race until two replicas admit what each alone could."""
    for way in fleet.ways.values():
        way.delay = LATE

    def raced() -> bool:
        fleet.reconnect()  # two requests at once are then for two replicas, not again for the same one
        return len(admitted(sandbox, moves)) == len(moves)

    try:
        until(raced, "the edits to pass at once")
    finally:
        for way in fleet.ways.values():
            way.delay = 0.0


def test_a_cycle_is_named_with_both_edits_and_the_way_out_works(own_sandbox: Sandbox, fleet: Fleet) -> None:
    """Unknown with all below it while it lasts, the others work, and what the event says to type mends it."""
    a, b, apart = own_sandbox.queue("a"), own_sandbox.queue("b"), own_sandbox.queue("apart")
    below = own_sandbox.queue("below", parent=a)
    closed_into_a_cycle(own_sandbox, fleet, {a: b, b: a})
    for queue in (a, b, below):
        own_sandbox.in_state(queue, "Unknown")
    for queue in (a, b):
        event = own_sandbox.event(queue, "ParentCycle", namespace="default")
        assert f'put queue "{a}" under "{b}" at ' in event
        assert f'put queue "{b}" under "{a}" at ' in event
    own_sandbox.all_bound(own_sandbox.pods("elsewhere", 3, apart))
    own_sandbox.patch_queue(below, weight=5).must()
    way_out = shlex.split(event.partition("such as: kubectl ")[2])
    assert own_sandbox.kubectl(*way_out).returncode == 0
    for queue in (a, b, below):
        own_sandbox.in_state(queue, "Open")
    own_sandbox.all_bound(own_sandbox.pods("mended", 3, below))


def created(sandbox: Sandbox, name: str) -> bool:
    return sandbox.api.create(QUEUES, queue_body(name)).status in (201, 409)


def test_one_replica_by_itself_lets_no_cycle_through(own_sandbox: Sandbox, fleet: Fleet) -> None:
    """However late it hears of what was stored: one of two that come at once is refused."""
    for name in REPLICAS[1:]:
        fleet.kill(name)
    a, b = own_sandbox.named("alone-a"), own_sandbox.named("alone-b")
    for name in (a, b):  # the connections to those that are dead end one by one
        until(partial(created, own_sandbox, name), f"{name} to be made")
        own_sandbox.answered(name)
    fleet.ways[REPLICAS[0]].delay = LATE
    try:
        assert [len(admitted(own_sandbox, {a: b, b: a})) for _ in range(5)] == [1] * 5
    finally:
        fleet.ways[REPLICAS[0]].delay = 0.0
