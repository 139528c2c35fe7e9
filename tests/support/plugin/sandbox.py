"""A namespace and queues of one test on a running cluster, and what waits in them."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from localcluster.cluster import LocalCluster
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until
from tests.support.plugin.harness import plugin_in_process

Object = dict[str, Any]
NAMED_BY = "scheduling.volcano.sh/queue-name"
#: More than any node has: it waits for another reason than its queue.
HUGE = {"requests": {"cpu": "9999"}}


class PluginSandbox:
    """A namespace and queues of one test, which end with it but for the empty namespace.

    What the command is not tried on is done by requests: a process costs a hundred of them.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.direct = Sandbox(cluster)
        self.namespace = self.direct.namespace

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command in this process."""
        return plugin_in_process(*words, kubeconfig=self.cluster.client_kubeconfig)

    def done(self, *words: str) -> str:
        """What it prints, having succeeded."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def why(self, *words: str) -> str:
        return self.done("why", *words, "-n", self.namespace)

    def told(self, *words: str) -> Object:
        found: Object = json.loads(self.why(*words, "-ojson"))
        return found

    def queue(self, short: str, *flags: str) -> str:
        """A queue that has been acknowledged; with flags the command makes it."""
        if not flags:
            return self.direct.queue(short)
        name = self.direct.named(short)
        self.done("create", name, "--wait", *flags)
        self.direct.queue_names.append(name)
        return name

    def make(self, *objects: Object) -> None:
        for each in objects:
            self.direct.api.create(self.path(each["apiVersion"], f"{each['kind'].lower()}s"), each).must(201)

    def path(self, version: str, resource: str, name: str = "") -> str:
        """Of the objects of this kind in the namespace, or of the one of that name."""
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        return f"{root}/namespaces/{self.namespace}/{resource}" + (f"/{name}" if name else "")

    def patch(self, queue: str, **spec: Any) -> None:
        self.direct.patch_queue(queue, **spec).must()

    def clear(self) -> None:
        self.direct.clear()
        self.direct.close()


def pod(name: str, queue: str = "", **annotations: str) -> Object:
    named = {NAMED_BY: queue} if queue else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {**named, **annotations}},
        "spec": {"containers": [{"name": "work", "image": "none", "resources": HUGE}]},
    }


def workload(kind: str, api_version: str, name: str, queue: str, **spec: Any) -> Object:
    """One whose pods fit nowhere; the template names the queue."""
    labels = {"app": name}
    template = pod("x", queue)
    template["metadata"] = {"annotations": template["metadata"]["annotations"], "labels": labels}
    del template["apiVersion"], template["kind"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {**spec, "template": template},
    }


def pod_of(sandbox: PluginSandbox, name: str) -> str:
    """A pod of the workload, as `pod/x`, once there is one."""
    path = f"{sandbox.direct.pods_path}?labelSelector=app={name}"
    (first, *_) = until(lambda: sandbox.direct.api.get(path).must().body["items"], f"a pod of {name}")
    return f"pod/{first['metadata']['name']}"
