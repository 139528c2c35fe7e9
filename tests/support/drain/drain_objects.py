"""Work that runs in the queues of one test, and budgets over it."""

from __future__ import annotations

import os
import pty
import subprocess
from typing import Any

from tests.support.drain.draining import wait_for_allowed
from tests.support.e2e.wait import until
from tests.support.plugin.harness import PLUGIN
from tests.support.plugin.sandbox import (
    Object,
    PluginSandbox,
    pod,
    workload,
)


def small(made: Object) -> Object:
    """The same with pods that fit on a node."""
    template = made["spec"].get("template", made)
    for container in template["spec"]["containers"]:
        del container["resources"]
    return made


def bare(name: str, queue: str, **labels: str) -> Object:
    made = small(pod(name, queue))
    made["metadata"]["labels"] = {"app": name, **labels}
    return made


def deployment(name: str, queue: str, *, replicas: int) -> Object:
    selector = {"matchLabels": {"app": name}}
    return small(workload("Deployment", "apps/v1", name, queue, selector=selector, replicas=replicas))


def job(name: str, queue: str, *, pods: int) -> Object:
    made = small(workload("Job", "batch/v1", name, queue, parallelism=pods, completions=pods))
    made["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    return made


def budget(name: str, **spec: Any) -> Object:
    """Over the pods of the workload of the same name."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


def runs(sandbox: PluginSandbox, thing: str, pods: int = 1) -> None:
    """Returns once the pod `pod/x` is ready, or so many pods of the workload `deploy/x` or `job/x`."""
    kind, _, name = thing.partition("/")
    until(lambda: _READY[kind](sandbox, name) == pods, f"{pods} pods of {thing} to be ready")


def _is_ready(sandbox: PluginSandbox, name: str) -> int:
    conditions = sandbox.direct.read_pod(name)["status"].get("conditions", ())
    return sum((each["type"], each["status"]) == ("Ready", "True") for each in conditions)


def _ready_replicas(sandbox: PluginSandbox, name: str) -> int:
    return int(_status(sandbox, "apps/v1", "deployments", name).get("readyReplicas", 0))


def _ready_in_job(sandbox: PluginSandbox, name: str) -> int:
    return int(_status(sandbox, "batch/v1", "jobs", name).get("ready", 0))


_READY = {"pod": _is_ready, "deploy": _ready_replicas, "job": _ready_in_job}


def _status(sandbox: PluginSandbox, version: str, resource: str, name: str) -> Object:
    status: Object = (
        sandbox.direct.api.get(sandbox.path(version, resource, name)).must().body.get("status", {})
    )
    return status


def allowed(sandbox: PluginSandbox, name: str, number: int) -> None:
    """Returns once the budget allows so many of its pods to go."""
    path = sandbox.path("policy/v1", "poddisruptionbudgets", name)
    wait_for_allowed(sandbox.direct, path, number)


def running(sandbox: PluginSandbox) -> set[str]:
    """The pods on nodes that are not on their way."""
    return {
        name
        for name, pod in sandbox.direct.read_pods().items()
        if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]
    }


def spec(sandbox: PluginSandbox, queue: str) -> Object:
    found: Object = sandbox.direct.read_queue(queue)["spec"]
    return found


def at_a_terminal(sandbox: PluginSandbox, *words: str, typed: str) -> tuple[int, str]:
    """The exit code, and all that is seen of the command by whoever types this."""
    ours, theirs = pty.openpty()
    environ = {"PATH": os.environ["PATH"], "KUBECONFIG": str(sandbox.cluster.client_kubeconfig)}
    os.write(ours, typed.encode())
    with subprocess.Popen(
        [PLUGIN, *words], env=environ, stdin=theirs, stdout=theirs, stderr=theirs
    ) as command:
        os.close(theirs)
        seen = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
        return command.wait(60), seen.decode()


def _read(terminal: int) -> bytes:
    """What was written meanwhile; nothing once nobody writes any more."""
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""
