"""The fields that are read of pods, PodGroups, workloads and namespaces, as the API server writes them.

Every field but the metadata has a default, since any may be missing. Times are aware datetimes. What no rule
reads is skipped.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

#: Digits of the greatest number that etcd counts to.
DIGITS = 20
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Wire(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """The common shape: camelCase on the wire, immutable here."""


def version_number(text: str) -> int:
    """Return a resource version as a number that orders versions; 0 if it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else 0


class OwnerReference(Wire, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = False


class Metadata(Wire, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    finalizers: list[str] | None = None

    @property
    def created(self) -> datetime:
        return self.creation_timestamp or EPOCH

    @property
    def version(self) -> int:
        """The resource version as a number that orders versions."""
        return version_number(self.resource_version)

    def older_than(self, other: Metadata) -> bool:
        """Return whether this is a former state of the same object."""
        return self.uid == other.uid and self.version < other.version

    def label(self, key: str) -> str:
        return (self.labels or {}).get(key, "")

    def annotation(self, key: str) -> str:
        return (self.annotations or {}).get(key, "")


class Condition(Wire, frozen=True):
    """`last_transition_time` is kept as it is written, so that it is written back unchanged."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    transition_id: str = msgspec.field(default="", name="transitionID")


class Gate(Wire, frozen=True):
    name: str = ""


class ResourceNeeds(Wire, frozen=True):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class Container(Wire, frozen=True):
    """`restart_policy` is that of an init container: "Always" makes it a sidecar."""

    name: str = ""
    resources: ResourceNeeds | None = None
    restart_policy: str | None = None


class PodResourceClaim(Wire, frozen=True):
    """A claim of devices that a pod names (DRA); without its name one is made from a template. In the status:
    the name of what was made.
    """

    name: str = ""
    resource_claim_name: str | None = None


class PodSpec(Wire, frozen=True):
    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int | None = None
    priority_class_name: str | None = None
    scheduling_gates: list[Gate] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    resources: ResourceNeeds | None = None
    overhead: dict[str, str | int | float] | None = None
    termination_grace_period_seconds: int | None = None
    affinity: Any = None
    resource_claims: list[PodResourceClaim] | None = None


class ContainerStatus(Wire, frozen=True):
    """What a node holds for a container: another amount than its spec says, while it is being resized."""

    name: str = ""
    allocated_resources: dict[str, str | int | float] | None = None
    resources: ResourceNeeds | None = None


class PodStatus(Wire, frozen=True):
    phase: str = "Pending"
    conditions: list[Condition] | None = None
    nominated_node_name: str = ""
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resource_claim_statuses: list[PodResourceClaim] | None = None


class Pod(Wire, frozen=True):
    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class PodGroupSpec(Wire, frozen=True):
    queue: str | None = None
    min_member: int = 0
    priority_class_name: str | None = None
    # These are kept undecoded: no content of them may make a PodGroup unreadable.
    min_task_member: Any = None
    min_resources: Any = None


class PodGroupStatus(Wire, frozen=True):
    phase: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: list[Condition] | None = None

    def condition(self, kind: str) -> Condition | None:
        return next((c for c in self.conditions or () if c.type == kind), None)


class PodGroup(Wire, frozen=True):
    metadata: Metadata
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)


class TemplateSpec(Wire, frozen=True):
    scheduler_name: str = ""


class Template(Wire, frozen=True):
    """A pod template, from which a workload makes its pods."""

    metadata: Metadata | None = None
    spec: TemplateSpec = msgspec.field(default_factory=TemplateSpec)


class TemplateHolder(Wire, frozen=True):
    """The spec of a Job inside another workload, and a task of a `batch.volcano.sh` Job."""

    template: Template | None = None


class JobTemplate(Wire, frozen=True):
    """A template for Jobs; its labels and annotations become the Job's own."""

    metadata: Metadata | None = None
    spec: TemplateHolder = msgspec.field(default_factory=TemplateHolder)


class ReplicatedJob(Wire, frozen=True):
    template: JobTemplate = msgspec.field(default_factory=JobTemplate)


class WorkloadSpec(Wire, frozen=True):
    """The spec of any kind of workload: each kind has its pod template in another of these fields."""

    template: Template | None = None
    job_template: JobTemplate | None = None
    tasks: list[TemplateHolder] | None = None
    replicated_jobs: list[ReplicatedJob] | None = None
    replicas: int | None = None
    queue: str | None = None
    scheduler_name: str = ""
    suspend: bool | None = None
    managed_by: str | None = None
    completions: Any = None


class PhaseStatus(Wire, frozen=True):
    phase: str = ""


class WorkloadStatus(Wire, frozen=True):
    """`state` is that of a `batch.volcano.sh` Job, `terminal_state` that of a JobSet, `succeeded` that of a
    Job; other kinds may have anything there.
    """

    conditions: list[Condition] | None = None
    succeeded: Any = None
    state: PhaseStatus | None = None
    terminal_state: str = ""


class WorkloadObject(Wire, frozen=True):
    """A workload of any kind (`queues.workload_kinds`)."""

    metadata: Metadata
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)


class Namespace(Wire, frozen=True):
    metadata: Metadata
