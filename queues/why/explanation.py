"""The values of `explain`: what it is given, and the `Explanation` that it returns.

`kubectl queue why -o json` shows an `Explanation` with its fields in camelCase.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from queues.causes import CauseKind
from queues.states import Desired, ParkedPods, State, StopPolicy
from queues.status.changes import Change
from queues.status.closing import ClosingStatus
from queues.status.stop_status import Acknowledgement
from queues.text import (
    NAME_LIMIT,
    printable,
    quoted,
)
from queues.tree import Tree
from queues.verdict import Verdict, verdict

#: The scheduler of pods that name none.
DEFAULT_SCHEDULER = "default-scheduler"
QUEUE, POD, NAMESPACE = "Queue", "Pod", "Namespace"


class Outcome(StrEnum):
    """What holds an object back, or that nothing does: `fate` of `-o json`."""

    NOT_MEMBER = "NotMember"
    FINISHED = "Finished"
    RUNS = "Runs"
    STOPPED = "Stopped"
    WAITS_FOR_OTHER = "WaitsForOther"
    TAKES_NOTHING_NEW = "TakesNothingNew"
    FREE = "Free"
    UNREAD = "Unread"


class _JsonStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What `-o json` shows, in camelCase."""


class ObjectRef(_JsonStruct, frozen=True):
    """An object by its name."""

    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        if self.kind == QUEUE:
            return f"queue {quoted(self.name)}"
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{printable(self.kind)} {place}{printable(self.name, limit=NAME_LIMIT)}"


class ExplainedMembership(_JsonStruct, frozen=True):
    """The queue of an object. `rule`: what names it. `origin`: where the webhook took it from.

    `queue` is None while the PodGroup `group`, which decides it, does not exist.
    """

    queue: str | None
    rule: str = ""
    origin: str = ""
    group: str = ""


class ObservedObject(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The object that is asked about, as it is stored.

    `owners`: nearest first. `calls_extender`: kube-scheduler asks the extender about it. `scheduler`: the one
    that a pod names. `message`: what the object itself says of why it waits; `message_by`: the field manager
    that wrote it, "" if that is not known; `message_of_gate`: it is of the time when it has or had a gate.
    `idle_reason`: why it makes no pods, for a workload that makes none. `kept_at_zero`: the replicas that it
    has all the same, since a drain keeps it at zero. `bound`: it is a namespace that is bound to its queue.
    `namespace_labels`: the labels of its namespace; None where they were not read. `namespace_queue`: the
    queue that its namespace names now; empty if none, or if that was not read. `unmanaged`: why nothing that
    is created in its namespace is in a queue; empty where that may be. `said`: what Sluice itself has written
    on it, or on a pod of it, of why that waits now. `failure`: of a workload, why its latest pod was not
    created. `similar`: queues with a name near that of its queue, where that does not exist.
    """

    ref: ObjectRef
    owners: tuple[ObjectRef, ...] = ()
    group: ObjectRef | None = None
    phase: str = ""
    finished: bool = False
    deleting: bool = False
    node: str = ""
    gates: tuple[str, ...] = ()
    calls_extender: bool = True
    scheduler: str = DEFAULT_SCHEDULER
    message: str = ""
    message_by: str = ""
    message_of_gate: bool = False
    idle_reason: str = ""
    kept_at_zero: int = 0
    bound: bool = False
    namespace_labels: Mapping[str, str] | None = None
    namespace_queue: str = ""
    unmanaged: str = ""
    said: str = ""
    failure: str = ""
    similar: tuple[str, ...] = ()


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a Queue holds beside its spec. `closing`: what keeps it from Closed; None: not known.

    `acknowledgement`, `waiting_for`: of its stop, where it has one; None: not known. `gated`, `ungated`: its
    parked pods with our gate and without; `recreating`: those that are to be created again with it.
    """

    changes: tuple[Change, ...] = ()
    created: str = ""
    closing: ClosingStatus | None = None
    observed: bool = True
    live: bool = True
    acknowledgement: Acknowledgement | None = None
    waiting_for: str = ""
    gated: int = 0
    ungated: int = 0
    recreating: int = 0


class ChainMember(_JsonStruct, frozen=True):
    """One queue of the chain: its state, what its own spec asks for, and its selector, where it has one.

    `parked`: its `spec.parked`; None where it says nothing.
    """

    queue: str
    state: State
    desired: Desired
    stop_policy: StopPolicy
    resume_at: datetime | None = None
    namespace_selector: str = ""
    parked: ParkedPods | None = None


class Stop(_JsonStruct, frozen=True):
    """One queue that stops the object. `change`: the edit that did it; None where the history has none.

    `created`: when the queue was created, if it was created so. `lost`: the history does not go back so far.
    """

    queue: str
    kind: CauseKind = msgspec.field(name="why")
    text: str
    way_out: str
    policy: StopPolicy = StopPolicy.NONE
    reason: str = ""
    change: Change | None = None
    created: str = ""
    lost: bool = False
    resume_at: datetime | None = None


class Explanation(_JsonStruct, frozen=True):
    """The answer. `refusal`: why its queue accepts nothing new. `closing`: what keeps that from Closed."""

    object: ObjectRef
    outcome: Outcome = msgspec.field(name="fate")
    summary: str
    owners: tuple[ObjectRef, ...] = ()
    group: ObjectRef | None = None
    membership: ExplainedMembership | None = msgspec.field(default=None, name="belonging")
    chain: tuple[ChainMember, ...] = ()
    stops: tuple[Stop, ...] = ()
    refusal: Stop | None = None
    closing: str = ""
    notes: tuple[str, ...] = ()


class ObservedQueues(msgspec.Struct, frozen=True, kw_only=True):
    """The queues of the chain as they were read, and the time."""

    tree: Tree
    records: Mapping[str, QueueRecord]
    now: datetime

    def record(self, name: str) -> QueueRecord:
        return self.records.get(name) or QueueRecord(live=False)

    def verdict(self, name: str) -> Verdict:
        return verdict(name, tree=self.tree, live=self.record(name).live, now=self.now)
