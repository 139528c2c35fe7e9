"""The page's way to remove it all, typed as it stands there, with the server up and with the server gone."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cluster.coordination.leases import COORDINATION
from cluster.coordination.replica_lease import LABEL
from kubectl_queue.removal.inventory import FROM_TEMPLATES, own_keys
from localcluster.cluster import LocalCluster
from localcluster.scheduler_config import SchedulerConfigBody, without_extenders
from queues import well_known
from tests.conftest import NewCluster
from tests.support.drain.draining import budget, patch_with_deadline, wait_for_running
from tests.support.e2e.api_requests import Api, Object
from tests.support.e2e.kubernetes_version import RETRIES_FOR_NODES
from tests.support.e2e.objects import gates, pod_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.e2e.workloads import DEPLOYMENT, JOB, work_body
from tests.support.paths import ROOT

pytestmark = pytest.mark.long

PAGE = (ROOT / "docs" / "operating" / "uninstall.md").read_text()
COMMANDS = re.findall(r"^ +\$ (.+)$", PAGE, re.MULTILINE)
DRY_RUN, REMOVE, REMOVE_DEFINITIONS = COMMANDS
#: Clients that create members side by side.
CREATORS = 4
LATE = {"late": "yes"}
MARKED_KINDS = "pods,deployments,replicasets,jobs,namespaces,podgroups.scheduling.volcano.sh"
OWN_KINDS = (
    "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,clusterroles,clusterrolebindings"
)


@pytest.fixture
def sandbox(new_cluster: NewCluster) -> Iterator[Sandbox]:
    made = Sandbox(new_cluster())
    yield made
    made.close()


@pytest.mark.parametrize("server", ["up", "gone"])
def test_nothing_is_left_and_what_waited_runs(sandbox: Sandbox, server: str) -> None:
    waiting = waiting_members(sandbox)
    forge_lease(sandbox)
    cluster = sandbox.cluster
    if server == "gone":
        cluster.signal_component("server", signal.SIGKILL)
        until(lambda: "server" not in cluster.pids, "the server to be gone")

    planned = typed(cluster, DRY_RUN)
    assert "mutatingwebhookconfigurations.admissionregistration.k8s.io/sluice deleted (dry run)" in planned
    assert "4 pods would be let go" in planned
    assert "2 workloads that a drain suspended, or brought to zero replicas, would be resumed" in planned
    assert well_known.GATE in gates(sandbox.read_pod("nowhere"))

    cluster.configure_scheduler(answered_by_nobody)
    removed = typed(cluster, REMOVE)
    assert "4 pods let go" in removed
    assert "2 workloads resumed" in removed
    sandbox.all_bound(waiting - {"late"})
    until(lambda: len(pods_of_drained(sandbox)) == 2, "the Job and the Deployment to have their pods again")
    sandbox.all_bound(pods_of_drained(sandbox))
    typed(cluster, f"kubectl label nodes --all {'='.join(*LATE.items())}")
    if not RETRIES_FOR_NODES:
        cluster.restart_components("kube-scheduler")  # instead of five minutes
    sandbox.all_bound(["late"])
    assert [marked for item in listed(cluster, MARKED_KINDS) for marked in marks(item)] == []
    assert [each["metadata"]["name"] for each in listed(cluster, OWN_KINDS) if "sluice" in str(each)] == []
    until(lambda: "sluice" not in typed(cluster, "kubectl get namespaces"), "its namespace to go")

    cluster.configure_scheduler(without_extenders)
    sandbox.pods("plain", 2)
    sandbox.all_bound(["plain-0", "plain-1"])
    assert not [name for name in ("plain-0", "plain-1") if "sluice" in str(sandbox.read_pod(name))]
    assert "volcano" in typed(cluster, "kubectl get customresourcedefinitions")
    typed(cluster, REMOVE_DEFINITIONS)
    until(lambda: "volcano" not in typed(cluster, "kubectl get customresourcedefinitions"), "them to go")


def test_no_creation_of_a_member_fails_meanwhile(sandbox: Sandbox) -> None:
    """Also while the API server has heard of the end of one kind of webhook and not of the other."""
    queue = sandbox.queue()
    until(lambda: sandbox.pod("probe", queue, dry=True).status == 201, "the queue to be known")
    ended = threading.Event()
    with ThreadPoolExecutor(CREATORS) as pool:
        tasks = [pool.submit(answers, sandbox, queue, ended) for _ in range(CREATORS)]
        try:
            typed(sandbox.cluster, REMOVE)
        finally:
            ended.set()
        assert [task.result() for task in tasks] == [{"201"}] * CREATORS


def answers(sandbox: Sandbox, queue: str, ended: threading.Event) -> set[str]:
    """Create one member after another, as dry runs: the webhooks are called all the same."""
    path = f"/api/v1/namespaces/{sandbox.namespace}/pods?dryRun=All"
    found = set()
    with Api(sandbox.cluster) as api:
        while not ended.is_set():
            answer = api.create(path, pod_body("created", queue))
            found.add(f"{answer.status} {answer.message}".strip())
    return found


def waiting_members(sandbox: Sandbox) -> set[str]:
    """One pod of each cause to wait: pending, stopped, of a queue that is missing, without room. And two
    workloads that are drained.

    Two pods have the gate by the stop, one by the missing queue and one by the quota; `late` has none, and no
    node fits it.
    """
    queue, drained = sandbox.queue(), sandbox.queue("drained")
    sandbox.api.patch(f"/api/v1/namespaces/{sandbox.namespace}", annotated(queue)).must()
    until(
        lambda: well_known.MARKER in str(sandbox.pod("late", dry=True).must().body),
        "the namespace to be known",
    )
    sandbox.pod("late", nodeSelector=LATE).must(201)
    sandbox.make(JOB, work_body(JOB, "train", drained)).must(201)
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "train-site", drained, replicas=1)).must(201)
    budget(sandbox, "site", {"app": "train-site"}, maxUnavailable=0)
    wait_for_running(sandbox, 2, "train-")
    sandbox.edit(drained, stopPolicy="HoldAndDrain")
    patch_with_deadline(sandbox, drained, seconds=2, afterDeadline="Scale")
    until(lambda: not pods_of_drained(sandbox), "the Job to be suspended, and the Deployment at zero")
    sandbox.suspend(queue)
    sandbox.make(DEPLOYMENT, work_body(DEPLOYMENT, "web", "", replicas=2)).must(201)
    sandbox.pod("nowhere", "no-such-queue").must(201)
    sandbox.pod("roomless", sandbox.queue("full", capability={"pods": "0"})).must(201)
    until(lambda: len(sandbox.waiting()) == 5, "all pods to wait")
    return sandbox.waiting()


def forge_lease(sandbox: Sandbox) -> None:
    """As who may write Leases in a namespace of users can: like a replica's, and without an end."""
    body = {
        "metadata": {"name": "sluice-replica-forged", "labels": {LABEL: "true"}},
        "spec": {
            "holderIdentity": "forged",
            "leaseDurationSeconds": 2**31 - 1,
            "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }
    sandbox.api.create(f"{COORDINATION}/namespaces/{sandbox.namespace}/leases", body).must(201)


def pods_of_drained(sandbox: Sandbox) -> set[str]:
    return {name for name in sandbox.read_pods() if name.startswith("train-")}


def annotated(queue: str) -> Object:
    return {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": queue}}}


def answered_by_nobody(configuration: SchedulerConfigBody) -> None:
    for extender in configuration["extenders"]:
        extender["ignorable"] = True


def marks(item: Object) -> list[str]:
    """The keys, gates and finalizers of ours on an object."""
    metadata = item["metadata"]
    keys = own_keys(metadata.get("labels"))
    keys += [key for key in own_keys(metadata.get("annotations")) if key not in FROM_TEMPLATES]
    keys += [each for each in metadata.get("finalizers") or () if "sluice" in each]
    return (
        keys + [gate for gate in gates(item) if gate in well_known.OWN_GATES]
        if item["kind"] == "Pod"
        else keys
    )


def listed(cluster: LocalCluster, kinds: str) -> list[Any]:
    items: list[Any] = json.loads(cluster.kubectl("get", kinds, "--all-namespaces", "-o", "json"))["items"]
    return items


def typed(cluster: LocalCluster, command: str) -> str:
    """What the shell prints, in the project's folder."""
    layout = cluster.layout
    path = f"{layout.bin}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "KUBECONFIG": str(layout.kubeconfig)}
    words = ["/bin/sh", "-c", command]
    done = subprocess.run(words, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert not done.returncode, f"{command}: {done.stderr}"
    return done.stdout
