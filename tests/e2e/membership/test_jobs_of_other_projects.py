"""Jobs of Volcano and JobSets, where they are installed: admitted, counted, refused like all work.

Their controllers do not run here: what they make is made by the test, in their name.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import (
    GATE,
    NAMED_BY,
    condition,
)
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import (
    JOB,
    WorkloadKind,
    owned_by,
    template_body,
    work_body,
)

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
VOLCANO_JOB = WorkloadKind("Job", "batch.volcano.sh/v1alpha1", "jobs")
JOB_SET = WorkloadKind("JobSet", "jobset.x-k8s.io/v1alpha2", "jobsets")
BOTH = pytest.mark.parametrize("made", [VOLCANO_JOB, JOB_SET], ids=["Volcano's Job", "JobSet"])
#: Definitions of other projects, which stay.
KEEPS_CLUSTER = True


def definition(made: WorkloadKind) -> Object:
    """As much of a definition as the API server asks for. Volcano's fills in a queue."""
    group, version = made.group.split("/")
    schema: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if made is VOLCANO_JOB:
        queue = {"type": "string", "default": "default"}
        schema = {**schema, "properties": {"spec": {**schema, "properties": {"queue": queue}}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{made.resource}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": made.kind, "plural": made.resource},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def is_served(sandbox: Sandbox, made: WorkloadKind) -> bool:
    return sandbox.api.get(made.path(sandbox.namespace)).status == 200


@pytest.fixture(scope="module")
def own_sandbox(served_cluster: LocalCluster) -> Iterator[Sandbox]:
    """A cluster with both definitions, installed while the server runs."""
    sandbox = Sandbox(served_cluster)
    for made in (VOLCANO_JOB, JOB_SET):
        sandbox.api.create(DEFINITIONS, definition(made)).must(201)
        until(partial(is_served, sandbox, made), f"{made.kind} to be served")
    yield sandbox
    sandbox.close()


def body(made: WorkloadKind, name: str, queue: str = "", *, on_itself: bool = False) -> Object:
    """A Job of two tasks, or of two replicated Jobs."""
    named = {NAMED_BY: queue} if queue else {}
    templates = [template_body(name, {} if on_itself else named) for _ in range(2)]
    spec: Object = (
        {
            "minAvailable": 2,
            "tasks": [{"name": f"t{n}", "template": each} for n, each in enumerate(templates)],
        }
        if made is VOLCANO_JOB
        else {
            "replicatedJobs": [
                {"name": f"r{n}", "template": {"spec": {"template": each}}}
                for n, each in enumerate(templates)
            ]
        }
    )
    meta = {"name": name, "annotations": named if on_itself else {}}
    return {"apiVersion": made.group, "kind": made.kind, "metadata": meta, "spec": spec}


def templates(made: WorkloadKind, obj: Object) -> list[Object]:
    if made is VOLCANO_JOB:
        return [task["template"] for task in obj["spec"]["tasks"]]
    return [each["template"]["spec"]["template"] for each in obj["spec"]["replicatedJobs"]]


@BOTH
@pytest.mark.parametrize("on_itself", [False, True], ids=["in its templates", "on itself"])
def test_the_queue_is_written_in_every_template(
    own_sandbox: Sandbox, made: WorkloadKind, on_itself: bool
) -> None:
    """And on the job, to be listed by."""
    queue = own_sandbox.queue(f"written-{made.resource}-{on_itself}".lower())
    found = (
        own_sandbox.make(made, body(made, f"written-{on_itself}".lower(), queue, on_itself=on_itself))
        .must()
        .body
    )
    assert found["metadata"]["labels"][GATE] == queue
    assert [each["metadata"]["annotations"][GATE] for each in templates(made, found)] == [queue] * 2


def test_a_volcano_job_that_names_no_queue_is_in_default(own_sandbox: Sandbox) -> None:
    """Its PodGroup gets the queue of its spec."""
    job = body(VOLCANO_JOB, "plain")
    job["spec"]["schedulerName"] = "volcano"
    assert own_sandbox.make(VOLCANO_JOB, job).must().body["spec"]["queue"] == "default"


@BOTH
def test_a_live_one_keeps_its_queue_from_closed(own_sandbox: Sandbox, made: WorkloadKind) -> None:
    """Until it is finished, as its own controller says."""
    queue = own_sandbox.queue(f"kept-{made.resource}")
    found = own_sandbox.make(made, body(made, "kept", queue)).must().body
    name = f"{made.kind.lower()} {own_sandbox.namespace}/kept"

    def named() -> bool:
        own_sandbox.patch_queue(queue, state="Open").must()
        own_sandbox.patch_queue(queue, state="Closed").must()
        closing = own_sandbox.answered(queue)
        return f"kept from Closed by {name}" in condition(closing, "Accepting")["message"]

    until(named, "the job to be known")
    done = {"state": {"phase": "Completed"}} if made is VOLCANO_JOB else {"terminalState": "Completed"}
    own_sandbox.api.patch(f"{made.path(own_sandbox.namespace)}/kept/status", {"status": done}).must()
    own_sandbox.in_state(queue, "Closed")
    own_sandbox.make(made, body(made, "new", queue)).must_refuse(
        f'queue "{queue}" is Closed and takes no new {made.resource}'
    )
    assert found["metadata"]["labels"][GATE] == queue


def test_a_job_of_an_accepted_jobset_is_taken_while_closing(own_sandbox: Sandbox) -> None:
    """The JobSet's controller may make its Jobs late."""
    queue = own_sandbox.queue("late")
    job_set = own_sandbox.make(JOB_SET, body(JOB_SET, "late", queue)).must().body
    user = own_sandbox.controller("system:serviceaccount:jobset-system:jobset-controller-manager")
    job = work_body(JOB, "late-r0", queue)
    job["metadata"]["ownerReferences"] = owned_by(job_set)
    own_sandbox.edit(queue, state="Closed")
    own_sandbox.in_state(queue, "Closing")

    def taken() -> bool:
        return (
            own_sandbox.api.create(f"{JOB.path(own_sandbox.namespace)}?dryRun=All", job, user=user).status
            == 201
        )

    until(taken, "the JobSet to be known")
    own_sandbox.api.create(JOB.path(own_sandbox.namespace), job).must_refuse("takes no new jobs")
    own_sandbox.api.create(JOB.path(own_sandbox.namespace), job, user=user).must(201)
