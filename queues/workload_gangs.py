"""Gangs that a workload asks for by annotation `scheduling.volcano.sh/group-min-member`. Pure.

Volcano's PodGroup controller makes a PodGroup for the owner of pods, with this `minMember`. So does Sluice:

| step                                    | who                  | what is written                        |
|-----------------------------------------|----------------------|----------------------------------------|
| the workload is created, or moved       | webhook on workloads | in its template: `sluice.dev/gang: "3"` |
| a pod is made from that by a controller | webhook on pods      | `sluice.dev/gang: "research/3"`, and   |
|                                         |                      | its PodGroup, `podgroup-OWNER_UID`     |
| the pod waits for that PodGroup         | the leader           | the PodGroup, owned by the pod's owner |

The name, the owner and `minMember` are as in Volcano: `pkg/controllers/podgroup` of v1.15.0. Each ReplicaSet
of a Deployment is thus a gang of its own. Unlike there, `minResources` is not set: it would ask for room
before there are pods.

| the number                               | then                                                     |
|------------------------------------------|----------------------------------------------------------|
| 2 or more                                | a gang                                                   |
| 1                                        | none: each pod goes by itself                            |
| no number, 0, negative, beyond 32 bits   | none, and a warning (`queues.metadata.findings`)         |
| on a CronJob, JobSet or Volcano's Job    | none, and a warning: it is read on the Jobs that these   |
|                                          | make                                                     |
| on a workload whose template names a     | none: the pods are of that PodGroup                      |
| PodGroup                                 |                                                          |
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from queues.membership import GROUP_ANNOTATION, valid_name
from queues.metadata.findings import min_member
from queues.metadata.keys import GROUP_MIN_MEMBER

#: The kinds of `queues.workload_kinds` on which it is read, by key.
KEYS = frozenset({"deployments", "replicasets", "statefulsets", "daemonsets", "jobs"})
#: The API version of each kind that owns pods of such a gang.
OWNERS: Mapping[str, str] = {
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
}
_PREFIX = "podgroup-"
_WRITTEN = re.compile(r"(?:([a-z0-9.-]{1,253})/)?([0-9]{1,10})", re.ASCII)


class WorkloadGang(NamedTuple):
    """What `sluice.dev/gang` says. `queue`: "" in a template."""

    least: int
    queue: str = ""

    def __str__(self) -> str:
        return f"{self.queue}/{self.least}" if self.queue else str(self.least)


def asked_gang(key: str, annotations: Mapping[str, str]) -> WorkloadGang | None:
    """The gang that a workload of this kind asks for; None where it asks for none."""
    least = min_member(annotations.get(GROUP_MIN_MEMBER, "")) if key in KEYS else None
    return WorkloadGang(least) if least is not None and least > 1 else None


def gang_for_template(gang: WorkloadGang | None, annotations: Mapping[str, str]) -> str | None:
    """The value of `sluice.dev/gang` in a template; None where it has none."""
    return None if gang is None or annotations.get(GROUP_ANNOTATION) else str(gang)


def parse_gang(text: str) -> WorkloadGang | None:
    """What `sluice.dev/gang` says; None where it says nothing that can be read."""
    found = _WRITTEN.fullmatch(text)
    least = min_member(found[2]) if found else None
    if found is None or least is None or least < 2:
        return None
    return WorkloadGang(least, found[1] or "")


def podgroup_name(owner_uid: str) -> str:
    """The PodGroup of an owner's pods; "" where no PodGroup can have that name."""
    name = f"{_PREFIX}{owner_uid}"
    return name if owner_uid and valid_name(name) else ""


def is_made_by_leader(podgroup: str, *, gang: str, owner_kind: str, owner_uid: str) -> bool:
    """Whether the leader creates this PodGroup.

    `gang`: annotation `sluice.dev/gang` of a pod that names it. The owner: of that pod.
    """
    asked = parse_gang(gang)
    is_asked = asked is not None and bool(asked.queue) and owner_kind in OWNERS
    return is_asked and bool(podgroup) and podgroup == podgroup_name(owner_uid)


def podgroup_of_gang(
    gang: WorkloadGang, *, namespace: str, kind: str, name: str, uid: str, priority_class: str
) -> dict[str, object]:
    """The PodGroup to create for the pods of this owner. `priority_class`: of the pods; "" for none."""
    owner = {
        "apiVersion": OWNERS[kind],
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": podgroup_name(uid),
            "namespace": namespace,
            "ownerReferences": [owner],
        },
        "spec": {
            "minMember": gang.least,
            "queue": gang.queue,
            **({"priorityClassName": priority_class} if priority_class else {}),
        },
    }
