"""A queue that no longer accepts still gets the pods of work that it had accepted, and nothing new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import (
    GROUPED_BY,
    NO_UID,
    condition,
    pod_body,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import (
    CRON_CONTROLLER,
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    REPLICA_SET,
    owned_by,
    work_body,
)


@pytest.fixture
def queue(sandbox: Sandbox) -> str:
    return sandbox.queue()


def deployed(sandbox: Sandbox, queue: str, name: str = "work", **spec: Any) -> Object:
    """A Deployment of one pod that is on a node, as the server knows."""
    body = sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, name, queue, **spec)).must().body
    sandbox.queue_that(queue, "count its pod", lambda found: allocated_pods(found) == "1")
    return body


def allocated_pods(queue: Object) -> str:
    return str(queue["status"].get("allocated", {}).get("pods", "0"))


def closed(sandbox: Sandbox, queue: str) -> None:
    sandbox.edit(queue, state="Closed")


def replica_set(sandbox: Sandbox) -> Object:
    [found] = sandbox.api.get(REPLICA_SET.path(sandbox.namespace)).must().body["items"]
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", **found}


def test_a_deployments_pod_that_dies_is_replaced_while_closing(sandbox: Sandbox, queue: str) -> None:
    """And keeps the queue from Closed until it is scaled down; from then on it cannot come back."""
    deployed(sandbox, queue)
    closed(sandbox, queue)
    sandbox.scale("work", 20, refused="replicas beyond the 1 that this Deployment has are new")
    [pod] = sandbox.read_pods()
    sandbox.api.delete(f"{sandbox.pods_path}/{pod}").must()
    until(lambda: sandbox.read_pods().keys() - {pod} and not sandbox.waiting(), "its replacement to be bound")
    sandbox.scale("work", 0)
    sandbox.in_state(queue, "Closed")
    sandbox.scale("work", 1, refused=f'queue "{queue}" takes no new work')
    path = f"{DEPLOYMENT.path(sandbox.namespace)}/work"
    sandbox.api.patch(path, {"spec": {"replicas": 1}}).must_refuse(f'queue "{queue}" takes no new work')


def test_a_deployment_is_rolled_out_while_closing(sandbox: Sandbox, queue: str) -> None:
    """Its new ReplicaSet is work of one that had been accepted."""
    deployed(sandbox, queue)
    [before] = sandbox.read_pods()
    closed(sandbox, queue)
    change = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
    sandbox.api.patch(f"{DEPLOYMENT.path(sandbox.namespace)}/work", change).must()
    until(lambda: sandbox.read_pods() and before not in sandbox.read_pods(), "the former pod to be replaced")


def test_a_jobs_late_pods_come_while_closing(sandbox: Sandbox, queue: str) -> None:
    """It was suspended by its user, and not by the close, which is no end of it."""
    sandbox.make(JOB, work_body(JOB, "work", queue, suspend=True)).must()
    closed(sandbox, queue)
    kept = f"kept from Closed by job {sandbox.namespace}/work"
    sandbox.queue_that(queue, "name the Job", lambda found: kept in condition(found, "Accepting")["message"])
    sandbox.api.patch(f"{JOB.path(sandbox.namespace)}/work", {"spec": {"suspend": False}}).must()
    until(lambda: sandbox.read_pods() and not sandbox.waiting(), "its pod to be bound")


def test_a_podgroups_pods_that_come_late_are_taken(sandbox: Sandbox, queue: str) -> None:
    """The group was there before; another group is not taken any more."""
    sandbox.podgroup("gang", queue)
    until(lambda: sandbox.read_podgroup("gang").get("status", {}).get("phase"), "the group to be known")
    closed(sandbox, queue)
    sandbox.pod("late", annotations={GROUPED_BY: "gang"}).must()
    sandbox.all_bound(["late"])
    sandbox.make_podgroup("other", queue).must_refuse(
        f'queue "{queue}" is Closing and takes no new podgroups'
    )


def test_a_job_that_a_cronjob_makes_is_new_work(sandbox: Sandbox, queue: str) -> None:
    """However old the CronJob: it is its Jobs that are submitted."""
    cron = sandbox.make(CRON_JOB, work_body(CRON_JOB, "nightly", queue)).must().body
    job = work_body(JOB, "nightly-1", queue)
    job["metadata"]["ownerReferences"] = owned_by(cron)
    sandbox.api.create(
        f"{JOB.path(sandbox.namespace)}?dryRun=All", job, user=sandbox.controller(CRON_CONTROLLER)
    ).must()
    closed(sandbox, queue)
    sandbox.in_state(queue, "Closed")  # a CronJob keeps no queue
    sandbox.api.create(JOB.path(sandbox.namespace), job, user=CRON_CONTROLLER).must_refuse(
        f'queue "{queue}" is Closed and takes no new jobs'
    )


FORGED: dict[str, Callable[[Object], list[Object]]] = {
    "the right owner": owned_by,
    "one that does not control": lambda owner: owned_by(owner, controller=False),
    "one that is not there": lambda owner: [{**owned_by(owner)[0], "uid": NO_UID}],
}


@pytest.mark.parametrize("forged", FORGED)
def test_an_owner_reference_by_a_user_makes_no_accepted_work(
    sandbox: Sandbox, queue: str, forged: str
) -> None:
    """Whoever may make pods may write one."""
    deployed(sandbox, queue)
    closed(sandbox, queue)
    body = pod_body("forged", queue)
    body["metadata"]["ownerReferences"] = FORGED[forged](replica_set(sandbox))
    sandbox.api.create(sandbox.pods_path, body).must_refuse(
        f'queue "{queue}" is Closing and takes no new pods'
    )


def test_an_owner_of_another_queue_does_not_count(sandbox: Sandbox, queue: str) -> None:
    """A controller's pod that names a closed queue while its owner is in an open one."""
    other = sandbox.queue("other")
    deployed(sandbox, other)
    deployed(sandbox, queue, "second")
    closed(sandbox, queue)
    [owner] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", **each}
        for each in sandbox.api.get(REPLICA_SET.path(sandbox.namespace)).must().body["items"]
        if each["metadata"]["name"].startswith("work-")
    ]
    body = pod_body("stray", queue)
    body["metadata"]["ownerReferences"] = owned_by(owner)
    user = sandbox.controller("system:serviceaccount:kube-system:replicaset-controller")
    sandbox.api.create(sandbox.pods_path, body, user=user).must_refuse("takes no new pods")
