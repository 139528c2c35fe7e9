"""The manifests run as they are, in real pods: the server is Ready, stops a queue, and restarts unseen."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE, until
from localcluster.manifests import rendered
from localcluster.pods import images, installation

QUEUE = "scheduling.volcano.sh/queue-name"
#: A loaded machine is slow.
SECONDS = 120.0
NUMBERS = itertools.count()


def get(cluster: LocalCluster, *arguments: str) -> Any:
    return json.loads(cluster.kubectl("get", *arguments, "--output=json"))


def plugin(cluster: LocalCluster, *arguments: str) -> str:
    """What `kubectl queue` prints."""
    path = os.pathsep.join((str(cluster.layout.bin), os.environ["PATH"]))
    done = subprocess.run(
        [str(Path(sys.executable).with_name("kubectl-queue")), *arguments],
        env={**os.environ, "PATH": path, "KUBECONFIG": str(cluster.client_kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def member(name: str, namespace: str) -> dict[str, Any]:
    containers = [{"name": "pause", "image": images.PAUSE}]
    spec = {"terminationGracePeriodSeconds": 0, "containers": containers}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


@pytest.fixture
def members(pods_cluster: LocalCluster) -> Iterator[str]:
    """A new namespace whose pods are members of the open queue of the same name."""
    name = f"members-{next(NUMBERS)}"
    plugin(pods_cluster, "create", name)
    pods_cluster.kubectl("create", "namespace", name)
    pods_cluster.kubectl("annotate", "namespace", name, f"{QUEUE}={name}")
    account = ("serviceaccount/default", f"--namespace={name}", f"--timeout={SECONDS:.0f}s")
    pods_cluster.kubectl("wait", "--for=create", *account)  # without it no pod can be created
    yield name
    pods_cluster.kubectl("delete", "namespace", name, "--wait=false")


def contains(live: Any, manifest: Any) -> bool:
    """Whether every field of the manifest is in the live object with the same value."""
    if isinstance(manifest, dict):
        return all(key in live and contains(live[key], value) for key, value in manifest.items())
    if isinstance(manifest, list):
        return len(live) == len(manifest) and all(map(contains, live, manifest))
    return bool(live == manifest)


def test_the_deployment_of_the_manifests_is_ready_without_a_change(pods_cluster: LocalCluster) -> None:
    """Restricted pod security, a read-only root, an unprivileged user, probes: all as in the file."""
    [manifest] = [each for each in rendered(pods_cluster.layout) if each["kind"] == "Deployment"]
    live = get(pods_cluster, "deployment", "sluice", f"--namespace={NAMESPACE}")
    assert contains(live["spec"], manifest["spec"])
    assert live["status"]["readyReplicas"] == 1


def test_its_pod_runs_on_a_real_node(pods_cluster: LocalCluster) -> None:
    """The kubelet has started a container, and says by which runtime."""
    [pod] = get(pods_cluster, "pods", f"--namespace={NAMESPACE}")["items"]
    [status] = pod["status"]["containerStatuses"]
    assert status["ready"]
    assert status["containerID"].startswith("containerd://")
    node = get(pods_cluster, "node", pod["spec"]["nodeName"])
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")


def test_pods_of_a_suspended_queue_run_once_it_is_resumed(pods_cluster: LocalCluster, members: str) -> None:
    """While it is suspended they wait with a gate, on no node; after it they run in real containers."""
    plugin(pods_cluster, "suspend", members, "--wait")
    deployment = ("deployment", "work", f"--namespace={members}")
    pods_cluster.kubectl("create", *deployment, f"--image={images.PAUSE}", "--replicas=2")

    def pods() -> list[Any]:
        items: list[Any] = get(pods_cluster, "pods", f"--namespace={members}")["items"]
        return items

    until(lambda: len(pods()) == 2, what="the pods of the suspended queue", seconds=SECONDS)
    assert all(pod["spec"].get("schedulingGates") for pod in pods())
    assert not any("nodeName" in pod["spec"] for pod in pods())
    plugin(pods_cluster, "resume", members)
    pods_cluster.kubectl("rollout", "status", *deployment, f"--timeout={SECONDS:.0f}s")
    assert [pod["status"]["phase"] for pod in pods()] == ["Running", "Running"]


def test_a_rolling_restart_of_three_replicas_fails_no_creation_of_a_member(
    pods_cluster: LocalCluster, members: str
) -> None:
    """Members are created all the while, until the last of the old pods is gone."""
    with replicas(pods_cluster, 3):
        old = names_of_servers(pods_cluster)
        assert len(old) == 3
        with creating(pods_cluster, members) as answers:
            until(lambda: len(answers) > 0, what="the first member", seconds=SECONDS)
            pods_cluster.kubectl("rollout", "restart", "deployment/sluice", f"--namespace={NAMESPACE}")
            installation.wait_for_rollout(pods_cluster.layout)
            until(lambda: not old & names_of_servers(pods_cluster), what="old pods to end", seconds=SECONDS)
            during = len(answers)
            until(lambda: len(answers) > during + 5, what="members after the restart", seconds=SECONDS)
    assert [answer for answer in answers if answer != 201] == []
    assert during > 20


def names_of_servers(cluster: LocalCluster) -> set[str]:
    return {pod["metadata"]["name"] for pod in get(cluster, "pods", f"--namespace={NAMESPACE}")["items"]}


@contextmanager
def replicas(cluster: LocalCluster, count: int) -> Iterator[None]:
    """With so many, all available; afterwards with one again, as in the manifests."""
    scale(cluster, count)
    yield
    scale(cluster, 1)


def scale(cluster: LocalCluster, count: int) -> None:
    cluster.kubectl("scale", "deployment/sluice", f"--namespace={NAMESPACE}", f"--replicas={count}")
    installation.wait_for_rollout(cluster.layout)
    until(lambda: len(names_of_servers(cluster)) == count, what=f"{count} servers", seconds=SECONDS)


@contextmanager
def creating(cluster: LocalCluster, namespace: str) -> Iterator[list[int | str]]:
    """Create members (as dry runs: the webhooks are called all the same), one after another.

    Gives the status of each, or what is wrong.
    """
    answers: list[int | str] = []
    stop = threading.Event()

    def create() -> None:
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        with cluster.api() as api:
            while not stop.wait(0.02):  # kind to the machine; and each of them may meet another replica
                reply = api.request("POST", path, member("m", namespace))
                answers.append(reply.status if reply.status == 201 else reply.body.decode())

    thread = threading.Thread(target=create, name="creating-members")
    thread.start()
    try:
        yield answers
    finally:
        stop.set()
        thread.join()
