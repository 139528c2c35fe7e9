"""The pods that are members of queues, and their counts.

Invariants
- One writer: the pod reflector's thread. Readers on any thread get immutable values, or copies made in one
  step of the interpreter.
- A pod that is not a member is not stored.
- The counts of a queue always match its stored members: the call that changes a member changes the counts.
- A pod older than the stored one is dropped.
- Member pods that wait for a PodGroup that does not exist are stored with no queue yet (`queue == ""`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from contextlib import suppress
from datetime import datetime
from sys import intern
from typing import Protocol, TypeVar

import msgspec

from cluster.cache.pod_requests import held_requests
from cluster.cache.schedulers import SeenSchedulers
from cluster.cache.trimming import NAME, trim_finalizers, trim_labels
from cluster.inflight.admissions import admission_request
from cluster.objects import Condition, Metadata, OwnerReference, Pod
from queues import well_known
from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount
from queues.causes import StartReason
from queues.membership import GROUP_ANNOTATION, TASK, Membership, fits_label
from queues.messages import quoted_reason
from queues.policies.preemptable import preemptable_in
from queues.quota.devices import ClaimRef, claim_refs
from queues.quota.gang_placement import placement_seconds
from queues.quota.gangs import task_of
from queues.status.podgroup_phases import PodTally
from queues.untaken import SCHEDULER_NOT_SEEN, TAKE_SECONDS
from queues.workload_gangs import is_made_by_leader

#: The number of groups without members that are remembered before those whose PodGroup is gone are dropped.
MAX_LEFT_GROUPS = 1000
#: The reason of the condition PodScheduled while the pod has a scheduling gate.
GATED_REASON = "SchedulingGated"
#: The scheduler of pods that name none.
DEFAULT_SCHEDULER = "default-scheduler"
#: Reasons of that condition which no scheduler writes.
_NO_SIGN = frozenset({GATED_REASON, SCHEDULER_NOT_SEEN})
FINISHED_PHASES = frozenset({"Succeeded", "Failed"})


class Member(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A member pod. `gated`: it has our scheduling gate of stops; `quota_gated`: that of quotas;
    `other_gate`: the first gate that is not ours, "" without one; `holds_room`: the leader has written on it
    that a quota has room for it, so that it counts; `released`: the same, and it was not given up since: it
    may be bound.

    `podgroup`: the PodGroup that it names, which may not exist. `written`: its label and its annotation name
    its queue; or its label is empty, and it waits for its PodGroup.
    `filtered`: a scheduler calls filter for it (`is_filtered`). `requests`: its resource requests.
    `leaves_at`: the end of its grace period, if it is being deleted; `deletion_grace`: the length of that
    period in seconds. `own_grace`: the grace period of its spec in seconds. `scheduler_policy`: the policy
    that it names itself. `says_gated`: it has no gate, and its condition still says so; no
    scheduler that we know of will write another. `claims`: of devices (DRA). `task`: in its
    PodGroup. `untaken`: the scheduler that it names, which has said no word of it, though it could.
    `given_up`: that scheduler, while the pod is refused so that others get its room; `take_seconds`: its time
    (`queues.untaken`). `gang`: annotation `sluice.dev/gang`, while it waits for its PodGroup. `bound`: when
    it got its node, if the API server has written that. `preemptable`: whether it says that it may be evicted
    for others; None where it says nothing.
    """

    uid: str
    namespace: str
    name: str
    queue: str
    podgroup: str
    written: bool
    version: int
    phase: str
    node: str
    nominated: str
    gated: bool
    other_gate: str
    filtered: bool
    priority: int
    created: datetime
    owner_uid: str
    condition: str
    retried_for: str
    leaving: bool
    requests: Requests = ()
    labels: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_kind: str = ""
    owner_name: str = ""
    ready: bool = False
    leaves_at: datetime | None = None
    deletion_grace: int = 0
    own_grace: int = 0
    scheduler_policy: str = ""
    priority_class: str = ""
    says_gated: bool = False
    quota_gated: bool = False
    holds_room: bool = False
    released: bool = False
    claims: tuple[ClaimRef, ...] = ()
    task: str = ""
    gang: str = ""
    untaken: str = ""
    given_up: str = ""
    take_seconds: float = TAKE_SECONDS
    bound: datetime | None = None
    preemptable: bool | None = None

    @property
    def live(self) -> bool:
        return self.phase not in FINISHED_PHASES

    @property
    def others_gated(self) -> bool:
        return bool(self.other_gate)

    @property
    def waiting(self) -> bool:
        """Whether it is live and on no node yet."""
        return not self.node and self.live

    @property
    def uses_quota(self) -> bool:
        """Whether what it requests counts (`queues.quota`): it is on a node, or was released. One that was
        given up counts until its bind is known to be refused everywhere (`queues.untaken`).

        One that is being deleted and never had a node is bound no more.
        """
        if self.node or not self.live:
            return self.live
        return self.holds_room and not (self.gated or self.quota_gated or self.leaving)

    @property
    def unreleased(self) -> bool:
        """Whether it waits without a gate of ours, and no quota was asked for room: it may have none."""
        return self.waiting and not (self.released or self.leaving or self.gated or self.quota_gated)

    @property
    def bindable(self) -> bool:
        """Whether it could be bound now: it waits, has no gate, and is not being deleted."""
        return self.waiting and not self.leaving and not self.is_gated

    @property
    def is_gated(self) -> bool:
        """Whether it has any gate."""
        return self.gated or self.quota_gated or self.others_gated

    @property
    def may_be_bound(self) -> bool:
        """Whether it is bindable, or unfiltered: then its gate may go and its bind needs no filter call."""
        return self.bindable or (self.waiting and not self.leaving and not self.filtered)

    @property
    def refusal(self) -> StartReason | None:
        """Why filter refused it, as its own condition says; None if it is not bindable, or filter did not."""
        if not self.condition or not self.bindable:
            return None
        return quoted_reason(self.condition, queue=self.queue, podgroup=self.podgroup)

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name


class MemberCounts(msgspec.Struct, gc=False):
    """The members of a queue by state; written by the pod reflector's thread only.

    `pending`: on no node yet; `gated` and `quota_gated` count parts of them, `held` those that have either
    gate or were not released, so that they wait where there is a quota. `allocated`: the requests of the
    running members. `releasing`: the part of these whose pods are being deleted. `used`: what counts for a
    quota (`Member.uses_quota`), of `using` pods; `claims`: the claims of these, and how many pods have each.
    """

    pending: int = 0
    gated: int = 0
    quota_gated: int = 0
    held: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    live: int = 0
    allocated: dict[str, Amount] = {}
    releasing: dict[str, Amount] = {}
    used: dict[str, Amount] = {}
    using: int = 0
    claims: dict[ClaimRef, int] = {}
    #: The number of live members by namespace.
    live_by_namespace: dict[str, int] = {}

    def add(self, member: Member, by: int) -> None:
        if member.uses_quota:
            self.using += by
            _add_requests(self.used, member.requests, by)
            for claim in member.claims:
                _add_number(self.claims, claim, by)
        if member.live:
            self.live += by
            _add_number(self.live_by_namespace, member.namespace, by)
        if member.phase == "Succeeded":
            self.succeeded += by
        elif member.phase == "Failed":
            self.failed += by
        elif member.node:
            self.running += by
            _add_requests(self.allocated, member.requests, by)
            if member.leaving:
                _add_requests(self.releasing, member.requests, by)
        else:
            self.pending += by
            self.gated += by if member.gated else 0
            self.quota_gated += by if member.quota_gated else 0
            self.held += by if member.gated or member.quota_gated or member.unreleased else 0


def _add_requests(amounts: dict[str, Amount], requests: Requests, by: int) -> None:
    for resource, amount in requests:
        total = amounts.get(resource, 0) + by * amount
        if total:
            amounts[resource] = total
        else:
            amounts.pop(resource, None)


NO_MEMBERS = MemberCounts()


class BindableCounts(msgspec.Struct, gc=False):
    """The number of bindable members of a queue by namespace: all of them, the unfiltered ones, and those for
    which no quota was asked for room.
    """

    namespaces: dict[str, int] = {}
    unfiltered: dict[str, int] = {}
    unreleased: dict[str, int] = {}

    def add(self, member: Member, by: int) -> None:
        _add_number(self.namespaces, member.namespace, by)
        if not member.filtered:
            _add_number(self.unfiltered, member.namespace, by)
        if member.bindable and not member.released:
            _add_number(self.unreleased, member.namespace, by)


K = TypeVar("K")


def _add_number(numbers: dict[K, int], key: K, by: int) -> None:
    number = numbers.get(key, 0) + by
    if number:
        numbers[key] = number
    else:
        numbers.pop(key, None)


class MemberEvents(Protocol):
    """What the cache of members asks of the other caches, and what it tells them. The store implements it.

    Called in the pod reflector's thread.
    """

    def pod_membership(self, pod: Pod) -> Membership | None:
        """Return the membership of a stored pod; None if it is no member."""

    def podgroup_uid(self, namespace: str, name: str) -> str:
        """Return the UID of the PodGroup; "" if it does not exist."""

    def member_arrived(self, admission: str) -> None:
        """A new member is stored. `admission`: its admission request."""

    def will_store_member(self, before: Member | None, after: Member | None) -> None:
        """A pod that the watch has is about to be stored with another state; None: it is no member."""

    def will_remove_member(self, member: Member, version: int) -> None:
        """A member has left the watch, at this version, and is about to be removed; 0: a list lacks it."""

    def will_delete_member(self, member: Member) -> None:
        """A member was deleted, and is about to be removed. `will_remove_member` was called."""

    def member_changed(self, before: Member | None, after: Member | None) -> None:
        """A member has another state than before; None: it does not exist."""

    def unknown_pod_removed(self, pod: Pod) -> None:
        """A pod that was no member was deleted."""


class Members:
    """The member pods; the event handler of the pod reflector."""

    def __init__(self, events: MemberEvents, *, calling_schedulers: Container[str] = ()) -> None:
        """`calling_schedulers`: those that call the extender for each of their pods."""
        self._events = events
        self._calling_schedulers = calling_schedulers
        self._by_uid: dict[str, Member] = {}
        self._by_key: dict[tuple[str, str], Member] = {}
        self._by_queue: dict[str, dict[str, Member]] = {}
        #: The waiting members of each queue: a queue may run thousands while few wait.
        self._waiting: dict[str, dict[str, Member]] = {}
        self._by_podgroup: dict[tuple[str, str], dict[str, Member]] = {}
        #: By namespace and name of a claim of devices that pods may share.
        self._by_claim: dict[tuple[str, str], dict[str, Member]] = {}
        #: The UID of each PodGroup whose last member is gone.
        self._left: dict[tuple[str, str], str] = {}
        self._forget_at = MAX_LEFT_GROUPS
        self._counts: dict[str, MemberCounts] = {}
        #: How many members have the gate of quotas, in all queues.
        self.quota_gated = 0
        self._bindable: dict[str, BindableCounts] = {}
        #: Those that no scheduler has taken, though it could; and those that were given up.
        self._untaken: dict[str, Member] = {}
        self.schedulers = SeenSchedulers()

    def replace(self, objects: list[Pod]) -> None:
        present = {pod.metadata.uid for pod in objects}
        for uid in [uid for uid in list(self._by_uid) if uid not in present]:
            self._events.will_remove_member(self._by_uid[uid], 0)
            self._set(self._by_uid[uid], None)
        for pod in objects:
            self.upsert(pod)

    def upsert(self, obj: Pod) -> None:
        before = self._by_uid.get(obj.metadata.uid)
        if before is not None and obj.metadata.version < before.version:
            return
        membership = self._events.pod_membership(obj)
        after = (
            None
            if membership is None
            else _member(obj, membership, filtered=is_filtered(obj, self._calling_schedulers))
        )
        if before is not None or after is not None:
            self._events.will_store_member(before, after)
            self._set(before, after)
            if after is not None and not after.filtered:
                self._record_sign(obj)
            if before is None:
                self._events.member_arrived(admission_request(obj.metadata))

    def remove(self, obj: Pod) -> None:
        before = self._by_uid.get(obj.metadata.uid)
        if before is not None:
            self._events.will_remove_member(before, obj.metadata.version)
            if obj.metadata.deletion_timestamp is not None:  # else it has lost its label
                self._events.will_delete_member(before)
            self._set(before, None)
        else:
            self._events.unknown_pod_removed(obj)

    def _record_sign(self, pod: Pod) -> None:
        """Of a scheduler other than those that ask us, and Kubernetes' own."""
        scheduler = pod.spec.scheduler_name
        if scheduler != DEFAULT_SCHEDULER and (at := _sign(pod)) is not None:
            self.schedulers.record(intern(scheduler[:NAME]), at)

    def _set(self, before: Member | None, after: Member | None) -> None:
        # This order lets a reader see the old or the new state, never neither; counts are never too low.
        counted = before is None or after is None or _counted(before) != _counted(after)
        if after is not None:
            self._add(after)
            if counted:
                self._count(after, 1)
        if before is not None:
            if counted:
                self._count(before, -1)
            self._remove(before)
        self._events.member_changed(before, after)

    def _count(self, member: Member, by: int) -> None:
        self._counts.setdefault(member.queue, MemberCounts()).add(member, by)
        if member.quota_gated:
            self.quota_gated += by
        if member.may_be_bound:
            self._bindable.setdefault(member.queue, BindableCounts()).add(member, by)

    def _add(self, member: Member) -> None:
        self._by_uid[member.uid] = member
        self._by_key[member.key] = member
        self._by_queue.setdefault(member.queue, {})[member.uid] = member
        if member.waiting:
            self._waiting.setdefault(member.queue, {})[member.uid] = member
        if member.untaken or member.given_up:
            self._untaken[member.uid] = member
        if member.podgroup:
            self._by_podgroup.setdefault((member.namespace, member.podgroup), {})[member.uid] = member
        for key in _shared_claims(member):
            self._by_claim.setdefault(key, {})[member.uid] = member

    def _remove(self, member: Member) -> None:
        """Remove this state of the member from each index, unless a newer one has replaced it."""
        _remove_state(self._by_uid, member.uid, member)
        _remove_state(self._by_key, member.key, member)
        _remove_state(self._untaken, member.uid, member)
        if member.podgroup:
            self._leave_group(member)
        for key in _shared_claims(member):
            with_claim = self._by_claim.get(key, {})
            _remove_state(with_claim, member.uid, member)
            if not with_claim:
                self._by_claim.pop(key, None)
        in_queue = self._by_queue[member.queue]
        _remove_state(in_queue, member.uid, member)
        if member.waiting:
            _remove_state(self._waiting[member.queue], member.uid, member)
        if not in_queue:  # users choose queue names: an index without members would stay for good
            for index in (self._by_queue, self._waiting, self._counts, self._bindable):
                index.pop(member.queue, None)

    def _leave_group(self, member: Member) -> None:
        """Remember that the PodGroup had members, as long as that very PodGroup exists."""
        key = (member.namespace, member.podgroup)
        in_group = self._by_podgroup[key]
        _remove_state(in_group, member.uid, member)
        if in_group:
            return
        uid = self._events.podgroup_uid(*key)
        if uid:
            self._left[key] = uid
        del self._by_podgroup[key]  # after that, so that a reader sees one of the two entries
        if len(self._left) >= self._forget_at:
            self._left = {
                key: uid for key, uid in self._left.items() if self._events.podgroup_uid(*key) == uid
            }
            self._forget_at = len(self._left) + MAX_LEFT_GROUPS

    # Readers

    def __len__(self) -> int:
        return len(self._by_uid)

    def get(self, namespace: str, name: str) -> Member | None:
        return self._by_key.get((namespace, name))

    def by_uid(self, uid: str) -> Member | None:
        return self._by_uid.get(uid)

    def owner_uids(self) -> list[str]:
        """Return the UIDs of the owners of all members; "" for those without."""
        return [member.owner_uid for member in list(self._by_uid.values())]

    def in_queue(self, queue: str) -> list[Member]:
        """Return the members of one queue, in no order."""
        members = self._by_queue.get(queue)
        return list(members.values()) if members else []

    def waiting_in(self, queue: str) -> list[Member]:
        """Return the members of one queue that are on no node yet, in no order."""
        members = self._waiting.get(queue)
        return list(members.values()) if members else []

    @property
    def has_untaken(self) -> bool:
        """Whether some wait that no scheduler has taken, though it could."""
        return bool(self._untaken)

    def untaken(self) -> list[Member]:
        """Return the members that no scheduler has taken, though it could, and those that were given up."""
        return list(self._untaken.values())

    def queues(self) -> list[str]:
        """Return the names of the queues that have members; a queue may not exist."""
        return list(self._by_queue)

    def in_podgroup(self, namespace: str, podgroup: str) -> list[Member]:
        """Return the members that name this PodGroup."""
        members = self._by_podgroup.get((namespace, podgroup))
        return list(members.values()) if members else []

    def with_claim(self, namespace: str, name: str) -> list[Member]:
        """Return the members that name this claim of devices."""
        members = self._by_claim.get((namespace, name))
        return list(members.values()) if members else []

    def had_podgroup(self, namespace: str, podgroup: str, uid: str) -> bool:
        """Return whether members name this very PodGroup, or did."""
        key = (namespace, podgroup)
        return key in self._by_podgroup or self._left.get(key) == uid

    def counts(self, queue: str) -> MemberCounts:
        return self._counts.get(queue, NO_MEMBERS)

    def bindable_queues(self) -> list[str]:
        """Return the queues with a member that could be bound at any moment, and some that had one."""
        return list(self._bindable)

    def bindable_namespaces(self, queue: str) -> list[str]:
        """Return the namespaces in which a member of this queue could be bound at any moment."""
        bindable = self._bindable.get(queue)
        return list(bindable.namespaces) if bindable else []

    def unfiltered_namespaces(self, queue: str) -> list[str]:
        """Return those of them where kube-scheduler does not call us for at least one of the members."""
        bindable = self._bindable.get(queue)
        return list(bindable.unfiltered) if bindable else []

    def unreleased_namespaces(self, queue: str) -> list[str]:
        """Return those of them with a member for which no quota was asked for room."""
        bindable = self._bindable.get(queue)
        return list(bindable.unreleased) if bindable else []

    def live(self, queues: Iterable[str]) -> int:
        return sum(self.counts(queue).live for queue in queues)


def _member(pod: Pod, membership: Membership, *, filtered: bool) -> Member:
    meta, spec, status = pod.metadata, pod.spec, pod.status
    gates = [gate.name for gate in spec.scheduling_gates or ()]
    owner = controller_reference(meta.owner_references)
    return Member(
        uid=meta.uid,
        namespace=meta.namespace,
        name=meta.name,
        queue=membership.queue or "",
        podgroup=membership.podgroup or meta.annotation(GROUP_ANNOTATION),
        written=_is_written(meta, membership.queue or ""),
        version=meta.version,
        phase=status.phase,
        node=spec.node_name,
        nominated=status.nominated_node_name,
        gated=well_known.GATE in gates,
        quota_gated=well_known.QUOTA_GATE in gates,
        holds_room=holds_room(meta),
        released=is_released(meta),
        other_gate=next((intern(gate) for gate in gates if gate not in well_known.OWN_GATES), ""),
        filtered=filtered,
        priority=spec.priority or 0,
        created=meta.created,
        owner_uid=owner.uid if owner else "",
        condition=_scheduling_message(pod),
        retried_for=meta.annotation(well_known.RETRIED_FOR),
        leaving=meta.deletion_timestamp is not None,
        requests=held_requests(pod),
        claims=claim_refs(
            spec.resource_claims,
            namespace=meta.namespace,
            uid=meta.uid,
            made=status.resource_claim_statuses,
        ),
        labels=trim_labels(meta.labels),
        finalizers=trim_finalizers(meta.finalizers),
        owner_kind=owner.kind if owner else "",
        owner_name=intern(owner.name[:NAME]) if owner else "",
        ready=_is_ready(pod),
        leaves_at=meta.deletion_timestamp,
        deletion_grace=meta.deletion_grace_period_seconds or 0,
        own_grace=spec.termination_grace_period_seconds or 0,
        # Many pods share the few values of these.
        scheduler_policy=intern(meta.annotation(well_known.SCHEDULER_POLICY)),
        priority_class=intern(spec.priority_class_name or ""),
        task=intern(task_of(meta.annotation(TASK), meta.label(TASK))[:NAME]),
        gang="" if membership.queue else intern(meta.annotation(well_known.GANG)[: NAME + 11]),
        untaken=(untaken := _untaken(pod, filtered=filtered)),
        given_up="" if spec.node_name else intern(meta.annotation(well_known.UNTAKEN)[:NAME]),
        take_seconds=placement_seconds(meta.annotation(well_known.PLACE_WITHIN))[0]
        if untaken
        else TAKE_SECONDS,
        says_gated=not filtered and not gates and _says_gated(pod),
        bound=_bound(pod) if spec.node_name else None,
        preemptable=preemptable_in(meta.annotations, meta.labels),
    )


def _shared_claims(member: Member) -> Iterable[tuple[str, str]]:
    return [(claim.namespace, claim.name) for claim in member.claims if not claim.owner]


def _is_written(meta: Metadata, queue: str) -> bool:
    label = (meta.labels or {}).get(well_known.QUEUE)
    if not queue:
        return label == ""
    return bool(label) and meta.annotation(well_known.QUEUE) == queue and fits_label(queue, label or "")


def _counted(member: Member) -> tuple[object, ...]:
    """Return all fields that the counts depend on: most events change none of them."""
    return (
        *(member.queue, member.phase, not member.node, member.gated, member.others_gated, member.filtered),
        *(member.namespace, member.requests, member.leaving, member.quota_gated, member.released),
        *(member.claims, member.holds_room),
    )


def _remove_state(index: dict[K, Member], key: K, member: Member) -> None:
    if index.get(key) is member:
        del index[key]


def tally_pods(members: Iterable[Member]) -> PodTally:
    """Count waiting, running and finished pods, as a PodGroup counts its pods."""
    counts = MemberCounts()
    for member in members:
        counts.add(member, 1)
    return PodTally(
        waiting=counts.pending, running=counts.running, succeeded=counts.succeeded, failed=counts.failed
    )


def controller_reference(references: list[OwnerReference] | None) -> OwnerReference | None:
    """Return the owner with `controller: true`."""
    return next((owner for owner in references or () if owner.controller), None)


def is_podgroup_made(member: Member) -> bool:
    """Return whether the leader creates the PodGroup that the member names (`queues.workload_gangs`)."""
    return bool(member.gang) and is_made_by_leader(
        member.podgroup, gang=member.gang, owner_kind=member.owner_kind, owner_uid=member.owner_uid
    )


def is_filtered(pod: Pod, calling_schedulers: Container[str]) -> bool:
    """Return whether no scheduler binds the pod without a filter call (`queues.mode`)."""
    return is_marked(pod) or pod.spec.scheduler_name in calling_schedulers


def holds_room(meta: Metadata) -> bool:
    """Return whether the leader has written on the pod that a quota has room for it."""
    return bool(meta.uid) and meta.label(well_known.RELEASED) == meta.uid


def is_released(meta: Metadata) -> bool:
    """Return whether that is so, and the pod was not given up since (`queues.untaken`)."""
    return holds_room(meta) and not meta.annotation(well_known.UNTAKEN)


def is_marked(pod: Pod) -> bool:
    """Return whether the pod requests the marker, for which kube-scheduler calls our extender."""
    return any(
        container.resources is not None and well_known.MARKER in (container.resources.requests or {})
        for container in pod.spec.containers or ()
    )


def _is_ready(pod: Pod) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions or ()
    )


def _bound(pod: Pod) -> datetime | None:
    """Since when its condition PodScheduled is True."""
    for condition in pod.status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "True" and condition.last_transition_time:
            return _time_of(condition)
    return None


def _time_of(condition: Condition) -> datetime | None:
    """Since when the condition is as it is; None where it does not say so."""
    with suppress(ValueError):
        at = datetime.fromisoformat(condition.last_transition_time or "")
        return at if at.tzinfo is not None else None
    return None


def _untaken(pod: Pod, *, filtered: bool) -> str:
    """The scheduler that the pod names, if that has said no word of it, though it could; else ""."""
    spec, scheduler = pod.spec, pod.spec.scheduler_name
    if filtered or scheduler == DEFAULT_SCHEDULER or spec.node_name or spec.scheduling_gates:
        return ""
    is_over = pod.status.phase in FINISHED_PHASES or pod.metadata.deletion_timestamp is not None
    if is_over or pod.status.nominated_node_name or _sign(pod) is not None:
        return ""
    return intern(scheduler[:NAME])


def _sign(pod: Pod) -> datetime | None:
    """When the pod's scheduler last did something with it; None: it has done nothing."""
    condition = _unscheduled_condition(pod)
    if condition is not None and condition.reason not in _NO_SIGN:
        return _time_of(condition) or pod.metadata.created
    return _bound(pod) or pod.metadata.created if pod.spec.node_name else None


def _scheduling_message(pod: Pod) -> str:
    """Return the message of its PodScheduled condition while that is False.

    A message from the time when it had gates is void once they are gone, though it stays in the condition
    until kube-scheduler tries the pod.
    """
    condition = _unscheduled_condition(pod)
    if condition is None or condition.reason == SCHEDULER_NOT_SEEN:
        return ""
    if condition.reason == GATED_REASON and not pod.spec.scheduling_gates:
        return ""
    return condition.message


def _says_gated(pod: Pod) -> bool:
    """Whether its condition is of the time when it had gates, if a scheduler other than Kubernetes' own is to
    write the next one: nobody may run that.
    """
    condition = _unscheduled_condition(pod) if pod.spec.scheduler_name != DEFAULT_SCHEDULER else None
    return condition is not None and condition.reason == GATED_REASON


def _unscheduled_condition(pod: Pod) -> Condition | None:
    """Its condition PodScheduled while that is False."""
    return next(
        (
            condition
            for condition in pod.status.conditions or ()
            if condition.type == "PodScheduled" and condition.status == "False"
        ),
        None,
    )
