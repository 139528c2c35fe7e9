"""Work of a user on real nodes: a queue, a namespace whose pods are its members, and a Deployment there."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from localcluster.pods import images
from queues.mode import Mode
from tests.support.e2e.modes import mode_of
from tests.support.e2e.objects import GATE, gates
from tests.support.e2e.wait import until

QUEUE = "scheduling.volcano.sh/queue-name"
#: A loaded machine is slow.
SECONDS = 180.0

Pod = dict[str, Any]


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
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def uninstall(cluster: LocalCluster, *flags: str) -> None:
    """Remove the server. Returns once its last pod has ended, and its namespace, if that is ours, is gone."""
    plugin(cluster, "uninstall", "--yes", *flags)
    # Nobody calls them any more: no need to wait until they have served on for their whole grace period.
    at_once = ("--grace-period=1", "--wait=false")
    cluster.kubectl("delete", "pods", "--all", f"--namespace={NAMESPACE}", *at_once)

    def ended() -> bool:
        namespace = cluster.kubectl("get", "namespace", NAMESPACE, "--ignore-not-found")
        pods = cluster.kubectl("get", "pods", f"--namespace={NAMESPACE}", "--output=name")
        return "Terminating" not in namespace and not pods

    until(ended, "the server's pods to end", seconds=SECONDS)


class Work:
    """`name` is that of the queue and of the namespace. The Deployment has two pods, with real containers."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self.name = f"work-{secrets.token_hex(3)}"
        plugin(cluster, "create", self.name)
        cluster.kubectl("create", "namespace", self.name)
        cluster.kubectl("annotate", "namespace", self.name, f"{QUEUE}={self.name}")
        account = ("serviceaccount/default", self._namespace, f"--timeout={SECONDS:.0f}s")
        cluster.kubectl("wait", "--for=create", *account)  # without it no pod can be created

    @property
    def _namespace(self) -> str:
        return f"--namespace={self.name}"

    def queue(self, verb: str, *flags: str) -> None:
        """`kubectl queue VERB`, with this queue."""
        plugin(self._cluster, verb, self.name, *flags)

    def create(self) -> None:
        deployment = ("deployment", "work", self._namespace)
        self._cluster.kubectl("create", *deployment, f"--image={images.PAUSE}", "--replicas=2")

    def pods(self) -> list[Pod]:
        """Those that are not to end."""
        text = self._cluster.kubectl("get", "pods", self._namespace, "--output=json")
        pods: list[Pod] = json.loads(text)["items"]
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def wait_until_gated(self) -> None:
        """Returns once both are there, behind our gate and on no node."""

        def gated() -> bool:
            pods = self.pods()
            return len(pods) == 2 and all(gates(pod) == [GATE] for pod in pods)

        until(gated, "the pods of the stopped queue", seconds=SECONDS)
        assert not any("nodeName" in pod["spec"] for pod in self.pods())

    def wait_until_running(self) -> None:
        def running() -> bool:
            return [pod["status"]["phase"] for pod in self.pods()] == ["Running"] * 2

        until(running, "both pods to run", seconds=SECONDS)

    def is_stopped_resumed_and_drained(self, mode: Mode) -> None:
        """Created while its queue is suspended; each is awaited until it is acknowledged and done."""
        self.queue("suspend", "--wait")
        self.create()
        self.wait_until_gated()
        assert {mode_of(pod) for pod in self.pods()} == {mode}
        self.queue("resume")
        self.wait_until_running()
        self.queue("drain", "--wait", f"--timeout={SECONDS:.0f}s")
        self.wait_until_gated()
        self.queue("resume")
        self.wait_until_running()

    def remove(self) -> None:
        """The pods end by themselves; the queue stays, for it cannot be deleted before they are gone."""
        self._cluster.kubectl("delete", "namespace", self.name, "--wait=false")
