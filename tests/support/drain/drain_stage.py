"""Objects of the API that a drain meets, each in a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.running_pods import Inventory, SuspendableWorkloads, inventory, read_budgets

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
            "labels": {"app": app} if app else {},
            "annotations": {key: value for key, value in annotations.items() if value},
            "ownerReferences": [owned_by] if owned_by else [],
            **(metadata or {}),
        },
        "spec": {"nodeName": "one", **spec},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def work(name: str, *, owned_by: Object | None = None, phase: str = "", **spec: Any) -> Object:
    references = [owned_by] if owned_by else []
    metadata = {"name": name, "namespace": "lab", "uid": f"uid-{name}", "ownerReferences": references}
    return {"metadata": metadata, "spec": spec, "status": {"state": {"phase": phase}} if phase else {}}


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


def inventory_of(
    pods: Iterable[Object],
    *,
    budgeted: Iterable[Object] = (),
    jobs: Iterable[Object] = (),
    jobsets: Iterable[Object] = (),
    volcano_jobs: Iterable[Object] = (),
    scaled: Mapping[str, Iterable[Object]] = MappingProxyType({}),
    podgroups: Iterable[Object] = (),
) -> Inventory:
    """What would be read of them."""
    return inventory(
        pods,
        queue=lambda each: str(each["metadata"]["annotations"].get("sluice.dev/queue", "")),
        workloads=SuspendableWorkloads(
            {"jobs": jobs, "jobsets": jobsets, "jobs.batch.volcano.sh": volcano_jobs, **scaled}
        ),
        budgets=read_budgets(budgeted),
        podgroups=podgroups,
    )
