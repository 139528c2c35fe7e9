"""A queue that no longer accepts still gets the pods of work that it had accepted, and nothing new."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.e2e.calling import Object
from tests.support.e2e.shapes import (
    GROUPED_BY,
    NO_UID,
    condition,
    pod_body,
)
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import until
from tests.support.e2e.work import (
    CRON_CONTROLLER,
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    REPLICA_SET,
    owned_by,
    work_body,
)


@pytest.fixture
def queue(stage: Stage) -> str:
    return stage.queue()


def deployed(stage: Stage, queue: str, name: str = "work", **spec: Any) -> Object:
    """A Deployment whose pods run."""
    body = stage.make(DEPLOYMENT, work_body(DEPLOYMENT, name, queue, **spec)).must().body
    until(lambda: stage.read_pods() and not stage.waiting(), "its pods to be bound")
    return body


def closed(stage: Stage, queue: str) -> None:
    stage.edit(queue, state="Closed")


def replica_set(stage: Stage) -> Object:
    [found] = stage.api.get(REPLICA_SET.path(stage.namespace)).must().body["items"]
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", **found}


def test_a_deployments_pod_that_dies_is_replaced_while_closing(stage: Stage, queue: str) -> None:
    """And keeps the queue from Closed until it is scaled down; from then on it cannot come back."""
    deployed(stage, queue)
    closed(stage, queue)
    [pod] = stage.read_pods()
    stage.api.delete(f"{stage.pods_path}/{pod}").must()
    until(lambda: stage.read_pods().keys() - {pod} and not stage.waiting(), "its replacement to be bound")
    stage.scale("work", 0)
    stage.in_state(queue, "Closed")
    stage.scale("work", 1, refused=f'queue "{queue}" takes no new work')
    path = f"{DEPLOYMENT.path(stage.namespace)}/work"
    stage.api.patch(path, {"spec": {"replicas": 1}}).must_refuse(f'queue "{queue}" takes no new work')


def test_a_deployment_is_rolled_out_while_closing(stage: Stage, queue: str) -> None:
    """Its new ReplicaSet is work of one that had been accepted."""
    deployed(stage, queue)
    [before] = stage.read_pods()
    closed(stage, queue)
    change = {"spec": {"template": {"metadata": {"labels": {"version": "2"}}}}}
    stage.api.patch(f"{DEPLOYMENT.path(stage.namespace)}/work", change).must()
    until(lambda: stage.read_pods() and before not in stage.read_pods(), "the former pod to be replaced")


def test_a_jobs_late_pods_come_while_closing(stage: Stage, queue: str) -> None:
    """It was suspended by its user, and not by the close, which is no end of it."""
    stage.make(JOB, work_body(JOB, "work", queue, suspend=True)).must()
    closed(stage, queue)
    found = stage.read_queue(queue)
    assert f"kept from Closed by job {stage.namespace}/work" in condition(found, "Accepting")["message"]
    stage.api.patch(f"{JOB.path(stage.namespace)}/work", {"spec": {"suspend": False}}).must()
    until(lambda: stage.read_pods() and not stage.waiting(), "its pod to be bound")


def test_a_podgroups_pods_that_come_late_are_taken(stage: Stage, queue: str) -> None:
    """The group was there before; another group is not taken any more."""
    stage.podgroup("gang", queue)
    until(lambda: stage.read_podgroup("gang").get("status", {}).get("phase"), "the group to be known")
    closed(stage, queue)
    stage.pod("late", annotations={GROUPED_BY: "gang"}).must()
    stage.all_bound(["late"])
    stage.make_podgroup("other", queue).must_refuse(f'queue "{queue}" is Closing and takes no new podgroups')


def test_a_job_that_a_cronjob_makes_is_new_work(stage: Stage, queue: str) -> None:
    """However old the CronJob: it is its Jobs that are submitted."""
    cron = stage.make(CRON_JOB, work_body(CRON_JOB, "nightly", queue)).must().body
    job = work_body(JOB, "nightly-1", queue)
    job["metadata"]["ownerReferences"] = owned_by(cron)
    stage.api.create(
        f"{JOB.path(stage.namespace)}?dryRun=All", job, user=stage.controller(CRON_CONTROLLER)
    ).must()
    closed(stage, queue)
    stage.in_state(queue, "Closed")  # a CronJob keeps no queue
    stage.api.create(JOB.path(stage.namespace), job, user=CRON_CONTROLLER).must_refuse(
        f'queue "{queue}" is Closed and takes no new jobs'
    )


FORGED: dict[str, Callable[[Object], list[Object]]] = {
    "the right owner": owned_by,
    "one that does not control": lambda owner: owned_by(owner, controller=False),
    "one that is not there": lambda owner: [{**owned_by(owner)[0], "uid": NO_UID}],
}


@pytest.mark.parametrize("forged", FORGED)
def test_an_owner_reference_by_a_user_makes_no_accepted_work(stage: Stage, queue: str, forged: str) -> None:
    """Whoever may make pods may write one."""
    deployed(stage, queue)
    closed(stage, queue)
    body = pod_body("forged", queue)
    body["metadata"]["ownerReferences"] = FORGED[forged](replica_set(stage))
    stage.api.create(stage.pods_path, body).must_refuse(f'queue "{queue}" is Closing and takes no new pods')


def test_an_owner_of_another_queue_does_not_count(stage: Stage, queue: str) -> None:
    """A controller's pod that names a closed queue while its owner is in an open one."""
    other = stage.queue("other")
    deployed(stage, other)
    deployed(stage, queue, "second")
    closed(stage, queue)
    [owner] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", **each}
        for each in stage.api.get(REPLICA_SET.path(stage.namespace)).must().body["items"]
        if each["metadata"]["name"].startswith("work-")
    ]
    body = pod_body("stray", queue)
    body["metadata"]["ownerReferences"] = owned_by(owner)
    user = stage.controller("system:serviceaccount:kube-system:replicaset-controller")
    stage.api.create(stage.pods_path, body, user=user).must_refuse("takes no new pods")
