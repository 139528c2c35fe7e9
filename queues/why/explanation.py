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
from queues.membership import Source
from queues.quota.report import QuotaClaim
from queues.states import Desired, ParkedPods, State, StopPolicy
from queues.status.changes import HistoryLine
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


class Fate(StrEnum):
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

    @property
    def may_be_of_namespace(self) -> bool:
        """Whether its namespace named the queue when the object was made, or may have: what was created
        within milliseconds of the annotation, or is younger than its owners, does not show its origin.
        """
        if self.origin:
            return self.origin == Source.NAMESPACE.value
        return self.rule == Source.WRITTEN.value


class Holder(_JsonStruct, frozen=True, omit_defaults=True):
    """A queue, and how much it and those below it use of what a pod lacks. `itself`: its own pods alone,
    without those of the queues below it. `own`: how much of that the queue of the pod uses, where it is
    further below; "" where it is not.
    """

    queue: str
    amount: str
    itself: bool = False
    own: str = ""


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
    queue. `holders`: the parts of `used` that are largest, and the one that has the pod. `pod`, `pods`: of
    a workload, the pod that all this is said of, and how many of its pods wait for room. `claims`: the names
    of its claims of devices that are not there, or cannot be counted; "" for one that was not made yet.
    `claimants`: the pods for which others leave room in queues of its chain, nearest first; `claims_in`: the
    queues in which they leave it to this pod. `force_deleted`: what of `used` is of pods that were deleted by
    force and may still run; `kept_for_gangs`: what of it is kept for PodGroups, of which `kept_for` are the
    first; "" where nothing is. `beside`: what of `used` counts though nothing uses it, by the names of
    `report.BESIDE`. `together`: so many pods of its PodGroup start together,
    and `requested` is what they request; 0 where it goes by itself. `gang`: why its gang does not start yet,
    where `kind` is that. `since`: when the pod was created. `unread`: the kinds that may not be
    read, so that its place is not the leader's: PodGroups, PriorityClasses, Jobs; "" for none. `kept`: who
    could be evicted for it, and which rules keep them, as the pod says; "" where it does not.

    `place_here`, `waiting_here`: where `place` is not known, the same among the pods of its namespace.
    `in_queue`: so many wait in its queue, as the status of that says; None where that is not known. `said`,
    `lets_go`: where its queue may not be read, why it has no room and what would let it go, as the pod says.
    `requests`: where its queue may not be read, what it requests, in words. `unread_queue`: the queue above
    its own that may not be read, where the pod says why it has no room; "" for its own. `contact`: whom to
    ask about `queue`, where that or one above it names somebody.
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
    kept_for_gangs: str = ""
    kept_for: tuple[str, ...] = ()
    beside: Mapping[str, str] = {}
    together: int = 0
    gang: str = ""
    since: str = ""
    unread: str = ""
    kept: str = ""
    place_here: int | None = None
    waiting_here: int | None = None
    in_queue: int | None = None
    said: str = ""
    lets_go: str = ""
    requests: str = ""
    unread_queue: str = ""
    contact: str = ""


class Said(_JsonStruct, frozen=True):
    """What kube-scheduler says of so many pods."""

    pods: int
    text: str


class GangReport(_JsonStruct, frozen=True):
    """How the pods of a PodGroup stand (`queues.why.gang`). `least`: of its minimum. `pods`: those that
    exist, of which so many are `released`, and of these `placed`. `isComplete`: its minimum is on nodes.
    `asksBefore`: it asks for room for `minResources`, and who makes its pods may wait for that. `lacks`: why
    nothing is asked for, and whether that can `never` change by itself. `givesBackAt`: when what it has is
    given back, unless its minimum is on nodes by then (RFC 3339); "" where that is not to come. `isHeld`: it
    starts whole, since a queue of its chain has a capability; else its pods start one by one.
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
    is_held: bool = True


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
    PodGroup, how its pods stand; None where they may not be listed. `keys`: what labels and annotations of
    Volcano or Kueue on it do not do here (`queues.metadata`). `untaken`: of a workload, what is said of a pod
    of it that no scheduler takes.
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
    keys: tuple[str, ...] = ()
    untaken: str = ""


class ReportedStatus(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the status of a queue says of it and of its chain. `schedules`, `accepts`: None where it does not
    say that of the present spec. `stop`, `refusal`: why not, in its words. `state`: None where it is of
    another spec.
    """

    state: State | None = None
    schedules: bool | None = None
    accepts: bool | None = None
    stop: str = ""
    refusal: str = ""


class QueueRecord(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a Queue holds beside its spec. `closing`: what keeps it from Closed; None: not known.

    `acknowledgement`, `waiting_for`: of its stop, where it has one; None: not known. `acknowledged_since`:
    since when it is (RFC 3339); "" where it is not, or the status has no time. `gated`, `ungated`: its
    parked pods with our gate and without; `recreating`: those that are to be created again with it. `used`:
    what it and those below it use of their quotas, and `waiting` how many pods of them wait for room; None
    where its status does not say. `not_enforced`: the message of its condition QuotaEnforced while that is
    False. `releases_nothing`: it says that the server cannot write its book of releases. `claim`: of the pod
    for which others leave room in it.
    `force_deleted`: what of `used` is of pods that were deleted by force and may still run;
    `kept_for_gangs`: what of it is kept for PodGroups, of which `kept_for` are the first (NAMESPACE/NAME).
    `beside`: what counts beside `used`, by the names of `report.BESIDE`.
    `reported`: what its status says of the whole chain, for who may not read all of that.
    """

    changes: tuple[HistoryLine, ...] = ()
    created: str = ""
    closing: ClosingStatus | None = None
    observed: bool = True
    live: bool = True
    acknowledgement: Acknowledgement | None = None
    acknowledged_since: str = ""
    waiting_for: str = ""
    gated: int = 0
    ungated: int = 0
    recreating: int = 0
    used: Mapping[str, Amount] | None = None
    waiting: int | None = None
    not_enforced: str = ""
    releases_nothing: bool = False
    claim: QuotaClaim | None = None
    force_deleted: Mapping[str, Amount] = {}
    kept_for_gangs: Mapping[str, Amount] = {}
    kept_for: tuple[str, ...] = ()
    beside: Mapping[str, Mapping[str, Amount]] = {}
    reported: ReportedStatus = ReportedStatus()


class ChainMember(_JsonStruct, frozen=True):
    """One queue of the chain: its state, what its own spec asks for, and its selector, where it has one.

    `parked`: its `spec.parked`; None where it says nothing. `windows`: those that are on. `unread`: it may
    not be read: nothing of it is known. `state` is None where a queue above that may not be read decides it.
    """

    queue: str
    state: State | None
    desired: Desired | None
    stop_policy: StopPolicy | None
    resume_at: datetime | None = None
    namespace_selector: str = ""
    terminating: bool = False
    parked: ParkedPods | None = None
    windows: tuple[str, ...] = ()
    unread: bool = False


class StopCause(_JsonStruct, frozen=True):
    """One queue that stops the object. `window`: the change window of it that does; "" where its spec does.
    `change`: the edit that did it; None where the history has none.

    `created`: when the queue was created, if it was created so. `lost`: the history does not go back so far.
    `contact`: whom to ask about that queue (`queues.contacts`); "" if it names no contact.
    """

    queue: str
    kind: CauseKind = msgspec.field(name="why")
    text: str
    way_out: str
    policy: StopPolicy = StopPolicy.NONE
    window: str = ""
    reason: str = ""
    change: HistoryLine | None = None
    created: str = ""
    lost: bool = False
    resume_at: datetime | None = None
    contact: str = ""


class QueueQuota(_JsonStruct, frozen=True):
    """`resources`: amounts by resource, then by what they are (`queues.quota.standing`). `waiting`: pods that
    wait for room, in the queue and below it. `not_enforced`: why its capability does not hold yet, or more is
    used; "" where it holds. Of what is used, `forceDeleted` is that of pods that were deleted by force.
    """

    waiting: int
    resources: Mapping[str, Mapping[str, str]]
    not_enforced: str = ""


class Explanation(_JsonStruct, frozen=True):
    """The answer. `acknowledged`: whether the stop of its queue is known to hold; None where its queue does
    not stop it. `acknowledged_since`: since when (RFC 3339); "" where it is not, or that is not known.
    `refusal`: why its queue accepts nothing new. `closing`: what keeps that from Closed.

    `room`: why a pod, or the minimum of a PodGroup, has no room in a quota. `gang`: how the pods of a
    PodGroup stand. `quota`: how a queue stands against its quota, as `kubectl queue usage -o json` has it.
    `contact`: whom to ask about the queue that has to be changed, or about its own; "" without a contact,
    or where it may not be read.
    """

    object: ObjectRef
    outcome: Fate = msgspec.field(name="fate")
    summary: str
    owners: tuple[ObjectRef, ...] = ()
    group: ObjectRef | None = None
    membership: ExplainedMembership | None = msgspec.field(default=None, name="belonging")
    chain: tuple[ChainMember, ...] = ()
    stops: tuple[StopCause, ...] = ()
    acknowledged: bool | None = None
    acknowledged_since: str = ""
    refusal: StopCause | None = None
    closing: str = ""
    notes: tuple[str, ...] = ()
    room: Room | None = None
    gang: GangReport | None = None
    quota: QueueQuota | None = None
    contact: str = ""


class ObservedQueues(msgspec.Struct, frozen=True, kw_only=True):
    """The queues of the chain as they were read, and the time. `unread`: the queue of the chain that may not
    be read, the nearest one; it is in the tree as Open. "" where all of the chain was read. `all_read`: the
    queues below them were read, too.
    """

    tree: Tree
    records: Mapping[str, QueueRecord]
    now: datetime
    unread: str = ""
    all_read: bool = False

    def record(self, name: str) -> QueueRecord:
        return self.records.get(name) or QueueRecord(live=False)

    def verdict(self, name: str) -> Verdict:
        return verdict(name, tree=self.tree, live=self.record(name).live, now=self.now)
