"""The values of `explain`: what it is given, and the `Explanation` that it returns.

`kubectl queue why -o json` shows an `Explanation` with its fields in camelCase.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec

from queues.apimachinery.quantities import Amount
from queues.causes import CauseKind
from queues.quota.report import QuotaClaim
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


class Holder(_JsonStruct, frozen=True):
    """A queue, and how much it and those below it use of what a pod lacks."""

    queue: str
    amount: str


class Claimant(_JsonStruct, frozen=True):
    """The pod for which others leave room in `queue` (`queues.quota.claims`), as the status of that says.

    `pod`: NAMESPACE/NAME. `pod_queue`: the queue that it is in. `since`: its creation (RFC 3339).
    """

    queue: str
    pod: str
    pod_queue: str
    since: str


class Room(_JsonStruct, frozen=True, omit_defaults=True):
    """Why a pod waits for room (`queues.why.room`). `place`: its place among the `waiting` pods of its queue,
    1 being next; None where they may not be listed. The minimum of a gang is one of them. `before`: those
    that go first of all.

    `has_room`: nothing of its chain lacks room for it, as far as that was read; `kind` is what the pod itself
    says, where that is a claim of another pod, or the plugin overcommit. Else `queue` is the queue of
    its chain that does, where `used` of `limit` is used and `missing` lacks of the `requested` amount of
    `resource`; `kind` is one of `queues.quota.lack`, and `never` says that it would not fit into an empty
    queue. `holders`: the queues right below that which use most of it, and the pod's own. `pod`, `pods`: of
    a workload, the pod that all this is said of, and how many of its pods wait for room. `claims`: the names
    of its claims of devices that are not there, or cannot be counted; "" for one that was not made yet.
    `claimants`: the pods for which others leave room in queues of its chain, nearest first; `claims_in`: the
    queues in which they leave it to this pod. `force_deleted`: what of `used` is of pods that were deleted by
    force and may still run; "" where nothing is. `together`: so many pods of its PodGroup start together,
    and `requested` is what they request; 0 where it goes by itself. `gang`: why its gang does not start yet,
    where `kind` is that. `since`: when the pod was created. `unread`: what may not be listed, so that its
    place goes by the priorities of pods, and not of gangs; "" where it is the leader's order.
    """

    pod: str = ""
    pods: int = 0
    place: int | None = None
    waiting: int | None = None
    before: tuple[str, ...] = ()
    has_room: bool = False
    queue: str = ""
    kind: str = ""
    never: bool = False
    resource: str = ""
    requested: str = ""
    missing: str = ""
    used: str = ""
    limit: str | None = None
    holders: tuple[Holder, ...] = ()
    claims: tuple[str, ...] = ()
    claimants: tuple[Claimant, ...] = ()
    claims_in: tuple[str, ...] = ()
    force_deleted: str = ""
    together: int = 0
    gang: str = ""
    since: str = ""
    unread: str = ""


class Said(_JsonStruct, frozen=True):
    """What kube-scheduler says of so many pods."""

    pods: int
    text: str


class GangReport(_JsonStruct, frozen=True):
    """How the pods of a PodGroup stand (`queues.why.gang`). `least`: of its minimum. `pods`: those that
    exist, of which so many are `released`, and of these `placed`. `isComplete`: its minimum is on nodes.
    `asksBefore`: it asks for room for `minResources`, and who makes its pods may wait for that. `lacks`: why
    nothing is asked for, and whether that can `never` change by itself. `givesBackAt`: when what it has is
    given back, unless its minimum is on nodes by then (RFC 3339); "" where that is not to come.
    """

    phase: str
    least: int
    pods: int
    released: int
    placed: int
    is_complete: bool = False
    asks_before: bool = False
    lacks: str = ""
    never: bool = False
    gives_back_at: str = ""
    said: tuple[Said, ...] = ()


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
    created. `similar`: queues with a name near that of its queue, where that does not exist. `room`: why a
    pod has no room in a quota; None where it does not wait for that, or that was not looked for. `gang`: of a
    PodGroup, how its pods stand; None where they may not be listed.
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
    room: Room | None = None
    gang: GangReport | None = None


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a Queue holds beside its spec. `closing`: what keeps it from Closed; None: not known.

    `acknowledgement`, `waiting_for`: of its stop, where it has one; None: not known. `gated`, `ungated`: its
    parked pods with our gate and without; `recreating`: those that are to be created again with it. `used`:
    what it and those below it use of their quotas, and `waiting` how many pods of them wait for room; None
    where its status does not say. `not_enforced`: the message of its condition QuotaEnforced while that is
    False. `claim`: of the pod for which others leave room in it.
    `force_deleted`: what of `used` is of pods that were deleted by force and may still run.
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
    used: Mapping[str, Amount] | None = None
    waiting: int | None = None
    not_enforced: str = ""
    claim: QuotaClaim | None = None
    force_deleted: Mapping[str, Amount] = {}


class ChainMember(_JsonStruct, frozen=True):
    """One queue of the chain: its state, what its own spec asks for, and its selector, where it has one.

    `parked`: its `spec.parked`; None where it says nothing. `windows`: those that are on.
    """

    queue: str
    state: State
    desired: Desired
    stop_policy: StopPolicy
    resume_at: datetime | None = None
    namespace_selector: str = ""
    parked: ParkedPods | None = None
    windows: tuple[str, ...] = ()


class Stop(_JsonStruct, frozen=True):
    """One queue that stops the object. `window`: the change window of it that does; "" where its spec does.
    `change`: the edit that did it; None where the history has none.

    `created`: when the queue was created, if it was created so. `lost`: the history does not go back so far.
    """

    queue: str
    kind: CauseKind = msgspec.field(name="why")
    text: str
    way_out: str
    policy: StopPolicy = StopPolicy.NONE
    window: str = ""
    reason: str = ""
    change: Change | None = None
    created: str = ""
    lost: bool = False
    resume_at: datetime | None = None


class QueueQuota(_JsonStruct, frozen=True):
    """`resources`: amounts by resource, then by what they are (`queues.quota.standing`). `waiting`: pods that
    wait for room, in the queue and below it. `not_enforced`: why its capability does not hold yet, or more is
    used; "" where it holds. Of what is used, `forceDeleted` is that of pods that were deleted by force.
    """

    waiting: int
    resources: Mapping[str, Mapping[str, str]]
    not_enforced: str = ""


class Explanation(_JsonStruct, frozen=True):
    """The answer. `refusal`: why its queue accepts nothing new. `closing`: what keeps that from Closed.

    `room`: why a pod, or the minimum of a PodGroup, has no room in a quota. `gang`: how the pods of a
    PodGroup stand. `quota`: how a queue stands against its quota, as `kubectl queue usage -o json` has it.
    """

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
    room: Room | None = None
    gang: GangReport | None = None
    quota: QueueQuota | None = None


class ObservedQueues(msgspec.Struct, frozen=True, kw_only=True):
    """The queues of the chain as they were read, and the time."""

    tree: Tree
    records: Mapping[str, QueueRecord]
    now: datetime

    def record(self, name: str) -> QueueRecord:
        return self.records.get(name) or QueueRecord(live=False)

    def verdict(self, name: str) -> Verdict:
        return verdict(name, tree=self.tree, live=self.record(name).live, now=self.now)
