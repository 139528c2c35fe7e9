"""The kinds of workload whose pods can be members of queues, each in one row.

=============  =================  ============================  ======================================
kind           group              where its pod templates are   live while
=============  =================  ============================  ======================================
Job            batch              spec.template                 neither Complete nor Failed
CronJob        batch              spec.jobTemplate              never: its Jobs are
Deployment     apps               spec.template                 it wants replicas
StatefulSet    apps               spec.template                 it wants replicas
ReplicaSet     apps               spec.template                 it wants replicas
DaemonSet      apps               spec.template                 never: its pods are
Job            batch.volcano.sh   spec.tasks                    not Completed, Failed or Terminated
JobSet         jobset.x-k8s.io    spec.replicatedJobs           neither Completed nor Failed
=============  =================  ============================  ======================================

The last two are there where their definitions are installed.

A Job that a CronJob makes is new work, so a CronJob never counts as the accepted owner
(`answers_for_children`). The template of some kinds cannot change once the object is there (`fixed`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec


class WorkloadKind(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `key`: the resource, with the group where that is not unique. `immutable`: see above."""

    key: str
    group: str
    version: str
    resource: str
    kind: str
    immutable: bool = False
    optional: bool = False
    answers_for_children: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def path(self) -> str:
        """Where the API server lists all of them."""
        return f"/apis/{self.api_version}/{self.resource}"


_ROWS = (
    WorkloadKind(key="jobs", group="batch", version="v1", resource="jobs", kind="Job", immutable=True),
    WorkloadKind(
        key="cronjobs",
        group="batch",
        version="v1",
        resource="cronjobs",
        kind="CronJob",
        answers_for_children=False,
    ),
    WorkloadKind(key="deployments", group="apps", version="v1", resource="deployments", kind="Deployment"),
    WorkloadKind(key="statefulsets", group="apps", version="v1", resource="statefulsets", kind="StatefulSet"),
    WorkloadKind(key="replicasets", group="apps", version="v1", resource="replicasets", kind="ReplicaSet"),
    WorkloadKind(key="daemonsets", group="apps", version="v1", resource="daemonsets", kind="DaemonSet"),
    WorkloadKind(
        key="jobs.batch.volcano.sh",
        group="batch.volcano.sh",
        version="v1alpha1",
        resource="jobs",
        kind="Job",
        immutable=True,
        optional=True,
    ),
    WorkloadKind(
        key="jobsets",
        group="jobset.x-k8s.io",
        version="v1alpha2",
        resource="jobsets",
        kind="JobSet",
        immutable=True,
        optional=True,
    ),
)

#: By key.
KINDS: Mapping[str, WorkloadKind] = MappingProxyType({row.key: row for row in _ROWS})


def find_kind(group: str, resource: str) -> WorkloadKind | None:
    """The row of a resource; None for one that makes no members."""
    return next((row for row in _ROWS if (row.group, row.resource) == (group, resource)), None)


#: The value of `spec.managedBy` that is the kind's own controller, where the kind has that field.
OWN_CONTROLLERS: Mapping[str, str] = MappingProxyType(
    {
        "jobs": "kubernetes.io/job-controller",
        "jobsets": "jobset.sigs.k8s.io/jobset-controller",
    }
)


def is_delegated(key: str, managed_by: str | None) -> bool:
    """Whether `spec.managedBy` leaves the workload to another controller than its kind's own.

    A suspension may then end none of its pods.
    """
    return key in OWN_CONTROLLERS and bool(managed_by) and managed_by != OWN_CONTROLLERS[key]
