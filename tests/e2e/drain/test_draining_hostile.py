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
    wait_for_none_running,
    wait_for_running,
)
from tests.support.e2e.calling import (
    MERGE,
    Api,
    Object,
)
from tests.support.e2e.shapes import pod_body
from tests.support.e2e.stage import QUEUES, Stage
from tests.support.e2e.waiting_for import until
from tests.support.e2e.work import (
    DEPLOYMENT,
    JOB,
    Made,
    work_body,
)
from tests.support.faults.slow_webhook import SlowWebhook


@pytest.fixture
def queue(stage: Stage) -> str:
    return stage.queue()


def reference(kind: str, name: str, uid: str, version: str) -> Object:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}


def owned_by(stage: Stage, path: str, owner: Object) -> None:
    stage.api.patch(path, {"metadata": {"ownerReferences": [owner]}}, kind=MERGE).must()


def uid_of(stage: Stage, made: Made, name: str) -> str:
    return str(stage.api.get(f"{made.path(stage.namespace)}/{name}").must().body["metadata"]["uid"])


def test_workloads_that_own_each_other_do_not_hang_a_drain(stage: Stage, queue: str) -> None:
    """Their pods are evicted, and another queue is stopped meanwhile."""
    other = stage.queue("other")
    names = ("da", "db")
    for name in names:
        stage.make(DEPLOYMENT, work_body(DEPLOYMENT, name, queue, replicas=1)).must(201)
    wait_for_running(stage, 2)
    for name, above in zip(names, reversed(names), strict=True):
        owner = reference("Deployment", above, uid_of(stage, DEPLOYMENT, above), "apps/v1")
        owned_by(stage, f"{DEPLOYMENT.path(stage.namespace)}/{name}", owner)
    drain(stage, queue)
    stage.edit(other, stopPolicy=HOLD)
    wait_for_none_running(stage)


def test_a_pod_of_a_daemonset_that_does_not_exist_is_evicted_after_ten_seconds(
    stage: Stage, queue: str
) -> None:
    """For ten seconds it might have come before its DaemonSet was heard of."""
    stage.pod("forged", queue).must(201)
    wait_for_running(stage, 1)
    owner = reference("DaemonSet", "agent", "0b5a6d3e-0000-4000-8000-000000000001", "example.com/v1")
    owned_by(stage, f"{stage.pods_path}/forged", owner)
    stage.patch_queue(queue, stopPolicy="HoldAndDrain").must()
    until(lambda: not running(stage), "the forged pod to go")
    assert counts(wait_for_drain(stage, queue, "Drained", evicted=1)) == {"evicted": 1}


def test_a_pod_that_names_a_job_of_no_queue_suspends_nothing(stage: Stage, queue: str) -> None:
    """It goes by itself; the Job, and its pods, go on."""
    stage.make(JOB, work_body(JOB, "victim")).must(201)
    stage.pod("forged", queue).must(201)
    wait_for_running(stage, 2)
    owned_by(
        stage,
        f"{stage.pods_path}/forged",
        reference("Job", "victim", uid_of(stage, JOB, "victim"), "batch/v1"),
    )
    drain(stage, queue)
    found = stage.api.get(f"{JOB.path(stage.namespace)}/victim").must().body
    assert not found["spec"].get("suspend")
    assert "forged" not in running(stage)


def test_a_status_with_a_bad_time_stops_no_drain(stage: Stage, queue: str) -> None:
    """The first hour of all times, by a zone to the east of it: no moment in UTC."""
    other = stage.queue("other")
    odd = {
        "type": "Drained",
        "status": "False",
        "reason": "Whatever",
        "message": "",
        "lastTransitionTime": "0001-01-01T00:00:00+14:00",
    }
    body = {"status": {"conditions": [odd], "drain": {"since": "0001-01-01T00:00:00+14:00"}}}
    stage.api.patch(f"{QUEUES}/{queue}/status", body, kind=MERGE).must()
    stage.edit(other, stopPolicy=HOLD)
    stage.pods("member", 1, queue)
    wait_for_running(stage, 1)
    drain(stage, queue)
    assert running(stage) == set()


def test_a_job_that_is_written_all_the_time_is_suspended_all_the_same(stage: Stage, queue: str) -> None:
    """By its user, faster than anybody reads and writes it."""
    stage.make(JOB, work_body(JOB, "busy", queue)).must(201)
    wait_for_running(stage, 1)
    over = threading.Event()
    writers = [threading.Thread(target=write_all_the_time, args=(stage, over)) for _ in range(3)]
    for writer in writers:
        writer.start()
    try:
        found = drain(stage, queue)
    finally:
        over.set()
        for writer in writers:
            writer.join()
    assert counts(found).get("suspended") == 1
    assert not blockers(found)


def write_all_the_time(stage: Stage, over: threading.Event) -> None:
    with Api(stage.cluster) as api:
        for number in itertools.count():
            if over.is_set():
                return
            body = {"metadata": {"annotations": {"example.com/number": f"{number}-{threading.get_ident()}"}}}
            api.patch(f"{JOB.path(stage.namespace)}/busy", body, kind=MERGE)


def blockers(queue: Object) -> list[Object]:
    return list(queue["status"]["drain"]["blockers"])


def test_evictions_that_hang_in_one_namespace_delay_no_other(
    stage: Stage, queue: str, tmp_path: Path
) -> None:
    """More of them than the server has writers; somebody else's webhook takes its time with each."""
    other = Stage(stage.cluster)
    beside = stage.queue("beside")
    stage.pods("slow", 30, queue)
    other.pods("prompt", 5, beside)
    wait_for_running(stage, 30)
    wait_for_running(other, 5)
    with SlowWebhook(stage, tmp_path, seconds=30, resources=["pods/eviction"]) as webhook:
        stage.patch_queue(queue, stopPolicy="HoldAndDrain").must()
        until(lambda: webhook.held, "the first eviction to hang")
        drain(stage, beside)
        assert webhook.held
        assert len(running(stage, "slow")) > 15
        webhook.let_go()
        wait_for_drain(stage, queue, "Drained", evicted=30)
    other.close()


def test_a_webhook_that_denies_evictions_with_429_blocks_its_own_pods_only(
    stage: Stage, queue: str, tmp_path: Path
) -> None:
    """They are named in its words; the pods of the queue in another namespace go."""
    other = Stage(stage.cluster)
    stage.pods("denied", 10, queue)
    other.pods("prompt", 10, queue)
    wait_for_running(stage, 10)
    wait_for_running(other, 10)
    with SlowWebhook(stage, tmp_path, seconds=0, resources=["pods/eviction"], allows=False, code=429):
        found = drain(stage, queue, "Blocked", drain={"rate": 10})
        assert running(other) == set()
        found = wait_for_drain(stage, queue, "Blocked", blocked=10, evicted=10)
        assert all("denied the request: not now" in one["message"] for one in blockers(found))
    wait_for_drain(stage, queue, "Drained", evicted=20)
    other.close()


def test_a_user_may_name_a_system_priority_class_and_so_keep_a_pod(stage: Stage, queue: str) -> None:
    """Where no ResourceQuota keeps him from it; it is counted as kept, as docs/draining.md says."""
    user = stage.user(f"{stage.namespace}-tenant", "edit")
    assert user.exists()
    name = f"{stage.namespace}-tenant"
    stage.may(name, "create", "pods")
    body = pod_body("critical", queue, priorityClassName="system-cluster-critical")
    stage.api.create(stage.pods_path, body, user=name).must(201)
    wait_for_running(stage, 1)
    drain(stage, queue)
    assert counts(wait_for_drain(stage, queue, "Drained", kept=1)) == {"kept": 1}
    assert running(stage) == {"critical"}
