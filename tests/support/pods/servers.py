"""The server's pods in a cluster with real nodes: which they are, how many, and which of them leads."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from cluster.coordination.leader_election import LEASE_NAME
from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from localcluster.pods import installation
from tests.support.e2e.api_requests import Api, Object, watched
from tests.support.e2e.wait import until
from tests.support.pods.faults import service_targets

DEPLOYMENT = f"deployment/{installation.NAME}"
IN_NAMESPACE = f"--namespace={NAMESPACE}"
#: Of our own kube-schedulers, one in each pod.
SCHEDULERS_LEASE = "sluice-scheduler"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
OF_SERVICE = {"kubernetes.io/service-name": installation.NAME}
#: A loaded machine is slow.
SECONDS = 180.0
#: How often three replicas are spread with the leader where it is wanted.
TRIES = 3

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

    def wait_for_only(self, count: int) -> None:
        """Returns once there are so many and no other, not even one that ends and still answers."""
        self.wait(count)
        until(lambda: len(self.pods()) == count, "the former pods to end", seconds=SECONDS)

    def apply(self, folder: Path, count: int) -> None:
        """As an administrator does; returns once so many of what is in the folder are available.

        The folder counts, whatever `kubectl scale` has written.
        """
        self._cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(folder))
        self.wait(count)

    def scheduler(self) -> str:
        """The identity of the kube-scheduler that leads or led last: its pod's name and its process's."""
        return str(self._get("lease", SCHEDULERS_LEASE)["spec"].get("holderIdentity") or "")

    def scheduling(self) -> str:
        """The name of the pod whose kube-scheduler leads (mode `scheduler`)."""

        def found() -> str:
            holder = self.scheduler()
            return next((name for name in self.pods() if holder.startswith(name)), "")

        return until(found, "a kube-scheduler of ours that leads", seconds=SECONDS)

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
        for _ in range(TRIES):  # the lead may move while two more replicas start
            self._spread_from(node)
            if self.node_of(self.leader()) == node:
                return
        raise AssertionError(f"another node than {node} leads each time that two replicas are added")

    def _spread_from(self, node: str) -> None:
        """Have one replica, on that node, and two more once it leads."""
        self.scale(1)
        [only] = self.live()
        if self.node_of(only) != node:
            with self.cordoned(self.node_of(only)):
                self._cluster.kubectl("delete", "pod", only, IN_NAMESPACE, "--wait=false")
                until(lambda: only not in self.live(), "the pod to end", seconds=SECONDS)
                self.wait(1)
        until(lambda: self.leader() in self.live(), "the one that stays to lead", seconds=SECONDS)
        self.scale(3)

    @contextmanager
    def cordoned(self, node: str) -> Iterator[None]:
        self._cluster.kubectl("cordon", node)
        try:
            yield
        finally:
            self._cluster.kubectl("uncordon", node)

    def _are_ready(self, count: int) -> bool:
        """So many are there and ready, and they are those that callers of the Service are sent to."""
        pods = self.live()
        if len(pods) != count or not all(map(is_ready, pods.values())):
            return False
        addresses = {pod["status"]["podIP"] for pod in pods.values()}
        called = self.addresses(), service_targets(self._cluster)
        return called == (addresses, addresses) and all(map(self._says_ready, pods.values()))

    def _says_ready(self, pod: Pod) -> bool:
        """By its own word: what its kubelet has last reported may be seconds old."""
        with Api(self._cluster) as api:
            return api.get(proxied_readiness(pod)).status == 200

    def addresses(self) -> set[str]:
        """Of the replicas that the Service sends callers to."""
        slices = self._read_slices()["items"]
        return {address for each in slices if _is_of_service(each) for address in _ready_addresses(each)}

    def endpoints_version(self) -> str:
        """For `wait_until_not_called`."""
        return str(self._read_slices()["metadata"]["resourceVersion"])

    def wait_until_not_called(self, pod: Pod, *, since: str) -> None:
        """Returns once the Service has left the pod's address out after that version, and no caller is sent
        there any more. A container that has died is soon started again, and then the address is back.
        """
        address = pod["status"]["podIP"]
        self._wait_until_left_out(address, since=since)
        until(
            lambda: address not in service_targets(self._cluster) or address in self.addresses(),
            "kube-proxy to hear of it",
            seconds=SECONDS,
        )

    def _wait_until_left_out(self, address: str, *, since: str) -> None:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with suppress(OSError), closing(watched(self._cluster, SLICES, since=since)) as changes:
                for each in changes:
                    since = each["metadata"]["resourceVersion"]
                    if _is_of_service(each) and address not in _ready_addresses(each):
                        return
        raise AssertionError(f"waited {SECONDS:.0f} s for the Service to leave {address} out")

    def _read_slices(self) -> Object:
        with Api(self._cluster) as api:
            return api.get(SLICES).must().body

    def _get(self, *arguments: str) -> dict[str, Any]:
        text = self._cluster.kubectl("get", *arguments, IN_NAMESPACE, "--output=json")
        content: dict[str, Any] = json.loads(text)
        return content


def proxied_readiness(pod: Pod) -> str:
    """The path at the API server by which the pod's readiness probe can be sent from outside."""
    container = next(each for each in pod["spec"]["containers"] if each["name"] == "sluice")
    probe = container["readinessProbe"]["httpGet"]
    port = next(each["containerPort"] for each in container["ports"] if each["name"] == probe["port"])
    target = f"{probe['scheme'].lower()}:{pod['metadata']['name']}:{port}"
    return f"/api/v1/namespaces/{NAMESPACE}/pods/{target}/proxy{probe['path']}"


def _is_of_service(endpoint_slice: Object) -> bool:
    return bool(OF_SERVICE.items() <= endpoint_slice["metadata"]["labels"].items())


def _ready_addresses(endpoint_slice: Object) -> set[str]:
    return {
        address
        for endpoint in endpoint_slice["endpoints"] or ()
        if endpoint["conditions"].get("ready")
        for address in endpoint["addresses"]
    }


def is_ready(pod: Pod) -> bool:
    return _ready(pod).get("status") == "True"


def seconds_to_start(pod: Pod) -> float:
    """From its creation until it was ready, at most: both times are cut to whole seconds."""
    ready_at = datetime.fromisoformat(_ready(pod)["lastTransitionTime"])
    created_at = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
    return (ready_at - created_at).total_seconds() + 1.0


def _ready(pod: Pod) -> dict[str, Any]:
    conditions = pod["status"].get("conditions") or ()
    return next((each for each in conditions if each["type"] == "Ready"), {})
