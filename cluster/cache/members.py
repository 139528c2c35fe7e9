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
from sys import intern
from typing import Protocol, TypeVar

import msgspec

from cluster.cache.schedulers import SeenSchedulers
from cluster.inflight.admissions import admission_request
from cluster.objects import Pod
from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.quantities import Amount
from queues.membership import Membership
from queues.quota.devices import ClaimRef
from queues.status.podgroup_phases import PodTally
from queues.world.members import DEFAULT_SCHEDULER, Member, is_filtered, read_member, scheduler_sign
from queues.world.trimming import NAME

__all__ = ["NO_MEMBERS", "BindableCounts", "Member", "MemberCounts", "MemberEvents", "Members", "tally_pods"]

#: The number of groups without members that are remembered before those whose PodGroup is gone are dropped.
MAX_LEFT_GROUPS = 1000


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
            else read_member(obj, membership, filtered=is_filtered(obj, self._calling_schedulers))
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
        if scheduler != DEFAULT_SCHEDULER and (at := scheduler_sign(pod)) is not None:
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

    def quota_gated_in(self, queue: str) -> int:
        """Return how many members of the queue have the gate of quotas."""
        return self.counts(queue).quota_gated

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


def _shared_claims(member: Member) -> Iterable[tuple[str, str]]:
    return [(claim.namespace, claim.name) for claim in member.claims if not claim.owner]


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
