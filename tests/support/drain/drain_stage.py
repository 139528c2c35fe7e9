"""Objects of the API that a drain meets, each in a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from kubectl_queue.access.client import ApiClient
from kubectl_queue.drain.inventory import InventoryReader
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.inventory import Inventory
from kubectl_queue.objects.queues import QueueObjects
from tests.support.readers.listed_objects import ListedObjects

_GROUPS = {
    "Job": "batch/v1",
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "ReplicaSet": "apps/v1",
    "Deployment": "apps/v1",
    "DaemonSet": "apps/v1",
}


def owner(kind: str, name: str, *, api_version: str = "", controller: bool = True) -> Object:
    found = {"apiVersion": api_version or _GROUPS[kind], "kind": kind, "name": name, "uid": f"uid-{name}"}
    return {**found, "controller": controller}


def pod(
    name: str,
    *,
    queue: str = "b",
    owned_by: Object | None = None,
    app: str = "",
    minute: int = 0,
    gang: str = "",
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Object:
    """A pod that runs and is ready."""
    annotations = {"sluice.dev/queue": queue, "scheduling.k8s.io/group-name": gang}
    return {
        "metadata": {
            "name": name,
            "namespace": "lab",
            "uid": f"uid-{name}",
            "creationTimestamp": f"2030-01-01T11:{minute:02}:00Z",
            "labels": {**({"app": app} if app else {}), **({"sluice.dev/queue": queue} if queue else {})},
            "annotations": {key: value for key, value in annotations.items() if value},
            "ownerReferences": [owned_by] if owned_by else [],
            **(metadata or {}),
        },
        "spec": {"nodeName": "one", **spec},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def work(
    name: str, *, queue: str = "b", owned_by: Object | None = None, phase: str = "", **spec: Any
) -> Object:
    references = [owned_by] if owned_by else []
    metadata = {"name": name, "namespace": "lab", "uid": f"uid-{name}", "ownerReferences": references}
    template = {"metadata": {"annotations": {"sluice.dev/queue": queue}}}
    status = {"state": {"phase": phase}} if phase else {}
    return {"metadata": metadata, "spec": {"template": template, **spec}, "status": status}


def budget(name: str, app: str, *, allowed: int, desired: int, healthy: int = 0) -> Object:
    return {
        "metadata": {"name": name, "namespace": "lab", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {
            "disruptionsAllowed": allowed,
            "desiredHealthy": desired,
            "currentHealthy": healthy or allowed + desired,
            "observedGeneration": 1,
        },
    }


class Stored(NamedTuple):
    """What an API server has, for the plugin to read. `forbidden`: resources that may not be read."""

    objects: tuple[Object, ...]
    forbidden: frozenset[str] = frozenset()

    def read(self, queues: QueueObjects, *, names: Iterable[str] = ("b",)) -> Inventory:
        api: Any = ListedObjects(self.objects, forbidden=self.forbidden)
        client = ApiClient(api, warn=no_warning)
        return InventoryReader(client, namespace=lambda: "lab", warn=lambda _text: None).read(
            queues, names=names
        )


def no_warning(text: str) -> None:
    raise AssertionError(text)


def stored(
    pods: Iterable[Object],
    *,
    budgeted: Iterable[Object] = (),
    jobs: Iterable[Object] = (),
    jobsets: Iterable[Object] = (),
    volcano_jobs: Iterable[Object] = (),
    scaled: Mapping[str, Iterable[Object]] = MappingProxyType({}),
    podgroups: Iterable[Object] = (),
    forbidden: Iterable[str] = (),
) -> Stored:
    """Workloads are of queue `b`; the DaemonSet `agent` is there."""
    agent = ("DaemonSet", [work("agent")])
    kinds: list[tuple[str, str, Iterable[Object]]] = [
        ("v1", "Pod", pods),
        ("policy/v1", "PodDisruptionBudget", budgeted),
        ("scheduling.volcano.sh/v1beta1", "PodGroup", podgroups),
        ("batch/v1", "Job", jobs),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", jobsets),
        ("batch.volcano.sh/v1alpha1", "Job", volcano_jobs),
        ("apps/v1", *agent),
        *(("apps/v1", _SCALED[key], those) for key, those in scaled.items()),
    ]
    objects = [
        {"apiVersion": version, "kind": kind, **each} for version, kind, those in kinds for each in those
    ]
    return Stored(tuple(objects), frozenset(forbidden))


_SCALED = {"deployments": "Deployment", "replicasets": "ReplicaSet", "statefulsets": "StatefulSet"}
