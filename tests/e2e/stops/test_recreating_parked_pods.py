"""Where `spec.parked` is Recreate, pods that filter refuses are created again by their controllers, gated."""

from __future__ import annotations

import time
from collections.abc import Mapping

import pytest

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GATE, OWN_GATE, gates, pod_body, suspended_text, why
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import DEPLOYMENT, JOB, STATEFUL_SET, WorkloadKind, work_body

REPLICAS = 3


def pending_before(sandbox: Sandbox, kind: WorkloadKind, queue: str) -> set[str]:
    """The UIDs of the pods of a workload that were kept back by the test's own gate when their queue was
    suspended, and are refused by filter now.
    """
    body = work_body(kind, "work", queue, replicas=REPLICAS)
    if kind is STATEFUL_SET:
        body["spec"]["podManagementPolicy"] = "Parallel"
    body["spec"]["template"]["spec"]["schedulingGates"] = [{"name": OWN_GATE}]
    sandbox.make(kind, body).must(201)
    until(lambda: len(sandbox.read_pods()) == REPLICAS, "the pods to be created")
    created = int(time.time())
    until(lambda: int(time.time()) > created, "the second of their creation to be over")
    sandbox.suspend(queue)
    before = sandbox.read_pods()
    sandbox.ungate(before)
    return _uids(before)


def _uids(pods: Mapping[str, Object]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods.values()}


def all_gated(sandbox: Sandbox) -> dict[str, Object]:
    """The pods once all of them have our gate."""

    def found() -> dict[str, Object] | None:
        pods = sandbox.read_pods()
        complete = len(pods) == REPLICAS and all(GATE in gates(pod) for pod in pods.values())
        return pods if complete else None

    return until(found, "all pods to have the gate")


@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET], ids=["Deployment", "StatefulSet"])
def test_refused_pods_come_back_gated_and_go_after_the_resume(sandbox: Sandbox, kind: WorkloadKind) -> None:
    """Each once; the workload and the queue say why, and each new pod does."""
    queue = sandbox.queue(parked="Recreate")
    before = pending_before(sandbox, kind, queue)
    after = all_gated(sandbox)
    assert before.isdisjoint(_uids(after))
    for name in after:
        sandbox.reason_on(name, suspended_text(queue))
    sandbox.event("work", "ParkedPodsRecreated", suspended_text(queue))
    settled(lambda: _uids(sandbox.read_pods()) == _uids(after), "the pods")
    assert _uids(sandbox.read_pods()) == _uids(after)
    sandbox.edit(queue, state="Open")
    sandbox.ungate(after)
    sandbox.all_bound(after)


def test_by_default_refused_pods_stay(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    before = pending_before(sandbox, DEPLOYMENT, queue)
    until(
        lambda: all(suspended_text(queue) in why(pod) for pod in sandbox.read_pods().values()),
        "filter to refuse all",
    )
    settled(lambda: _uids(sandbox.read_pods()), "the pods")
    assert _uids(sandbox.read_pods()) == before


def test_pods_of_a_job_and_bare_pods_stay(sandbox: Sandbox) -> None:
    """A Job would count each as failed; nobody would create a bare pod again."""
    queue = sandbox.queue(parked="Recreate")
    sandbox.api.create(sandbox.pods_path, pod_body("bare", queue, gated=True)).must(201)
    body = work_body(JOB, "work", queue)
    body["spec"]["template"]["spec"]["schedulingGates"] = [{"name": OWN_GATE}]
    sandbox.make(JOB, body).must(201)
    until(lambda: len(sandbox.read_pods()) == 2, "the pods to be created")
    created = int(time.time())
    until(lambda: int(time.time()) > created, "the second of their creation to be over")
    sandbox.suspend(queue)
    before = sandbox.read_pods()
    sandbox.ungate(before)
    for name in before:
        sandbox.reason_on(name, suspended_text(queue))
    settled(lambda: _uids(sandbox.read_pods()), "the pods")
    assert _uids(sandbox.read_pods()) == _uids(before)
