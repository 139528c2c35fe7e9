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

To support one more kind, add its row here. `tests/manifests/test_workload_kind_places.py` then fails, and its
message is the list of the other places (manifests, documents, test objects) with what each of them lacks.
Code needs no change unless the pod templates are at a new place (`cluster/objects.py:WorkloadSpec`), or the
kind ends or is suspended in a new way (`Life`, `Suspension`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

import msgspec

#: The most levels of owners that are followed: references may form a cycle.
MAX_OWNERS = 8
#: kube-controller-manager, as one user or as one service account for each controller.
_CONTROLLER_MANAGER = ("system:kube-controller-manager", "system:serviceaccount:kube-system:*")


class Life(Enum):
    """How long a workload counts as live.

    - `UNTIL_FINISHED`: until it has a condition or a phase of its row, or a `status.terminalState`.
    - `WHILE_SCALED`: while it wants replicas. Such a kind has the subresource `scale`.
    - `NEVER`: what it creates counts in its place.
    """

    UNTIL_FINISHED = "until finished"
    WHILE_SCALED = "while scaled"
    NEVER = "never"


class Suspension(Enum):
    """How a drain suspends and resumes a workload: by `spec.suspend`, or by Commands for its controller."""

    SPEC = "spec.suspend"
    COMMAND = "Command"


class WorkloadKind(msgspec.Struct, frozen=True, kw_only=True):
    """One row.

    - `key`: the resource, with the group where that is not unique.
    - `immutable`: the template cannot change once the object is there.
    - `optional`: the kind is there only if its definition is installed.
    - `answers_for_children`: what an accepted one creates is accepted too. A Job of a CronJob is new work.
    - `queue_in_spec`: `spec.queue` names the queue.
    - `end_conditions`, `end_phases`: of a finished one (`Life.UNTIL_FINISHED`); the phase is
      `status.state.phase`.
    - `paused_phases`: those in which it has no pods though `spec.suspend` does not say so.
    - `suspension`: None if a drain cannot suspend it; its pods are evicted then.
    - `pod_label`: the label by which the pods of a suspendable workload are listed. Its value is the
      workload's UID if `pods_by_uid`, else its name.
    - `own_controller`: the value of `spec.managedBy` that is the kind's own controller; empty if the kind has
      no such field.
    - `controller_users`: the users by which the kind's controllers create pods; one that ends in `*` stands
      for all that begin so.
    - `short_names`: those of kubectl.
    """

    key: str
    group: str
    version: str
    resource: str
    kind: str
    immutable: bool = False
    optional: bool = False
    answers_for_children: bool = True
    queue_in_spec: bool = False
    life: Life = Life.UNTIL_FINISHED
    end_conditions: frozenset[str] = frozenset()
    end_phases: frozenset[str] = frozenset()
    paused_phases: frozenset[str] = frozenset()
    suspension: Suspension | None = None
    pod_label: str = ""
    pods_by_uid: bool = False
    own_controller: str = ""
    controller_users: tuple[str, ...] = _CONTROLLER_MANAGER
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def path(self) -> str:
        """Where the API server lists all of them."""
        return f"/apis/{self.api_version}/{self.resource}"

    def is_delegated(self, managed_by: str | None) -> bool:
        """Whether `spec.managedBy` leaves the workload to another controller than its kind's own.

        A suspension may then end none of its pods.
        """
        return bool(self.own_controller and managed_by) and managed_by != self.own_controller

    def pod_selector(self, *, name: str, uid: str) -> str:
        """The label selector of the pods of a suspendable workload."""
        return f"{self.pod_label}={uid if self.pods_by_uid else name}"


_ROWS = (
    WorkloadKind(
        key="jobs",
        group="batch",
        version="v1",
        resource="jobs",
        kind="Job",
        immutable=True,
        end_conditions=frozenset({"Complete", "Failed"}),
        suspension=Suspension.SPEC,
        pod_label="batch.kubernetes.io/controller-uid",
        pods_by_uid=True,
        own_controller="kubernetes.io/job-controller",
    ),
    WorkloadKind(
        key="cronjobs",
        group="batch",
        version="v1",
        resource="cronjobs",
        kind="CronJob",
        answers_for_children=False,
        life=Life.NEVER,
        short_names=("cj",),
    ),
    WorkloadKind(
        key="deployments",
        group="apps",
        version="v1",
        resource="deployments",
        kind="Deployment",
        life=Life.WHILE_SCALED,
        short_names=("deploy",),
    ),
    WorkloadKind(
        key="statefulsets",
        group="apps",
        version="v1",
        resource="statefulsets",
        kind="StatefulSet",
        life=Life.WHILE_SCALED,
        short_names=("sts",),
    ),
    WorkloadKind(
        key="replicasets",
        group="apps",
        version="v1",
        resource="replicasets",
        kind="ReplicaSet",
        life=Life.WHILE_SCALED,
        short_names=("rs",),
    ),
    WorkloadKind(
        key="daemonsets",
        group="apps",
        version="v1",
        resource="daemonsets",
        kind="DaemonSet",
        life=Life.NEVER,
        short_names=("ds",),
    ),
    WorkloadKind(
        key="jobs.batch.volcano.sh",
        group="batch.volcano.sh",
        version="v1alpha1",
        resource="jobs",
        kind="Job",
        immutable=True,
        optional=True,
        queue_in_spec=True,
        end_phases=frozenset({"Completed", "Failed", "Terminated"}),
        paused_phases=frozenset({"Aborting", "Aborted"}),
        suspension=Suspension.COMMAND,
        pod_label="volcano.sh/job-name",
        controller_users=("system:serviceaccount:volcano-system:*",),
        short_names=("vcjob", "vcjobs", "vj"),
    ),
    WorkloadKind(
        key="jobsets",
        group="jobset.x-k8s.io",
        version="v1alpha2",
        resource="jobsets",
        kind="JobSet",
        immutable=True,
        optional=True,
        end_conditions=frozenset({"Completed", "Failed"}),
        suspension=Suspension.SPEC,
        pod_label="jobset.sigs.k8s.io/jobset-name",
        own_controller="jobset.sigs.k8s.io/jobset-controller",
        controller_users=("system:serviceaccount:jobset-system:*",),
    ),
)

#: By key.
KINDS: Mapping[str, WorkloadKind] = MappingProxyType({row.key: row for row in _ROWS})
#: Those that a drain can suspend, by key.
SUSPENDABLE: Mapping[str, WorkloadKind] = MappingProxyType(
    {row.key: row for row in _ROWS if row.suspension is not None}
)


def find_kind(group: str, resource: str) -> WorkloadKind | None:
    """The row of a resource; None for one that makes no members."""
    return next((row for row in _ROWS if (row.group, row.resource) == (group, resource)), None)


def find_kind_of_owner(api_version: str, kind: str) -> WorkloadKind | None:
    """The row of an owner reference, whatever its version; None for one that makes no members."""
    group, _, _ = api_version.rpartition("/")
    return next((row for row in _ROWS if (row.group, row.kind) == (group, kind)), None)
