"""What another replica than the leader let through: waited for while it may come, and no longer."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from cluster.coordination.replica_lease import EXPIRED_ANNOTATION, PREFIX
from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE, REQUEST_SECONDS
from tests.support.e2e.api_requests import Api, Object
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.modes import wait_for_room
from tests.support.e2e.objects import (
    binding_body,
    is_stopped,
    on_a_node,
    version,
    waits_for,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.faults.slow_webhook import SlowWebhook

pytestmark = pytest.mark.long


@pytest.fixture
def own_sandbox(module_cluster: LocalCluster, fleet: Fleet) -> Iterator[Sandbox]:
    made = Sandbox(module_cluster)
    yield made
    made.close()


def test_a_bind_that_failed_elsewhere_is_not_waited_for(
    own_sandbox: Sandbox, fleet: Fleet, tmp_path: Path
) -> None:
    """The first replica let the bind through, a webhook behind refuses it, the scheduler tries again with the
    second: the first asks for another try, and does not wait until the guard has been on for as long as a
    request may take."""
    fleet.only("server-1")
    queue = own_sandbox.queue()
    with SlowWebhook(own_sandbox, tmp_path, seconds=60.0, allows=False) as slow:
        own_sandbox.pod("member-0", queue).must(201)
        until(lambda: slow.asked, "the bind to be under way", share=0)
        fleet.only("server-2")
        asked_at = time.monotonic()  # the guard is turned on after this
        until(
            lambda: own_sandbox.patch_queue(queue, state="Suspended").status == 200,
            "the stop to be asked for",
        )
        slow.let_go()
        own_sandbox.answered(queue)
    assert time.monotonic() - asked_at < REQUEST_SECONDS
    assert own_sandbox.bound(["member-0"]) == set()


def test_a_bind_that_met_the_guard_elsewhere_is_waited_for(
    own_sandbox: Sandbox, fleet: Fleet, tmp_path: Path
) -> None:
    """The guard has been on in the namespace for long, for another queue. The second replica lets a bind pass
    it, which a webhook behind keeps; then its queue is stopped. That bind meets the guard no more. At first
    that replica lives, then it is lost meanwhile."""
    blocked = own_sandbox.queue("blocked")
    own_sandbox.pod("large", blocked, cpu="1000000").must(201)
    own_sandbox.reason_on("large", "Insufficient cpu")
    own_sandbox.suspend(blocked)
    guarded_at = time.monotonic()
    until(
        lambda: time.monotonic() > guarded_at + REQUEST_SECONDS + 1, "the guard to have been on for a request"
    )
    fleet.only("server-2")
    until(
        lambda: own_sandbox.pod("would-be", blocked, dry=True).status == 201,
        "the connections that were cut to be made anew",
    )
    stop_waits_for_a_kept_bind(own_sandbox, fleet, tmp_path, lost="")
    stop_waits_for_a_kept_bind(own_sandbox, fleet, tmp_path, lost="server-2")


@pytest.mark.parametrize("ends", ["killed", "in order"])
def test_a_bind_without_a_filter_call_is_waited_for_after_its_replica_ends(
    own_sandbox: Sandbox, fleet: Fleet, tmp_path: Path, ends: str
) -> None:
    """Another scheduler binds the pod, as in mode `gate`. The guard of a replica lets that bind pass, a
    webhook behind keeps it, and the replica ends. Then the queue is stopped."""
    blocked, queue = own_sandbox.queue("blocked"), own_sandbox.queue()
    own_sandbox.pod("large", blocked, cpu="1000000").must(201)
    own_sandbox.reason_on("large", "Insufficient cpu")
    own_sandbox.suspend(blocked)
    replica = f"server-{ends.replace(' ', '-')}"
    fleet.join(replica)
    fleet.only(replica)
    until(
        lambda: own_sandbox.pod("member", queue, schedulerName="another").status in (201, 409),
        "the connections that were cut to be made anew",
    )
    with SlowWebhook(own_sandbox, tmp_path, seconds=28.0) as slow, ThreadPoolExecutor(1) as pool:
        binding = pool.submit(bind_by_hand, own_sandbox, "member")
        until(lambda: slow.held, "the bind to be under way", share=0)
        end = fleet.kill if ends == "killed" else fleet.leave
        end(replica)
        until(
            lambda: own_sandbox.patch_queue(queue, state="Suspended").status == 200,
            "the stop to be asked for",
        )
        stop = own_sandbox.queue_that(queue, "be acknowledged, or wait for the bind", waits_for_a_pass)
        assert not is_stopped(stop) or not slow.held, "acknowledged while a bind is under way"
        slow.let_go()
        acknowledged = own_sandbox.answered(queue)
        binding.result()
    path = f"{own_sandbox.pods_path}?resourceVersion={version(acknowledged)}&resourceVersionMatch=Exact"
    pods = {pod["metadata"]["name"]: pod for pod in own_sandbox.api.get(path).must().body["items"]}
    assert on_a_node(pods["member"]) == on_a_node(own_sandbox.read_pod("member"))


def bind_by_hand(sandbox: Sandbox, name: str) -> None:
    with Api(sandbox.cluster) as api:
        api.create(f"{sandbox.pods_path}/{name}/binding", binding_body(name, sandbox.namespace))


@pytest.mark.parametrize("count", [1, 2])
def test_one_stop_waits_for_a_pod_that_fits_no_node_after_replicas_are_lost(
    own_sandbox: Sandbox, fleet: Fleet, count: int
) -> None:
    """Each of them may have let the pod through. kube-scheduler retries a pod that only its node affinity
    keeps back after five minutes. So the stop waits until each bind of it must meet the guard. The guard is
    not turned off by the resume, and the next stop does not wait. Of two, one is known to be lost when the
    stop is asked for, and the other only once the retry was requested."""
    lost = [f"server-{count}-{number}" for number in range(count)]
    for replica in lost:
        fleet.join(replica, prefix=("/usr/bin/env", f"POD_NAME={replica}"))
    queue = own_sandbox.queue()
    wait_for_room(own_sandbox, "unfit", 1, queue)
    for replica in lost:
        fleet.kill(replica)
        if replica != lost[-1]:
            until(partial(is_marked_lost, own_sandbox, replica), "the replica to be known as lost")
    # The API server may write once more on a connection to it.
    until(lambda: own_sandbox.patch_queue(queue, state="Suspended").status == 200, "the stop to be asked for")
    first = own_sandbox.queue_that(queue, "be acknowledged, or wait for the pod", waits_for_a_pass)
    assert not is_stopped(first), "the pod was not assumed to have passed"
    own_sandbox.answered(queue)
    own_sandbox.edit(queue, state="Open")
    own_sandbox.patch_queue(queue, state="Suspended").must()
    assert is_stopped(own_sandbox.queue_that(queue, "be acknowledged, or wait for the pod", waits_for_a_pass))


def is_marked_lost(sandbox: Sandbox, replica: str) -> bool:
    """Whether a replica that goes on has noted that this one is gone."""
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    leases = [each["metadata"] for each in sandbox.api.get(path).must().body["items"]]
    [found] = [lease for lease in leases if lease["name"].startswith(f"{PREFIX}{replica}-")]
    return EXPIRED_ANNOTATION in found["annotations"]


def stop_waits_for_a_kept_bind(sandbox: Sandbox, fleet: Fleet, folder: Path, *, lost: str) -> None:
    """A stop, asked for while a bind of its queue is kept and after the replica `lost` is killed, if any."""
    queue, member = sandbox.queue(f"losing-{lost or 'nobody'}"), f"member-losing-{lost or 'nobody'}"
    with SlowWebhook(sandbox, folder, seconds=28.0) as slow:
        sandbox.pod(member, queue).must(201)
        until(lambda: slow.held, "the bind to be under way", share=0)
        if lost:
            fleet.kill(lost)
        until(
            lambda: sandbox.patch_queue(queue, state="Suspended").status == 200,
            "the stop to be asked for",
        )
        stop = sandbox.queue_that(queue, "be acknowledged, or wait for the bind", waits_for_a_pass)
        assert slow.held and not is_stopped(stop), "acknowledged while a bind is under way"
        slow.let_go()
        acknowledged = sandbox.answered(queue)
    path = f"{sandbox.pods_path}?resourceVersion={version(acknowledged)}&resourceVersionMatch=Exact"
    pods = {pod["metadata"]["name"]: pod for pod in sandbox.api.get(path).must().body["items"]}
    assert on_a_node(pods[member])


def waits_for_a_pass(queue: Object) -> bool:
    """Whether its stop is acknowledged, or waits for a pass."""
    return is_stopped(queue) or waits_for(queue).startswith("PassOpen")
