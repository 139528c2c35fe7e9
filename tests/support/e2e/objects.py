"""The objects that these tests make, and what they read off those they get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.e2e.api_requests import Object

GATE = "sluice.dev/queue"
#: A gate of the test's own: the pod is there, and nobody looks at it until the gate is taken off.
OWN_GATE = "tests.sluice.dev/later"
#: The annotation of kwok's sandbox: the pod completes this long after it runs.
COMPLETES = "pod-complete.stage.kwok.x-k8s.io/delay"
#: The annotation of kwok's sandbox: the pod ends only when its grace period is over.
IGNORES_SIGTERM = "pod-kill.stage.kwok.x-k8s.io/ignores-sigterm"
NAMED_BY = "scheduling.volcano.sh/queue-name"
GROUPED_BY = "scheduling.k8s.io/group-name"
QUEUE_VERSION = "scheduling.volcano.sh/v1beta1"
NO_UID = "00000000-0000-0000-0000-000000000000"


def pod_body(
    name: str,
    queue: str = "",
    *,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    gated: bool = False,
    cpu: str = "",
    finalizers: Sequence[str] = (),
    **spec: Any,
) -> Object:
    """A pod of the queue, or of none; `gated` with the test's own gate."""
    named = {NAMED_BY: queue} if queue else {}
    container: Object = {"name": "work", "image": "none"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    held: Object = {"schedulingGates": [{"name": OWN_GATE}]} if gated else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": {**named, **(annotations or {})},
            "labels": dict(labels or {}),
            "finalizers": list(finalizers),
        },
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **held, **spec},
    }


def queue_body(name: str, **spec: object) -> Object:
    return {"apiVersion": QUEUE_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def podgroup_body(name: str, queue: str, **more: object) -> Object:
    spec = {**({"queue": queue} if queue else {}), "minMember": 1, **more}
    return {"apiVersion": QUEUE_VERSION, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def command_body(name: str, action: str, *, queue: str, uid: str, **metadata: Any) -> Object:
    target = {"apiVersion": QUEUE_VERSION, "kind": "Queue", "name": queue, "uid": uid}
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": name, **metadata},
        "action": action,
        "target": target,
    }


def binding_body(name: str, namespace: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-0"},
    }


# Queues


def state_of(queue: Object) -> str:
    return str(queue.get("status", {}).get("state", ""))


def condition(queue: Object, kind: str) -> Object:
    """One condition of a queue, or of another object; empty where it has not been written."""
    held = queue.get("status", {}).get("conditions", [])
    return next((each for each in held if each["type"] == kind), {})


def is_answered(queue: Object) -> bool:
    """Whether its present generation is acted on, stops acknowledged included."""
    generation = queue["metadata"]["generation"]
    return bool(
        queue.get("status", {}).get("observedGeneration") == generation
        and condition(queue, "Active").get("observedGeneration") == generation
    )


def is_active(queue: Object) -> bool:
    return condition(queue, "Active").get("status") == "True"


def is_stopped(queue: Object) -> bool:
    return condition(queue, "Active").get("status") == "False"


def waits_for(queue: Object) -> str:
    """What its stop waits for, in the words of its status; "" before it has waited for two seconds."""
    return str((queue.get("status", {}).get("stop") or {}).get("waitingFor", ""))


def is_decided(queue: Object) -> bool:
    """Whether its stop is acknowledged, or says what it waits for."""
    return is_stopped(queue) or bool(waits_for(queue))


def history(queue: Object) -> list[tuple[str, str, str, str]]:
    """Its changes as (by, field, from, to)."""
    lines = queue["status"].get("changes", [])
    return [(line["by"], line["field"], line.get("from", ""), line.get("to", "")) for line in lines]


def suspended_text(queue: str, *, by: str = "", reason: str = "") -> str:
    """What a pod of a suspended queue says, everywhere."""
    which = f'"{by}"' if by else "it"
    return f"{_suspended(queue, by, reason)}; an admin of queues can resume {which}"


def suspended_condition(queue: str, *, by: str = "") -> str:
    """What the queue itself says, to those who may resume it."""
    return f"{_suspended(queue, by)}; resume it with: kubectl queue resume {by or queue}"


def _suspended(queue: str, by: str, reason: str = "") -> str:
    ancestor = f' by its ancestor "{by}"' if by else ""
    why = f" ({reason})" if reason else ""
    return f'queue "{queue}" is Suspended{ancestor}{why}'


# Pods


def on_a_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


def gates(pod: Object) -> list[str]:
    return [each["name"] for each in pod["spec"].get("schedulingGates", [])]


def why(pod: Object) -> str:
    """What its PodScheduled condition says."""
    held = pod["status"].get("conditions", [])
    return next((str(each.get("message", "")) for each in held if each["type"] == "PodScheduled"), "")


def version(obj: Object) -> int:
    """Where the write of this state stands in the order of all writes: etcd counts them together."""
    return int(obj["metadata"]["resourceVersion"])


def cpu_used(queue: Object) -> int:
    """What its status says that it uses, in whole CPUs; 0 as long as it says nothing."""
    return int(queue["status"].get("quota", {}).get("used", {}).get("cpu", 0))
