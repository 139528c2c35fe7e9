"""What users write on their pods and workloads holds up no drain, and carries it nowhere else."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest

from tests.support.drain.draining import (
    HOLD,
    counts,
    drain,
    running,
    wait_for_drain,
    wait_for_eviction_webhook,
    wait_for_none_running,
    wait_for_running,
)
from tests.support.e2e.api_requests import (
    MERGE,
    Api,
    Object,
)
from tests.support.e2e.objects import pod_body
from tests.support.e2e.sandbox import QUEUES, Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import (
    DEPLOYMENT,
    JOB,
    WorkloadKind,
    work_body,
)
from tests.support.faults.slow_webhook import SlowWebhook


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def reference(kind: str, name: str, uid: str, version: str) -> Object:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def owned_by(sandbox: Sandbox, path: str, owner: Object) -> None:
    sandbox.api.patch(path, {"metadata": {"ownerReferences": [owner]}}, kind=MERGE).must()


def uid_of(sandbox: Sandbox, made: WorkloadKind, name: str) -> str:
    return str(sandbox.api.get(f"{made.path(sandbox.namespace)}/{name}").must().body["metadata"]["uid"])


def test_workloads_that_own_each_other_do_not_hang_a_drain(sandbox: Sandbox, queue: str) -> None:
    """Their pods are evicted, and another queue is stopped meanwhile."""
    other = sandbox.queue("other")
    names = ("da", "db")
    for name in names:
        sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, name, queue, replicas=1)).must(201)
    wait_for_running(sandbox, 2)
    for name, above in zip(names, reversed(names), strict=True):
        owner = reference("Deployment", above, uid_of(sandbox, DEPLOYMENT, above), "apps/v1")
        owned_by(sandbox, f"{DEPLOYMENT.path(sandbox.namespace)}/{name}", owner)
    drain(sandbox, queue)
    sandbox.edit(other, stopPolicy=HOLD)
    wait_for_none_running(sandbox)


def test_a_pod_of_a_daemonset_that_does_not_exist_is_evicted_after_ten_seconds(
    sandbox: Sandbox, queue: str
) -> None:
    """For ten seconds it might have come before its DaemonSet was heard of."""
    sandbox.pod("forged", queue).must(201)
    wait_for_running(sandbox, 1)
    owner = reference("DaemonSet", "agent", "0b5a6d3e-0000-4000-8000-000000000001", "example.com/v1")
    owned_by(sandbox, f"{sandbox.pods_path}/forged", owner)
    sandbox.patch_queue(queue, stopPolicy="HoldAndDrain").must()
    until(lambda: not running(sandbox), "the forged pod to go")
    assert counts(wait_for_drain(sandbox, queue, "Drained", evicted=1)) == {"evicted": 1}


def test_a_pod_that_names_a_job_of_no_queue_suspends_nothing(sandbox: Sandbox, queue: str) -> None:
    """It goes by itself; the Job, and its pods, go on."""
    sandbox.make(JOB, work_body(JOB, "victim")).must(201)
    sandbox.pod("forged", queue).must(201)
    wait_for_running(sandbox, 2)
    owned_by(
        sandbox,
        f"{sandbox.pods_path}/forged",
        reference("Job", "victim", uid_of(sandbox, JOB, "victim"), "batch/v1"),
    )
    drain(sandbox, queue)
    found = sandbox.api.get(f"{JOB.path(sandbox.namespace)}/victim").must().body
    assert not found["spec"].get("suspend")
    assert "forged" not in running(sandbox)


def test_a_status_with_a_bad_time_stops_no_drain(sandbox: Sandbox, queue: str) -> None:
    """The first hour of all times, by a zone to the east of it: no moment in UTC."""
    other = sandbox.queue("other")
    odd = {
        "type": "Drained",
        "status": "False",
        "reason": "Whatever",
        "message": "",
        "lastTransitionTime": "0001-01-01T00:00:00+14:00",
    }
    body = {"status": {"conditions": [odd], "drain": {"since": "0001-01-01T00:00:00+14:00"}}}
    sandbox.api.patch(f"{QUEUES}/{queue}/status", body, kind=MERGE).must()
    sandbox.edit(other, stopPolicy=HOLD)
    sandbox.pods("member", 1, queue)
    wait_for_running(sandbox, 1)
    drain(sandbox, queue)
    assert running(sandbox) == set()


def test_a_job_that_is_written_all_the_time_is_suspended_all_the_same(sandbox: Sandbox, queue: str) -> None:
    """By its user, faster than anybody reads and writes it."""
    sandbox.make(JOB, work_body(JOB, "busy", queue)).must(201)
    wait_for_running(sandbox, 1)
    over = threading.Event()
    writers = [threading.Thread(target=write_all_the_time, args=(sandbox, over)) for _ in range(3)]
    for writer in writers:
        writer.start()
    try:
        found = drain(sandbox, queue)
    finally:
        over.set()
        for writer in writers:
            writer.join()
    assert not blockers(found)
    wait_for_drain(sandbox, queue, "Drained", suspended=1)


def write_all_the_time(sandbox: Sandbox, over: threading.Event) -> None:
    with Api(sandbox.cluster) as api:
        for number in itertools.count():
            if over.is_set():
                return
            body = {"metadata": {"annotations": {"example.com/number": f"{number}-{threading.get_ident()}"}}}
            api.patch(f"{JOB.path(sandbox.namespace)}/busy", body, kind=MERGE)


def blockers(queue: Object) -> list[Object]:
    return list(queue["status"]["drain"]["blockers"])


def test_evictions_that_hang_in_one_namespace_delay_no_other(
    sandbox: Sandbox, queue: str, tmp_path: Path
) -> None:
    """More of them than the server has writers; somebody else's webhook takes its time with each."""
    other = Sandbox(sandbox.cluster)
    beside = sandbox.queue("beside")
    sandbox.pods("slow", 30, queue)
    other.pods("prompt", 5, beside)
    wait_for_running(sandbox, 30)
    wait_for_running(other, 5)
    with SlowWebhook(sandbox, tmp_path, seconds=30, resources=["pods/eviction"]) as webhook:
        wait_for_eviction_webhook(sandbox, webhook)
        sandbox.patch_queue(queue, stopPolicy="HoldAndDrain").must()
        until(lambda: webhook.held, "the first eviction to hang")
        drain(sandbox, beside)
        assert webhook.held
        assert len(running(sandbox, "slow")) > 15
        webhook.let_go()
        wait_for_drain(sandbox, queue, "Drained", evicted=30)
    other.close()


def test_a_webhook_that_denies_evictions_with_429_blocks_its_own_pods_only(
    sandbox: Sandbox, queue: str, tmp_path: Path
) -> None:
    """They are named in its words; the pods of the queue in another namespace go."""
    other = Sandbox(sandbox.cluster)
    sandbox.pods("denied", 10, queue)
    other.pods("prompt", 10, queue)
    wait_for_running(sandbox, 10)
    wait_for_running(other, 10)
    with SlowWebhook(
        sandbox, tmp_path, seconds=0, resources=["pods/eviction"], allows=False, code=429
    ) as webhook:
        wait_for_eviction_webhook(sandbox, webhook)
        found = drain(sandbox, queue, "Blocked", drain={"rate": 10})
        assert running(other) == set()
        found = wait_for_drain(sandbox, queue, "Blocked", blocked=10, evicted=10)
        assert all("denied the request: not now" in one["message"] for one in blockers(found))
    wait_for_drain(sandbox, queue, "Drained", evicted=20)
    other.close()


def test_a_user_may_name_a_system_priority_class_and_so_keep_a_pod(sandbox: Sandbox, queue: str) -> None:
    """Where no ResourceQuota keeps him from it; it is counted as kept, as docs/concepts/draining.md says."""
    user = sandbox.user(f"{sandbox.namespace}-tenant", "edit")
    assert user.exists()
    name = f"{sandbox.namespace}-tenant"
    sandbox.may(name, "create", "pods")
    body = pod_body("critical", queue, priorityClassName="system-cluster-critical")
    sandbox.api.create(sandbox.pods_path, body, user=name).must(201)
    wait_for_running(sandbox, 1)
    drain(sandbox, queue)
    assert counts(wait_for_drain(sandbox, queue, "Drained", kept=1)) == {"kept": 1}
    assert running(sandbox) == {"critical"}
