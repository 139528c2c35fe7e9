"""Every kind of object that is in a queue, in each way in which its user may name that, and asking for it."""

from __future__ import annotations

from typing import Any

from tests.support.http.asking import Said, Server
from tests.support.http.wire_objects import (
    NAMED,
    Wire,
    pod,
    podgroup,
    resource_of,
    template,
    workload,
)
from tests.support.webhooks.workload_requests import LABEL, QUEUE


def path_of(obj: Wire) -> str:
    places = {"Pod": "/mutate/pods", "PodGroup": "/mutate/podgroups", "Namespace": "/mutate/namespaces"}
    return places.get(obj["kind"], "/mutate/workloads")


def ask(server: Server, obj: Wire, **request: Any) -> Said:
    resource = {"Pod": "pods", "PodGroup": "podgroups.scheduling.volcano.sh", "Namespace": "namespaces"}
    kind = resource.get(obj["kind"]) or resource_of(obj)
    where = obj["metadata"].get("namespace", "")
    return server.ask(path_of(obj), obj, **{"resource": kind, "namespace": where, **request})


def in_queue(kind: str, name: str, where: str = "team") -> list[tuple[str, Wire]]:
    """A new object of a kind that names the queue, in each way that there is."""
    if kind == "pods":
        return [
            ("annotation", pod(annotations={NAMED: name}, namespace=where)),
            ("label", pod(labels={LABEL: name}, namespace=where)),
            ("annotation of the label's name", pod(annotations={LABEL: name}, namespace=where)),
            ("written by its user", pod(annotations={QUEUE: "research", NAMED: name}, namespace=where)),
        ]
    if kind == "podgroups":
        return [("spec.queue", podgroup("gang", queue=name, namespace=where))]
    named = [
        ("template", workload(kind, "x", template({NAMED: name}), namespace=where)),
        ("label of the template", workload(kind, "x", template(labels={LABEL: name}), namespace=where)),
        ("itself", workload(kind, "x", annotations={NAMED: name}, namespace=where)),
    ]
    if kind == "jobs.batch.volcano.sh":
        named.append(("spec.queue", workload(kind, "x", queue=name, namespace=where)))
    return named
