"""The objects that the rows make, and the requests that make them. Values only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

Object = dict[str, Any]

#: The namespace of all that is measured.
HOME = "bench"
QUEUE = "research"
NAMED_BY = "scheduling.volcano.sh/queue-name"
#: On every pod that a row makes and clears away.
LABELS = {"bench": "load"}
MEMBER = "sluice.dev/member"

#: Of pods: their PodGroup.
GROUPED_BY = "scheduling.k8s.io/group-name"

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
JSON = "application/json"
MERGE = "application/merge-patch+json"


class Request(msgspec.Struct, frozen=True):
    """One write to the API server."""

    method: str
    path: str
    type: str = ""
    body: Object | None = None


def pods_path(namespace: str = HOME) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def pod(
    name: str, *, queue: str = "", labels: Mapping[str, str] = LABELS, cpu: str = "1m", **spec: Any
) -> Object:
    """A pod of the queue, or of none, that goes at once when it is told to."""
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "labels": dict(labels),
            "annotations": {NAMED_BY: queue} if queue else {},
        },
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
    }


def pods(count: int, *, prefix: str = "pod", queue: str = "", **more: Any) -> list[Object]:
    return [pod(f"{prefix}-{number}", queue=queue, **more) for number in range(count)]


def deployment(name: str, *, queue: str, replicas: int, **spec: Any) -> Object:
    """`spec`: more of the pods' spec."""
    template = pod("", queue=queue, labels={**LABELS, "app": name}, **spec)
    del template["metadata"]["name"], template["apiVersion"], template["kind"]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def queue(name: str, **spec: object) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def podgroups_path(namespace: str = HOME) -> str:
    return f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"


def podgroup(name: str, *, queue: str, least: int) -> Object:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"queue": queue, "minMember": least},
    }


def creations(path: str, bodies: Iterable[Object]) -> Iterator[Request]:
    return (Request("POST", path, JSON, body) for body in bodies)


def bindings(path: str, nodes: Mapping[str, str]) -> Iterator[Request]:
    """Of pods by their names to nodes by theirs."""
    for name, node in nodes.items():
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        yield Request("POST", f"{path}/{name}/binding", JSON, body)


def deletions(path: str, names: Iterable[str]) -> Iterator[Request]:
    """At once, whatever grace they have."""
    return (Request("DELETE", f"{path}/{name}?gracePeriodSeconds=0") for name in names)


def answered(found: Object) -> bool:
    """Whether the queue's present generation has been acted on, a stop acknowledged included."""
    return bool(condition(found, "Active").get("observedGeneration") == found["metadata"]["generation"])


def stopped(found: Object) -> bool:
    """Whether its stop, or an ancestor's, is acknowledged."""
    return bool(condition(found, "Active").get("status") == "False")


def condition(found: Object, kind: str) -> Object:
    held: list[Object] = found.get("status", {}).get("conditions", [])
    return next((each for each in held if each["type"] == kind), {})


def version(found: Object) -> str:
    return str(found["metadata"]["resourceVersion"])
