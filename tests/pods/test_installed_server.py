"""The manifests run as they are, in real pods: the server is Ready, and stops a queue."""

from __future__ import annotations

import json
from typing import Any

from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from localcluster.manifests import rendered
from queues.mode import Mode
from tests.support.pods.servers import Servers
from tests.support.pods.work import Work


def get(cluster: LocalCluster, *arguments: str) -> Any:
    return json.loads(cluster.kubectl("get", *arguments, "--output=json"))


def contains(live: Any, manifest: Any) -> bool:
    """Whether every field of the manifest is in the live object with the same value."""
    if isinstance(manifest, dict):
        return all(key in live and contains(live[key], value) for key, value in manifest.items())
    if isinstance(manifest, list):
        return len(live) == len(manifest) and all(map(contains, live, manifest))
    return bool(live == manifest)


def test_the_deployment_of_the_manifests_is_ready_without_a_change(pods_cluster: LocalCluster) -> None:
    """Restricted pod security, a read-only root, an unprivileged user, probes: all as in the file."""
    Servers(pods_cluster).wait(1)
    [manifest] = [each for each in rendered(pods_cluster.layout) if each["kind"] == "Deployment"]
    live = get(pods_cluster, "deployment", "sluice", f"--namespace={NAMESPACE}")
    assert contains(live["spec"], manifest["spec"])
    assert live["status"]["readyReplicas"] == 1


def test_its_pod_runs_on_a_real_node(pods_cluster: LocalCluster) -> None:
    """The kubelet has started a container, and says by which runtime."""
    [pod] = Servers(pods_cluster).live().values()
    [status] = pod["status"]["containerStatuses"]
    assert status["ready"]
    assert status["containerID"].startswith("containerd://")
    node = get(pods_cluster, "node", pod["spec"]["nodeName"])
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://")


def test_a_queue_is_stopped_resumed_and_drained(pods_cluster: LocalCluster) -> None:
    """Members wait with a gate, on no node, and run in real containers."""
    work = Work(pods_cluster)
    work.is_stopped_resumed_and_drained(Mode.EXTENDER)
    work.remove()
