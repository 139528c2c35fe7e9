"""Kueue's objects in a line, as the API server has them, and what becomes of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from kubectl_queue.kueue.conversion import Conversion, convert
from kubectl_queue.kueue.decoding import decode
from kubectl_queue.kueue.report import Report
from kubectl_queue.objects.fields import Object

V1BETA1, V1BETA2 = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"


def groups(**flavors: dict[str, Any]) -> list[Object]:
    """`resourceGroups`, by flavor and resource: a nominal quota, or a triple with both limits."""
    resources = sorted({resource for named in flavors.values() for resource in named})
    listed = [
        {"name": name, "resources": list(map(_quota, named.items()))} for name, named in flavors.items()
    ]
    return [{"coveredResources": resources, "flavors": listed}] if listed else []


def _quota(named: tuple[str, Any]) -> Object:
    resource, amounts = named
    nominal, borrowing, lending = amounts if isinstance(amounts, tuple) else (amounts, None, None)
    fields = {"nominalQuota": nominal, "borrowingLimit": borrowing, "lendingLimit": lending}
    return {"name": resource, **{key: value for key, value in fields.items() if value is not None}}


def kueue_object(kind: str, name: str, spec: Object, *, version: str = V1BETA2, **metadata: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def cluster_queue(name: str, cohort: str = "", *, quotas: list[Object] | None = None, **spec: Any) -> Object:
    """`quotas`: 10 CPUs of flavor `any` if not given. All namespaces are selected."""
    named: Object = {"resourceGroups": groups(any={"cpu": 10}) if quotas is None else quotas}
    if cohort:
        named["cohortName"] = cohort
    return kueue_object("ClusterQueue", name, {"namespaceSelector": {}, **named, **spec})


def cohort(name: str, parent: str = "", *, quotas: list[Object] | None = None, **spec: Any) -> Object:
    named: Object = {"parentName": parent} if parent else {}
    if quotas is not None:
        named["resourceGroups"] = quotas
    return kueue_object("Cohort", name, {**named, **spec})


def local_queue(namespace: str, name: str, cluster_queue: str, **spec: Any) -> Object:
    return kueue_object("LocalQueue", name, {"clusterQueue": cluster_queue, **spec}, namespace=namespace)


#: The flavor of `cluster_queue`, without which its nodes are not known.
FLAVOR = kueue_object("ResourceFlavor", "any", {})


class Converted(NamedTuple):
    conversion: Conversion
    warnings: list[str]
    faults: list[str]

    @property
    def specs(self) -> dict[str, Any]:
        """By the queue's name."""
        return {queue.name: queue.spec for queue in self.conversion.queues}

    @property
    def parents(self) -> dict[str, str]:
        return {name: spec.get("parent", "") for name, spec in self.specs.items()}


def converted(*objects: Any) -> Converted:
    report = Report()
    conversion = convert(decode([FLAVOR, *objects], report=report), report=report)
    return Converted(conversion, report.warnings, report.faults)
