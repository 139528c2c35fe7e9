"""What others make: Jobs of CronJobs and JobSets are written to, ReplicaSets of whatever kind are not."""

from __future__ import annotations

import pytest

from tests.support.http.asking import Server
from tests.support.http.wire_objects import (
    NAMED,
    Wire,
    owner,
    podgroup,
    queue,
    template,
    templates_of,
    workload,
)
from tests.support.webhooks.json_patch import applied

QUEUE, LABEL = "sluice.dev/queue", "volcano.sh/queue-name"
CRON = "system:serviceaccount:kube-system:cronjob-controller"
ROLLOUT: Wire = {
    "apiVersion": "example.com/v1",
    "kind": "Rollout",
    "metadata": {"name": "web", "uid": "uid-web"},
}


@pytest.fixture
def server() -> Server:
    return Server().has(queue("research"), queue("closed", state="Closed"))


def admitted(server: Server, obj: Wire, *, resource: str, user: str = "alice") -> Wire:
    answer = server.ask("/mutate/workloads", obj, resource=resource, user=user)
    assert answer.allowed, answer.message
    after: Wire = applied(answer.patch, obj)
    return after


def cron(name: str) -> Wire:
    """A CronJob that names the queue in the metadata of its Jobs alone."""
    made = workload("cronjobs.batch", "nightly")
    made["spec"]["jobTemplate"]["metadata"] = {"labels": {LABEL: name}}
    return made


def test_a_queue_named_for_its_jobs_is_a_cronjobs(server: Server) -> None:
    """It is written in the pod template too, so that the pods are members."""
    after = admitted(server, cron("research"), resource="cronjobs.batch")
    assert after["metadata"]["labels"][QUEUE] == "research"
    assert templates_of(after)[0]["metadata"]["annotations"][QUEUE] == "research"


def test_a_closed_queue_refuses_such_a_cronjob(server: Server) -> None:
    answer = server.ask("/mutate/workloads", cron("closed"), resource="cronjobs.batch")
    assert not answer.allowed
    assert "takes no new cronjobs" in answer.message


def test_the_pods_of_a_job_that_a_cronjob_made_are_members(server: Server) -> None:
    """The CronJob may be older than the installation: then the Job alone bears a name."""
    made = workload("jobs.batch", "nightly-1", labels={LABEL: "research"}, owner=owner(cron("research")))
    after = admitted(server, made, resource="jobs.batch", user=CRON)
    annotations = templates_of(after)[0]["metadata"]["annotations"]
    assert (annotations[QUEUE], annotations[NAMED]) == ("research", "research")


def test_a_replicaset_of_another_kind_keeps_its_template(server: Server) -> None:
    """Its maker finds it by that; its pods are asked about all the same."""
    made = workload("replicasets.apps", "web-1", template({NAMED: "research"}), owner=owner(ROLLOUT))
    after = admitted(server, made, resource="replicasets.apps", user="system:serviceaccount:argo:rollouts")
    assert templates_of(after) == templates_of(made)
    assert after["metadata"]["labels"][QUEUE] == "research"


def test_a_podgroup_of_an_exempt_namespace_is_left_alone(server: Server) -> None:
    """It keeps no queue from Closed, and is counted in none."""
    server.has(podgroup("gang", namespace="kube-system", queue="closed"))
    assert server.store.live_members.below("closed") == 0
    assert server.store.podgroups.in_queue("closed") == []
