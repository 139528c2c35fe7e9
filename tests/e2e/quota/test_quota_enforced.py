"""Condition QuotaEnforced on a control plane: from when on a capability holds, and that it does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Object
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.modes import make_room, wait_for_room
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.quota.capability_watch import CapabilityWatch


@pytest.fixture
def own_sandbox(module_cluster: LocalCluster, fleet: Fleet) -> Iterator[Sandbox]:
    made = Sandbox(module_cluster)
    yield made
    made.close()


def enforced(queue: Object) -> str:
    """The reason of the condition, if it is of the queue's present spec."""
    for condition in queue["status"].get("conditions", []):
        is_current = condition.get("observedGeneration") == queue["metadata"]["generation"]
        if condition["type"] == "QuotaEnforced" and is_current:
            return str(condition["reason"])
    return ""


def wait_until(sandbox: Sandbox, queue: str, reason: str) -> None:
    sandbox.queue_that(queue, f"say {reason}", lambda found: enforced(found) == reason)


@pytest.mark.long
def test_a_replica_that_sleeps_when_a_first_capability_comes_lets_no_pod_past_it(
    own_sandbox: Sandbox, fleet: Fleet
) -> None:
    """It counts until its Lease has ended. What it had let through before may come for the time of a request;
    then the capability holds, and goes on doing so when the replica wakes."""
    queue = own_sandbox.queue()
    own_sandbox.all_bound(own_sandbox.pods("before", 3, queue, cpu="1"))
    pending = wait_for_room(own_sandbox, "pending", 4, queue, cpu="1")
    fleet.only("server-1")  # which leads; else who asks the one that sleeps waits
    fleet.pause("server-3")
    own_sandbox.patch_queue(queue, capability={"cpu": "4"}).must()
    wait_until(own_sandbox, queue, "ReplicaBehind")  # until the Lease of the one that sleeps has ended
    make_room(own_sandbox)
    wait_until(own_sandbox, queue, "RequestsUnderWay")
    wait_until(own_sandbox, queue, "Enforced")
    limits: dict[str, dict[str, int | None]] = {queue: {queue: 4}}
    watch = CapabilityWatch(own_sandbox.cluster, own_sandbox.pods_path, limits=limits)
    fleet.go_on("server-3")
    fleet.reconnect()
    until(lambda: len(own_sandbox.bound(pending)) == 1, "the one that has room to be bound")
    own_sandbox.edit(queue, capability={"cpu": "2"})
    wait_until(own_sandbox, queue, "OverCapability")
    own_sandbox.api.delete(f"{own_sandbox.pods_path}/before-0")
    own_sandbox.api.delete(f"{own_sandbox.pods_path}/before-1")
    wait_until(own_sandbox, queue, "Enforced")
    assert settled(lambda: len(own_sandbox.bound(pending)), "the pods") == 1
    watch.end()
    assert watch.overruns == []


def test_a_new_queue_has_its_capability_from_the_beginning(sandbox: Sandbox) -> None:
    top = sandbox.queue("lab", capability={"cpu": "2"})
    sandbox.queue("below", parent=top)
    wait_until(sandbox, top, "Enforced")
