"""The fields that we read of the API server's objects.

msgspec decodes the bytes into these structs and skips all other fields. Times are aware datetimes. Every
field but the metadata has a default, since any may be missing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from queues.quota.given_back import GivenBack
from queues.status.changes import Change
from queues.status.closing import ClosingStatus

#: Digits of the greatest number that etcd counts to.
DIGITS = 20
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Wire(msgspec.Struct, frozen=True, rename="camel", kw_only=True, gc=False):
    """The common shape: camelCase on the wire, immutable here."""


def version_number(text: str) -> int:
    """Return a resource version as a number that orders versions; 0 if it is not one."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else 0


class OwnerReference(_Wire, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool | None = False


class Metadata(_Wire, frozen=True):
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


class Condition(_Wire, frozen=True):
    """`last_transition_time` is kept as it is written, so that it is written back unchanged."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_transition_time: str | None = None
    transition_id: str = msgspec.field(default="", name="transitionID")


class Gate(_Wire, frozen=True):
    name: str = ""


class ResourceNeeds(_Wire, frozen=True):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class Container(_Wire, frozen=True):
    """`restart_policy` is that of an init container: "Always" makes it a sidecar."""

    name: str = ""
    resources: ResourceNeeds | None = None
    restart_policy: str | None = None


class PodClaim(_Wire, frozen=True):
    """A claim of devices that a pod names (DRA); without its name one is made from a template. In the status:
    the name of what was made.
    """

    name: str = ""
    resource_claim_name: str | None = None


class PodSpec(_Wire, frozen=True):
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
    resource_claims: list[PodClaim] | None = None


class ContainerStatus(_Wire, frozen=True):
    """What a node holds for a container: another amount than its spec says, while it is being resized."""

    name: str = ""
    allocated_resources: dict[str, str | int | float] | None = None
    resources: ResourceNeeds | None = None


class PodStatus(_Wire, frozen=True):
    phase: str = "Pending"
    conditions: list[Condition] | None = None
    nominated_node_name: str = ""
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resource_claim_statuses: list[PodClaim] | None = None


class Pod(_Wire, frozen=True):
    metadata: Metadata
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class QueueSpec(_Wire, frozen=True):
    state: str | None = None
    stop_policy: str | None = None
    parent: str | None = None
    resume_at: datetime | None = None
    reason: str | None = None
    drain: Any = None
    namespace_selector: Any = None
    scheduler_policy: Any = None
    parked: Any = None
    windows: Any = None
    window_overrides: Any = None
    in_window: Any = None
    # These are kept undecoded: no content of them may make a queue unreadable.
    reclaimable: Any = None
    priority: Any = None
    guarantee: Any = None
    guarantee_while_stopped: Any = None
    deserved: Any = None
    capability: Any = None
    weight: Any = None
    dequeue_strategy: Any = None
    affinity: Any = None


class PodCounts(_Wire, frozen=True):
    pending: int = 0
    gated: int = 0
    parked: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    not_selected: int = 0
    recreating: int = 0


class ChainLink(_Wire, frozen=True):
    """A queue of a chain, and the generation of its spec."""

    name: str = ""
    generation: int = 0


class StopStatus(_Wire, frozen=True):
    """The stop in a queue's status.

    `chain`: the specs from which it follows, the queue's own first. `revision`: identifies them. `scope`:
    identifies them and those of the queues below, once the stop is acknowledged. `queues`: the number of
    these queues, itself included. `refusal`: the message for its pods; `contact`: whom that names, where
    admins have set one. `waiting_for`: what the acknowledgement waits for.
    """

    revision: str = ""
    scope: str = ""
    queues: int = 0
    chain: list[ChainLink] | None = None
    refusal: str = ""
    contact: str = ""
    waiting_for: str = ""


class QuotaClaim(_Wire, frozen=True):
    """The pod for which others leave room in the queue. `queue`: its own. `since`: its creation."""

    namespace: str = ""
    pod: str = ""
    queue: str = ""
    since: str = ""


class QuotaStatus(_Wire, frozen=True):
    """What a queue with a quota says of it (`queues.quota.report`)."""

    used: dict[str, str | int | float] | None = None
    waiting: int = 0
    used_text: str = ""
    limit_text: str = ""
    claim: QuotaClaim | None = None
    force_deleted: dict[str, str | int | float] | None = None
    kept_for_gangs: dict[str, str | int | float] | None = None
    kept_for: list[str] | None = None
    releasing: dict[str, str | int | float] | None = None
    ungated: dict[str, str | int | float] | None = None
    set_aside: dict[str, str | int | float] | None = None
    guaranteed_below: dict[str, str | int | float] | None = None
    claimed: dict[str, str | int | float] | None = None
    given_back: list[GivenBack] | None = None


class QueueStatus(_Wire, frozen=True):
    state: str = ""
    observed_generation: int = 0
    conditions: list[Condition] | None = None
    pending: int = 0
    running: int = 0
    inqueue: int = 0
    unknown: int = 0
    completed: int = 0
    pods: PodCounts | None = None
    allocated: dict[str, str | int | float] | None = None
    changes: list[Change] | None = None
    drain: Any = None
    stop: StopStatus | None = None
    closing: ClosingStatus | None = None
    quota: QuotaStatus | None = None

    def condition(self, kind: str) -> Condition | None:
        return next((c for c in self.conditions or () if c.type == kind), None)


class QueueObject(_Wire, frozen=True):
    metadata: Metadata
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


class PodGroupSpec(_Wire, frozen=True):
    queue: str | None = None
    min_member: int = 0
    priority_class_name: str | None = None
    # These are kept undecoded: no content of them may make a PodGroup unreadable.
    min_task_member: Any = None
    min_resources: Any = None


class PodGroupStatus(_Wire, frozen=True):
    phase: str = ""
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: list[Condition] | None = None

    def condition(self, kind: str) -> Condition | None:
        return next((c for c in self.conditions or () if c.type == kind), None)


class PodGroup(_Wire, frozen=True):
    metadata: Metadata
    spec: PodGroupSpec = msgspec.field(default_factory=PodGroupSpec)
    status: PodGroupStatus = msgspec.field(default_factory=PodGroupStatus)


class TemplateSpec(_Wire, frozen=True):
    scheduler_name: str = ""


class Template(_Wire, frozen=True):
    """A pod template, from which a workload makes its pods."""

    metadata: Metadata | None = None
    spec: TemplateSpec = msgspec.field(default_factory=TemplateSpec)


class TemplateHolder(_Wire, frozen=True):
    """The spec of a Job inside another workload, and a task of a `batch.volcano.sh` Job."""

    template: Template | None = None


class JobTemplate(_Wire, frozen=True):
    """A template for Jobs; its labels and annotations become the Job's own."""

    metadata: Metadata | None = None
    spec: TemplateHolder = msgspec.field(default_factory=TemplateHolder)


class ReplicatedJob(_Wire, frozen=True):
    template: JobTemplate = msgspec.field(default_factory=JobTemplate)


class WorkloadSpec(_Wire, frozen=True):
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


class Phase(_Wire, frozen=True):
    phase: str = ""


class WorkloadStatus(_Wire, frozen=True):
    """`state` is that of a `batch.volcano.sh` Job, `terminal_state` that of a JobSet, `succeeded` that of a
    Job; other kinds may have anything there.
    """

    conditions: list[Condition] | None = None
    succeeded: Any = None
    state: Phase | None = None
    terminal_state: str = ""


class WorkloadObject(_Wire, frozen=True):
    """A workload of any kind (`queues.workload_kinds`)."""

    metadata: Metadata
    spec: WorkloadSpec = msgspec.field(default_factory=WorkloadSpec)
    status: WorkloadStatus = msgspec.field(default_factory=WorkloadStatus)


class Namespace(_Wire, frozen=True):
    metadata: Metadata


class Command(_Wire, frozen=True):
    metadata: Metadata
    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""


class ListMeta(_Wire, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class RawList(_Wire, frozen=True):
    """A page of a list; its items are still bytes."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class RawEvent(_Wire, frozen=True):
    """A line of a watch; its object is still bytes."""

    type: str
    object: msgspec.Raw


class PartialObjectMetadata(_Wire, frozen=True):
    metadata: Metadata


class StatusObject(_Wire, frozen=True):
    """The object of an ERROR event, or of an error answer."""

    code: int = 0
    reason: str = ""
    message: str = ""
