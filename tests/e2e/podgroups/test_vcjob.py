"""Volcano's own controllers, unmodified, beside the server: its Jobs go from submission to their end.

Their version is pinned in localcluster/vccontrollers/go.mod.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster import external_tools, processes
from localcluster.cluster import LocalCluster
from tests.support.drain.draining import wait_for_drain, wait_for_running
from tests.support.e2e.api_requests import Api, Object
from tests.support.e2e.objects import COMPLETES, condition, cpu_used, on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import settled, until
from tests.support.e2e.workloads import WorkloadKind, template_body
from tests.support.plugin.harness import plugin_in_process
from tests.support.skipping import built_or_skipped

VOLCANO_JOB = WorkloadKind("Job", "batch.volcano.sh/v1alpha1", "jobs")
COMPONENT = "vc-controllers"
#: Its queue controller would write the statuses of queues. `-queue-controller` alone switches off all.
CONTROLLERS = "job-controller,pg-controller,gc-controller"
#: Definitions of other projects, which stay.
KEEPS_CLUSTER = True


def built() -> tuple[Path, list[Path]]:
    """The program and the definitions. Where they cannot be built, tests are skipped, or fail if CI=true."""
    return built_or_skipped("Volcano controllers", lambda: external_tools.volcano_controllers(say=print))


@pytest.fixture(scope="module")
def volcano(served_cluster: LocalCluster) -> Iterator[LocalCluster]:
    binary, definitions = built()
    layout = served_cluster.layout
    served_cluster.kubectl("apply", "--server-side", *(f"--filename={path}" for path in definitions))
    with Api(served_cluster) as api:
        until(lambda: api.get(f"/apis/{VOLCANO_JOB.group}/jobs").status == 200, "Volcano's Jobs to be served")
    flags = [f"--kubeconfig={layout.kubeconfig}", f"--controllers={CONTROLLERS}", "--leader-elect=false"]
    processes.spawn(
        [str(binary), *flags], folder=layout.folder, component=COMPONENT, log=layout.log(COMPONENT)
    )
    yield served_cluster
    processes.stop(layout.folder, components=[COMPONENT])


@pytest.fixture
def own_sandbox(volcano: LocalCluster) -> Iterator[Sandbox]:
    sandbox = Sandbox(volcano)
    yield sandbox
    sandbox.api.delete(VOLCANO_JOB.path(sandbox.namespace)).must()
    sandbox.clear()
    sandbox.close()


def submit(sandbox: Sandbox, queue: str, *, completes: str = "0s", workers: int = 2) -> Object:
    """A Job of a master and workers, one CPU each, all of which start together."""
    tasks = [
        {"name": name, "replicas": replicas, "template": template_body(name, {COMPLETES: completes}, cpu="1")}
        for name, replicas in (("master", 1), ("worker", workers))
    ]
    body = {
        "apiVersion": VOLCANO_JOB.group,
        "kind": VOLCANO_JOB.kind,
        "metadata": {"name": "job"},
        "spec": {
            "queue": queue,
            "minAvailable": workers + 1,
            "schedulerName": "default-scheduler",
            "maxRetry": 3,  # Volcano's webhook writes that, which does not run here: a resumed Job is a retry
            "tasks": tasks,
        },
    }
    return sandbox.make(VOLCANO_JOB, body).must(201).body


def phase(sandbox: Sandbox) -> str:
    job = sandbox.api.get(f"{VOLCANO_JOB.path(sandbox.namespace)}/job").must().body
    return str((job.get("status", {}).get("state") or {}).get("phase", ""))


def in_phase(sandbox: Sandbox, wanted: str) -> None:
    until(lambda: phase(sandbox) == wanted, f"the Job to be {wanted}")


def group(sandbox: Sandbox) -> Object:
    """Its PodGroup, once Volcano has made it and the server has looked at it."""

    def found() -> Object:
        groups = sandbox.api.get(sandbox.podgroups_path).must().body["items"]
        return groups[0] if groups and groups[0].get("status", {}).get("phase") else {}

    return until(found, "the PodGroup of the Job")


def test_it_goes_from_submission_to_completed_under_a_quota(own_sandbox: Sandbox) -> None:
    queue = own_sandbox.queue("own", capability={"cpu": "3"})
    submit(own_sandbox, queue)
    in_phase(own_sandbox, "Completed")
    assert len(own_sandbox.read_pods()) == 3


def test_it_makes_no_pod_while_its_queue_is_suspended(own_sandbox: Sandbox) -> None:
    queue = own_sandbox.queue("own", capability={"cpu": "3"})
    own_sandbox.suspend(queue)
    submit(own_sandbox, queue)
    assert group(own_sandbox)["status"]["phase"] == "Pending"
    assert settled(lambda: len(own_sandbox.read_pods()), "the pods", seconds=1.0) == 0
    own_sandbox.edit(queue, state="Open")
    in_phase(own_sandbox, "Completed")


def test_it_makes_no_pod_before_what_it_asks_for_has_room(own_sandbox: Sandbox) -> None:
    """Whatever somebody writes on its PodGroup: who makes pods by that gets no room."""
    queue = own_sandbox.queue("own", capability={"cpu": "3"})
    own_sandbox.pod("before", queue, cpu="1").must(201)
    own_sandbox.all_bound(["before"])
    submit(own_sandbox, queue)
    waits = group(own_sandbox)
    assert (waits["status"]["phase"], phase(own_sandbox)) == ("Pending", "Pending")
    lacks = condition(waits, "Unschedulable")
    assert (lacks["status"], lacks["reason"]) == ("True", "NotEnoughResources")
    own_sandbox.queue_that(queue, "count it", lambda found: cpu_used(found) == 1)
    name = waits["metadata"]["name"]
    told = plugin_in_process(
        "why",
        f"podgroup/{name}",
        "-n",
        own_sandbox.namespace,
        kubeconfig=own_sandbox.cluster.client_kubeconfig,
    )
    assert f'waits for room before its pods are made: queue "{queue}" uses cpu 1 of 3' in told.stdout
    path = f"{own_sandbox.podgroups_path}/{name}"
    own_sandbox.api.patch(path, {"status": {"phase": "Inqueue"}}).must()
    until(lambda: group(own_sandbox)["status"]["phase"] == "Pending", "the PodGroup to be Pending again")
    assert not any(on_a_node(pod) for name, pod in own_sandbox.read_pods().items() if name != "before")
    own_sandbox.api.delete(f"{own_sandbox.pods_path}/before").must()
    in_phase(own_sandbox, "Completed")


def test_a_drain_aborts_it_and_it_runs_again_afterwards(own_sandbox: Sandbox) -> None:
    queue = own_sandbox.queue("own", capability={"cpu": "3"})
    submit(own_sandbox, queue, completes="1h")
    wait_for_running(own_sandbox, 3)
    in_phase(own_sandbox, "Running")
    own_sandbox.patch_queue(queue, stopPolicy="HoldAndDrain").must()
    wait_for_drain(own_sandbox, queue, "Drained")
    in_phase(own_sandbox, "Aborted")
    own_sandbox.patch_queue(queue, stopPolicy="None").must()
    wait_for_running(own_sandbox, 3)
    in_phase(own_sandbox, "Running")
