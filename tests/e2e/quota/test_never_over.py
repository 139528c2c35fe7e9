"""No queue is ever over its capability, while leaders are killed and cut off, pods end and others come."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import on_a_node, pod_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.quota.capability_watch import CapabilityWatch

pytestmark = pytest.mark.long
SECONDS, PODS = 45.0, 160
SEED = 20


@pytest.fixture
def own_sandbox(module_cluster: LocalCluster, fleet: Fleet) -> Iterator[Sandbox]:
    made = Sandbox(module_cluster)
    yield made
    made.close()


def test_leaders_that_die_and_come_back_take_no_queue_over_its_capability(
    own_sandbox: Sandbox, fleet: Fleet
) -> None:
    chance = random.Random(SEED)
    top = own_sandbox.queue("top", capability={"cpu": "9"})
    left = own_sandbox.queue("left", parent=top, capability={"cpu": "4"})
    right = own_sandbox.queue("right", parent=top, dequeueStrategy="fifo")
    limits: dict[str, dict[str, int | None]] = {left: {left: 4, top: 9}, right: {right: None, top: 9}}
    watch = CapabilityWatch(own_sandbox.cluster, own_sandbox.pods_path, limits=limits)
    made: set[str] = set()
    began, turn = time.monotonic(), 0
    while time.monotonic() < began + SECONDS:
        turn += 1
        if len(made) < PODS:
            made |= create_some(own_sandbox, chance, [left, right], first=len(made))
        end_some(own_sandbox, chance)
        if turn % 12 == 6:
            fleet.kill("server-1" if turn % 24 == 6 else "server-2")
        elif turn % 12 == 9:
            fleet.join("server-1" if turn % 24 == 9 else "server-2")
        elif turn % 12 == 0:
            fleet.ways["server-3"].delay = 0.0 if fleet.ways["server-3"].delay else 0.3
    fleet.ways["server-3"].delay = 0.0

    def all_have_run() -> bool:
        end_some(own_sandbox, chance)
        return watch.ever_on_a_node >= made

    until(all_have_run, "each pod to have run: none is forgotten")
    watch.end()
    assert watch.overruns == []
    assert watch.most[left] == 4 and watch.most[top] == 9, "all was used at some time"


def create_some(sandbox: Sandbox, chance: random.Random, queues: list[str], *, first: int) -> set[str]:
    names = set()
    for number in range(chance.randint(2, 6)):
        name = f"p{first + number}"
        body = pod_body(name, chance.choice(queues), cpu=str(chance.randint(1, 3)))
        until(lambda body=body: sandbox.api.create(sandbox.pods_path, body).status in (201, 409), name)  # type: ignore[misc]
        names.add(name)
    return names


def end_some(sandbox: Sandbox, chance: random.Random) -> None:
    """Delete half of what runs."""
    for name, pod in sandbox.read_pods().items():
        if on_a_node(pod) and chance.random() < 0.5:
            sandbox.api.delete(f"{sandbox.pods_path}/{name}")
