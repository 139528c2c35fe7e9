"""Kubernetes objects as they come on the wire: plain dicts, for a test to change at will."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from queues.workload_kinds import KINDS

Wire = dict[str, Any]

GROUP = "scheduling.k8s.io/group-name"
NAMED = "scheduling.volcano.sh/queue-name"
CREATED = "2029-12-31T12:00:00Z"


def meta(name: str, *, version: int = 1, uid: str | None = None, **more: Any) -> Wire:
    return {
        "name": name,
        "uid": f"uid-{name}" if uid is None else uid,
        "resourceVersion": str(version),
        "creationTimestamp": CREATED,
        **more,
    }


def queue(
    name: str,
    *,
    version: int = 1,
    generation: int = 1,
    status: Mapping[str, object] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: object,
) -> Wire:
    """A Queue under `root` unless told otherwise; `spec` is written as it is given."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": meta(
            name,
            version=version,
            generation=generation,
            **_maps(annotations, None),
        ),
        "spec": {"parent": "root", "state": "Open", **spec},
        "status": dict(status or {}),
    }


def pod(
    name: str = "work",
    *,
    namespace: str = "team",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    gates: Sequence[str] | None = None,
    owner: Wire | None = None,
    version: int = 1,
    uid: str | None = None,
    status: Mapping[str, object] | None = None,
    resources: object = None,
    **spec: object,
) -> Wire:
    """A pod with one container; maps that are not given are left out, as the API server does."""
    container: Wire = {"name": "main", "image": "none"}
    if resources is not None:
        container["resources"] = resources
    more: Wire = {"namespace": namespace}
    if annotations is not None:
        more["annotations"] = dict(annotations)
    if labels is not None:
        more["labels"] = dict(labels)
    if owner is not None:
        more["ownerReferences"] = [owner]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(name, version=version, uid=uid, **more),
        "spec": {
            "containers": [container],
            "schedulerName": "default-scheduler",
            **({} if gates is None else {"schedulingGates": [{"name": gate} for gate in gates]}),
            **spec,
        },
        "status": {"phase": "Pending", **(status or {})},
    }


def policies(**texts: str) -> Wire:
    """The ConfigMap with the scheduling policies; `common`: the one for everybody."""
    common = texts.pop("common", None)
    data = {**texts, **({} if common is None else {"volcano-scheduler.conf": common})}
    metadata = meta("volcano-scheduler-configmap", namespace="volcano-system")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def node(name: str, **allocatable: object) -> Wire:
    """A node with 4 cores and 16 GiB, unless told otherwise."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta(name),
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", **allocatable}},
    }


def member(name: str = "work", queue: str = "research", **more: Any) -> Wire:
    """A stored pod whose queue was written down."""
    annotations = {"sluice.dev/queue": queue, **more.pop("annotations", {})}
    labels = {"sluice.dev/queue": queue, **more.pop("labels", {})}
    return pod(name, annotations=annotations, labels=labels, **more)


def podgroup(
    name: str,
    *,
    namespace: str = "team",
    queue: str | None = None,
    created: str = CREATED,
    version: int = 1,
    owner: Wire | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    status: Mapping[str, object] | None = None,
    **spec: Any,
) -> Wire:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            **meta(name, namespace=namespace, version=version),
            "creationTimestamp": created,
            **_maps(annotations, labels),
            **({} if owner is None else {"ownerReferences": [owner]}),
        },
        "spec": {**({} if queue is None else {"queue": queue}), **spec},
        **({} if status is None else {"status": dict(status)}),
    }


def _maps(annotations: Mapping[str, str] | None, labels: Mapping[str, str] | None) -> Wire:
    given = {"annotations": annotations, "labels": labels}
    return {place: dict(held) for place, held in given.items() if held is not None}


def template(
    annotations: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None, **spec: object
) -> Wire:
    """A pod template; maps that are not given are left out."""
    containers = [{"name": "main", "image": "none"}]
    return {"metadata": _maps(annotations, labels), "spec": {"containers": containers, **spec}}


#: The kinds that have pod templates, by resource and group.
#: `apiVersion` and `kind`, by resource and group.
_WORKLOADS: dict[str, tuple[str, str]] = {
    f"{row.resource}.{row.group}": (row.api_version, row.kind) for row in KINDS.values()
}
WORKLOADS = tuple(_WORKLOADS)


def workload(
    resource: str,
    name: str = "train",
    *templates: Wire,
    namespace: str = "team",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    created: str = CREATED,
    owner: Wire | None = None,
    version: int = 1,
    status: Mapping[str, object] | None = None,
    **spec: object,
) -> Wire:
    """A workload of one of `WORKLOADS` with these templates (one that says nothing if none is given)."""
    api_version, kind = _WORKLOADS[resource]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            **meta(name, namespace=namespace, version=version),
            "creationTimestamp": created,
            **_maps(annotations, labels),
            **({} if owner is None else {"ownerReferences": [owner]}),
        },
        "spec": {**_holding(resource, templates or (template(),)), **spec},
        "status": dict(status or {}),
    }


def _holding(resource: str, templates: Sequence[Wire]) -> Wire:
    """The part of a spec that holds pod templates, where kinds of this resource have them."""
    if resource == "jobs.batch.volcano.sh":
        return {"tasks": [{"name": f"t{n}", "template": one} for n, one in enumerate(templates)]}
    if resource == "jobsets.jobset.x-k8s.io":
        jobs = [{"spec": {"template": one}} for one in templates]
        return {"replicatedJobs": [{"name": f"r{n}", "template": one} for n, one in enumerate(jobs)]}
    [one] = templates
    return {"jobTemplate": {"spec": {"template": one}}} if resource == "cronjobs.batch" else {"template": one}


def templates_of(obj: Wire) -> list[Wire]:
    """The pod templates of a workload of whatever kind."""
    spec = obj["spec"]
    nested = [spec["jobTemplate"]["spec"]] if "jobTemplate" in spec else []
    nested += [one["template"]["spec"] for one in spec.get("replicatedJobs") or ()]
    holders = [spec, *nested, *(spec.get("tasks") or ())]
    return [one["template"] for one in holders if "template" in one]


def resource_of(obj: Wire) -> str:
    return next(key for key, row in _WORKLOADS.items() if row == (obj["apiVersion"], obj["kind"]))


def job(
    name: str,
    *,
    namespace: str = "team",
    queue: str = "",
    created: str = CREATED,
    done: str = "",
    version: int = 1,
) -> Wire:
    """A `batch/v1` Job; `done` is the type of the condition that ended it."""
    annotations = {NAMED: queue} if queue else {}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {**meta(name, namespace=namespace, version=version), "creationTimestamp": created},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": {"containers": []}}},
        "status": {"conditions": [{"type": done, "status": "True"}]} if done else {},
    }


def namespace(
    name: str, *, queue: str = "", version: int = 1, labels: Mapping[str, str] | None = None
) -> Wire:
    annotations = {NAMED: queue} if queue else None
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": meta(name, version=version, **_maps(annotations, labels)),
    }


def command(
    name: str = "stop-it", *, action: str = "SuspendQueue", target: str = "research", **more: Any
) -> Wire:
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": meta(name, namespace="default", **more),
        "action": action,
        "target": {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "name": target,
            "uid": f"uid-{target}",
        },
    }


def binding(name: str = "work", *, namespace: str = "team") -> Wire:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }


def owner(of: Wire, *, controller: bool | None = True) -> Wire:
    """A reference to an owner, as its controller writes it on a pod."""
    return {
        "apiVersion": of["apiVersion"],
        "kind": of["kind"],
        "name": of["metadata"]["name"],
        "uid": of["metadata"]["uid"],
        **({} if controller is None else {"controller": controller}),
    }


def review(
    obj: object = None,
    *,
    old: object = None,
    operation: str = "CREATE",
    user: str = "alice",
    name: str = "",
    namespace: str = "team",
    dry_run: bool | None = False,
    uid: str = "review-1",
    resource: str = "pods",
    sub_resource: str = "",
    options: Wire | None = None,
) -> Wire:
    """An AdmissionReview. `resource`: with its group, after a dot, where it has one."""
    plural, _, group = resource.partition(".")
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": uid,
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": group, "version": "v1", "resource": plural},
            **({"subResource": sub_resource} if sub_resource else {}),
            "name": name,
            "namespace": namespace,
            "operation": operation,
            "userInfo": {"username": user, "groups": ["system:authenticated"]},
            "object": obj,
            "oldObject": old,
            "dryRun": dry_run,
            **({"options": options} if options is not None else {}),
        },
    }


def with_value(obj: Wire, place: Sequence[str], value: Any) -> Wire:
    """The object with this value there, whatever its type; what is above it has to exist."""
    held = obj
    for key in place[:-1]:
        held = held[key]
    held[place[-1]] = value
    return obj
