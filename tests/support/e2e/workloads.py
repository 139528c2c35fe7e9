"""Workloads that the tests make: one of each kind, as their users would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tests.support.e2e.api_requests import Object
from tests.support.e2e.objects import NAMED_BY, pod_body


class WorkloadKind(NamedTuple):
    """A kind: its name, and where it is made in a namespace."""

    kind: str
    group: str
    resource: str

    def path(self, namespace: str) -> str:
        return f"/apis/{self.group}/namespaces/{namespace}/{self.resource}"


DEPLOYMENT = WorkloadKind("Deployment", "apps/v1", "deployments")
STATEFUL_SET = WorkloadKind("StatefulSet", "apps/v1", "statefulsets")
REPLICA_SET = WorkloadKind("ReplicaSet", "apps/v1", "replicasets")
DAEMON_SET = WorkloadKind("DaemonSet", "apps/v1", "daemonsets")
JOB = WorkloadKind("Job", "batch/v1", "jobs")
CRON_JOB = WorkloadKind("CronJob", "batch/v1", "cronjobs")
KINDS = (DEPLOYMENT, STATEFUL_SET, REPLICA_SET, DAEMON_SET, JOB, CRON_JOB)

#: As whom the controllers of kube-controller-manager write.
CRON_CONTROLLER = "system:serviceaccount:kube-system:cronjob-controller"


def work_body(
    made: WorkloadKind,
    name: str,
    queue: str = "",
    *,
    on_itself: bool = False,
    annotations: Mapping[str, str] | None = None,
    cpu: str = "",
    **spec: object,
) -> Object:
    """A workload whose pod template names the queue; `on_itself`: it says so of itself alone."""
    named = {NAMED_BY: queue} if queue else {}
    template = template_body(name, {**({} if on_itself else named), **(annotations or {})}, cpu=cpu)
    if made is JOB:
        template["spec"]["restartPolicy"] = "Never"
    selector = {"matchLabels": {"app": name}}
    held: Object = {"template": template}
    if made is CRON_JOB:
        template["spec"]["restartPolicy"] = "Never"
        held = {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template}}}
    elif made is not JOB:
        held["selector"] = selector
    if made is STATEFUL_SET:
        held["serviceName"] = name
    return {
        "apiVersion": made.group,
        "kind": made.kind,
        "metadata": {"name": name, "annotations": named if on_itself else {}},
        "spec": {**held, **spec},
    }


def template_body(app: str, annotations: Mapping[str, str], *, cpu: str = "") -> Object:
    pod = pod_body("unnamed", cpu=cpu)
    return {
        "metadata": {"labels": {"app": app}, "annotations": dict(annotations)},
        "spec": pod["spec"],
    }


def template_of(obj: Object) -> Object:
    """The pod template of a workload."""
    spec: Object = obj["spec"]
    found: Object = spec["jobTemplate"]["spec"]["template"] if "jobTemplate" in spec else spec["template"]
    return found


def owned_by(obj: Object, *, controller: bool = True) -> list[Object]:
    """The owner references of what it made."""
    meta = obj["metadata"]
    held = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "name": meta["name"], "uid": meta["uid"]}
    return [{**held, "controller": controller, "blockOwnerDeletion": False}]
