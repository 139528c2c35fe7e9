"""The fields that we read of the API server's objects.

msgspec decodes the bytes into these structs and skips all other fields. Times are aware datetimes. Every
field but the metadata has a default, since any may be missing. Those of pods, PodGroups, workloads and
namespaces are in `queues.world.objects`, since the plugin reads the same.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from queues.quota.given_back import GivenBack
from queues.status.changes import HistoryLine
from queues.status.closing import ClosingStatus
from queues.world.objects import (
    EPOCH,
    Condition,
    Container,
    ContainerStatus,
    Gate,
    JobTemplate,
    Metadata,
    Namespace,
    OwnerReference,
    PhaseStatus,
    Pod,
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    PodResourceClaim,
    PodSpec,
    PodStatus,
    ReplicatedJob,
    ResourceNeeds,
    Template,
    TemplateHolder,
    TemplateSpec,
    Wire,
    WorkloadObject,
    WorkloadSpec,
    WorkloadStatus,
    version_number,
)

__all__ = [
    "EPOCH",
    "ChainLink",
    "Command",
    "Condition",
    "Container",
    "ContainerStatus",
    "Gate",
    "JobTemplate",
    "ListMeta",
    "Metadata",
    "Namespace",
    "OwnerReference",
    "PartialObjectMetadata",
    "PhaseStatus",
    "Pod",
    "PodCounts",
    "PodGroup",
    "PodGroupSpec",
    "PodGroupStatus",
    "PodResourceClaim",
    "PodSpec",
    "PodStatus",
    "QueueObject",
    "QueueSpec",
    "QueueStatus",
    "QuotaClaimStatus",
    "QuotaStatus",
    "RawEvent",
    "RawList",
    "ReplicatedJob",
    "ResourceNeeds",
    "StatusObject",
    "StopStatus",
    "Template",
    "TemplateHolder",
    "TemplateSpec",
    "Wire",
    "WorkloadObject",
    "WorkloadSpec",
    "WorkloadStatus",
    "version_number",
]


class QueueSpec(Wire, frozen=True):
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


class PodCounts(Wire, frozen=True):
    pending: int = 0
    gated: int = 0
    parked: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    not_selected: int = 0
    recreating: int = 0


class ChainLink(Wire, frozen=True):
    """A queue of a chain, and the generation of its spec."""

    name: str = ""
    generation: int = 0


class StopStatus(Wire, frozen=True):
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


class QuotaClaimStatus(Wire, frozen=True):
    """The pod for which others leave room in the queue. `queue`: its own. `since`: its creation."""

    namespace: str = ""
    pod: str = ""
    queue: str = ""
    since: str = ""


class QuotaStatus(Wire, frozen=True):
    """What a queue with a quota says of it (`queues.quota.report`)."""

    used: dict[str, str | int | float] | None = None
    waiting: int = 0
    used_text: str = ""
    limit_text: str = ""
    claim: QuotaClaimStatus | None = None
    force_deleted: dict[str, str | int | float] | None = None
    kept_for_gangs: dict[str, str | int | float] | None = None
    kept_for: list[str] | None = None
    releasing: dict[str, str | int | float] | None = None
    ungated: dict[str, str | int | float] | None = None
    set_aside: dict[str, str | int | float] | None = None
    guaranteed_below: dict[str, str | int | float] | None = None
    claimed: dict[str, str | int | float] | None = None
    given_back: list[GivenBack] | None = None


class QueueStatus(Wire, frozen=True):
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
    changes: list[HistoryLine] | None = None
    drain: Any = None
    stop: StopStatus | None = None
    closing: ClosingStatus | None = None
    quota: QuotaStatus | None = None

    def condition(self, kind: str) -> Condition | None:
        return next((c for c in self.conditions or () if c.type == kind), None)


class QueueObject(Wire, frozen=True):
    metadata: Metadata
    spec: QueueSpec = msgspec.field(default_factory=QueueSpec)
    status: QueueStatus = msgspec.field(default_factory=QueueStatus)


class Command(Wire, frozen=True):
    metadata: Metadata
    action: str = ""
    target: OwnerReference | None = None
    reason: str = ""
    message: str = ""


class ListMeta(Wire, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class RawList(Wire, frozen=True):
    """A page of a list; its items are still bytes."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: list[msgspec.Raw] | None = None


class RawEvent(Wire, frozen=True):
    """A line of a watch; its object is still bytes."""

    type: str
    object: msgspec.Raw


class PartialObjectMetadata(Wire, frozen=True):
    metadata: Metadata


class StatusObject(Wire, frozen=True):
    """The object of an ERROR event, or of an error answer."""

    code: int = 0
    reason: str = ""
    message: str = ""
