"""Where `spec.parked` is Recreate, pods that filter refuses are created again by their controllers, gated."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from controller.pods.missing_pods import OWNER_LIMIT
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import GATE, OWN_GATE, gates, suspended_text, why
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import DEPLOYMENT, JOB, STATEFUL_SET, WorkloadKind, work_body

REPLICAS = 3
POLICIES = "/apis/admissionregistration.k8s.io/v1"


def pending_before(sandbox: Sandbox, kind: WorkloadKind, queue: str, *, replicas: int = REPLICAS) -> set[str]:
    """The UIDs of the pods of a workload that were kept back by the test's own gate when their queue was
    suspended, and are refused by filter now.
    """
    body = work_body(kind, "work", queue, replicas=replicas)
    if kind is STATEFUL_SET:
        body["spec"]["podManagementPolicy"] = "Parallel"
    body["spec"]["template"]["spec"]["schedulingGates"] = [{"name": OWN_GATE}]
    sandbox.make(kind, body).must(201)
    until(lambda: len(sandbox.read_pods()) == replicas, "the pods to be created")
    let_a_second_pass()
    sandbox.suspend(queue)
    before = sandbox.read_pods()
    sandbox.ungate(before)
    return _uids(before)


def let_a_second_pass() -> None:
    """The time of a pod's creation is in whole seconds; it must be before that of the stop."""
    now = int(time.time())
    until(lambda: int(time.time()) > now, "the second of the creation to be over")


def _uids(pods: Mapping[str, Object]) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods.values()}


def all_gated(sandbox: Sandbox, *, replicas: int = REPLICAS) -> dict[str, Object]:
    """The pods once all of them have our gate."""

    def found() -> dict[str, Object] | None:
        pods = sandbox.read_pods()
        complete = len(pods) == replicas and all(GATE in gates(pod) for pod in pods.values())
        return pods if complete else None

    return until(found, "all pods to have the gate")


def recreations(sandbox: Sandbox, *, how: str) -> float:
    """What was deleted or suspended, of all queues of the cluster."""
    kind = {"Delete": "pod", "Suspend": "job"}[how]
    return sandbox.counted(rf'sluice_{kind}_recreations_total{{outcome="done"}}')


@pytest.mark.parametrize("kind", [DEPLOYMENT, STATEFUL_SET], ids=["Deployment", "StatefulSet"])
def test_refused_pods_come_back_gated_and_go_after_the_resume(sandbox: Sandbox, kind: WorkloadKind) -> None:
    """Each once; the workload and the queue say why, and each new pod does."""
    queue = sandbox.queue(parked="Recreate")
    deleted = recreations(sandbox, how="Delete")
    before = pending_before(sandbox, kind, queue)
    after = all_gated(sandbox)
    until(lambda: recreations(sandbox, how="Delete") >= deleted + REPLICAS, "each deletion to be counted")
    assert before.isdisjoint(_uids(after))
    for name in after:
        sandbox.reason_on(name, suspended_text(queue))
    sandbox.event("work", "ParkedPodsRecreated", suspended_text(queue))
    settled(lambda: _uids(sandbox.read_pods()) == _uids(after), "the pods")
    assert _uids(sandbox.read_pods()) == _uids(after)
    sandbox.edit(queue, state="Open")
    sandbox.ungate(after)
    sandbox.all_bound(after)


@contextmanager
def creations_refused(sandbox: Sandbox) -> Iterator[None]:
    """A policy of somebody else: nobody may create pods in the namespace."""
    name = sandbox.named("no-pods")
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": f"request.namespace != '{sandbox.namespace}'"}],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    sandbox.create(f"{POLICIES}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    bindings = f"{POLICIES}/validatingadmissionpolicybindings"
    sandbox.create(bindings, {"metadata": {"name": name}, "spec": binding})
    until(lambda: sandbox.pod("probe", dry=True).status != 201, "the policy to be known")
    yield
    sandbox.api.delete(f"{bindings}/{name}").must()
    until(lambda: sandbox.pod("probe", dry=True).status == 201, "the policy to be gone")


def counts_left(sandbox: Sandbox, queue: str, number: int) -> None:
    """Wait until the queue counts so many pods that are still to be created again."""
    sandbox.queue_that(
        queue, f"count {number} left", lambda found: found["status"]["pods"]["recreating"] == number
    )


def test_where_pods_may_not_be_created_few_are_missing_until_they_may(sandbox: Sandbox) -> None:
    """The status counts those that are left."""
    queue, replicas = sandbox.queue(parked="Keep"), OWNER_LIMIT + 5
    before = pending_before(sandbox, DEPLOYMENT, queue, replicas=replicas)
    with creations_refused(sandbox):
        sandbox.patch_queue(queue, parked="Recreate").must()
        until(lambda: len(sandbox.read_pods()) == replicas - OWNER_LIMIT, "pods to be deleted")
        settled(lambda: _uids(sandbox.read_pods()), "the pods")
        assert len(sandbox.read_pods()) == replicas - OWNER_LIMIT
        counts_left(sandbox, queue, replicas - OWNER_LIMIT)
    assert before.isdisjoint(_uids(all_gated(sandbox, replicas=replicas)))
    counts_left(sandbox, queue, 0)


def test_by_default_refused_pods_stay(sandbox: Sandbox) -> None:
    queue = sandbox.queue()
    before = pending_before(sandbox, DEPLOYMENT, queue)
    until(
        lambda: all(suspended_text(queue) in why(pod) for pod in sandbox.read_pods().values()),
        "filter to refuse all",
    )
    settled(lambda: _uids(sandbox.read_pods()), "the pods")
    assert _uids(sandbox.read_pods()) == before


def test_a_job_whose_pods_wait_is_suspended_and_resumed_with_the_queue(sandbox: Sandbox) -> None:
    """No pod of it counts as failed; a bare pod stays, since nobody would create it again."""
    queue = sandbox.queue(parked="Recreate")
    suspensions = recreations(sandbox, how="Suspend")
    sandbox.pod("bare", queue, gated=True).must(201)
    body = work_body(JOB, "work", queue)
    body["spec"]["template"]["spec"]["schedulingGates"] = [{"name": OWN_GATE}]
    sandbox.make(JOB, body).must(201)
    until(lambda: len(sandbox.read_pods()) == 2, "the pods to be created")
    let_a_second_pass()
    sandbox.suspend(queue)
    sandbox.ungate(sandbox.read_pods())
    until(lambda: set(sandbox.read_pods()) == {"bare"}, "the Job's pod to go")
    sandbox.event("work", "SuspendedByQueue", suspended_text(queue))
    path = f"{JOB.path(sandbox.namespace)}/work"
    until(lambda: recreations(sandbox, how="Suspend") > suspensions, "the suspension to be counted")
    suspended = sandbox.api.get(path).must().body
    assert (suspended["spec"]["suspend"], suspended["status"].get("failed", 0)) == (True, 0)
    sandbox.edit(queue, state="Open")
    until(lambda: len(sandbox.read_pods()) == 2, "the Job to be resumed")
    pods = sandbox.read_pods()
    sandbox.ungate(pods)
    sandbox.all_bound(pods)
    assert sandbox.api.get(path).must().body["status"].get("failed", 0) == 0
