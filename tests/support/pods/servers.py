"""The server's pods in a cluster with real nodes: which they are, how many, and which of them leads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from cluster.coordination.leader_election import LEASE_NAME
from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from localcluster.pods import installation
from tests.support.e2e.api_requests import Api
from tests.support.e2e.wait import until

DEPLOYMENT = f"deployment/{installation.NAME}"
IN_NAMESPACE = f"--namespace={NAMESPACE}"
#: A loaded machine is slow.
SECONDS = 180.0

Pod = dict[str, Any]


class Servers:
    """The Deployment `sluice`. It has no state of its own."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    def pods(self) -> dict[str, Pod]:
        """All pods of the server, those that end included."""
        items = self._get("pods", "--selector=app.kubernetes.io/name=sluice")["items"]
        return {pod["metadata"]["name"]: pod for pod in items}

    def live(self) -> dict[str, Pod]:
        """Those that are not to end."""
        return {name: pod for name, pod in self.pods().items() if "deletionTimestamp" not in pod["metadata"]}

    def node_of(self, pod: str) -> str:
        return str(self.pods()[pod]["spec"]["nodeName"])

    def leader(self) -> str:
        """The name of the pod that leads, once one of those that are there does."""

        def found() -> str:
            holder = self._get("lease", LEASE_NAME)["spec"].get("holderIdentity", "")
            return next((name for name in self.pods() if holder.startswith(name)), "")

        return until(found, "a leader", seconds=SECONDS)

    def scale(self, count: int) -> None:
        """Returns once so many are available, and the Service has no others; those may still be ending."""
        self.ask_for(count)
        self.wait(count)

    def ask_for(self, count: int) -> None:
        self._cluster.kubectl("scale", DEPLOYMENT, IN_NAMESPACE, f"--replicas={count}")

    def wait(self, count: int) -> None:
        installation.wait_for_rollout(self._cluster.layout)
        until(lambda: self._are_ready(count), f"{count} servers", seconds=SECONDS)

    def delete(self, name: str) -> None:
        """As an administrator does: the pod has its grace period. Returns once it is gone."""
        self._cluster.kubectl("delete", "pod", name, IN_NAMESPACE, f"--timeout={SECONDS:.0f}s")

    def restart(self) -> None:
        """Roll out anew; returns once the last of the old pods is gone."""
        old = self.live().keys()
        self._cluster.kubectl("rollout", "restart", DEPLOYMENT, IN_NAMESPACE)
        self.wait(len(old))
        until(lambda: not old & self.pods().keys(), "the old pods to end", seconds=SECONDS)

    def lead_from(self, node: str) -> None:
        """Returns once a pod on that node leads, and three of them are available, not all on that node."""
        nodes = [pod["spec"]["nodeName"] for pod in self.live().values()]
        if self.node_of(self.leader()) == node and len(nodes) == 3 and set(nodes) != {node}:
            return
        self.scale(1)
        [only] = self.live()
        if self.node_of(only) != node:
            with self.cordoned(self.node_of(only)):
                self._cluster.kubectl("delete", "pod", only, IN_NAMESPACE, "--wait=false")
                until(lambda: only not in self.live(), "the pod to end", seconds=SECONDS)
                self.wait(1)
        until(lambda: self.leader() in self.live(), "the one that stays to lead", seconds=SECONDS)
        self.scale(3)
        assert self.node_of(self.leader()) == node

    @contextmanager
    def cordoned(self, node: str) -> Iterator[None]:
        self._cluster.kubectl("cordon", node)
        try:
            yield
        finally:
            self._cluster.kubectl("uncordon", node)

    def _are_ready(self, count: int) -> bool:
        """So many are there and ready, and the Service knows them: what it does not know is not called."""
        pods = self.live()
        if len(pods) != count or not all(map(is_ready, pods.values())):
            return False
        addresses = {pod["status"]["podIP"] for pod in pods.values()}
        return self.addresses() == addresses and all(map(self._says_ready, pods.values()))

    def _says_ready(self, pod: Pod) -> bool:
        """By its own word: what its kubelet has last reported may be seconds old."""
        with Api(self._cluster) as api:
            return api.get(proxied_readiness(pod)).status == 200

    def addresses(self) -> set[str]:
        """Of the replicas that the Service sends callers to."""
        slices = self._get("endpointslices", f"--selector=kubernetes.io/service-name={installation.NAME}")
        return {
            address
            for each in slices["items"]
            for endpoint in each["endpoints"] or ()
            if endpoint["conditions"].get("ready")
            for address in endpoint["addresses"]
        }

    def _get(self, *arguments: str) -> dict[str, Any]:
        text = self._cluster.kubectl("get", *arguments, IN_NAMESPACE, "--output=json")
        content: dict[str, Any] = json.loads(text)
        return content


def proxied_readiness(pod: Pod) -> str:
    """The path at the API server by which the pod's readiness probe can be sent from outside."""
    [container] = pod["spec"]["containers"]
    probe = container["readinessProbe"]["httpGet"]
    port = next(each["containerPort"] for each in container["ports"] if each["name"] == probe["port"])
    target = f"{probe['scheme'].lower()}:{pod['metadata']['name']}:{port}"
    return f"/api/v1/namespaces/{NAMESPACE}/pods/{target}/proxy{probe['path']}"


def is_ready(pod: Pod) -> bool:
    return _ready(pod).get("status") == "True"


def seconds_to_start(pod: Pod) -> float:
    """From its creation until it was ready."""
    ready_at = datetime.fromisoformat(_ready(pod)["lastTransitionTime"])
    return (ready_at - datetime.fromisoformat(pod["metadata"]["creationTimestamp"])).total_seconds()


def _ready(pod: Pod) -> dict[str, Any]:
    conditions = pod["status"].get("conditions") or ()
    return next((each for each in conditions if each["type"] == "Ready"), {})
