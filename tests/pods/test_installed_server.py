"""The manifests run as they are, in real pods: the server is Ready, and stops a queue."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE, until
from localcluster.manifests import rendered
from localcluster.pods import images

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
