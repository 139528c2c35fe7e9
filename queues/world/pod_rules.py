"""Pods as quotas take them: which of them wait for us, which may go, and what each requests.

Invariants
- Everything is asked of the world as it is now, but for whether pods that are alike may start, and which are
  postponed: that is the same for a whole reading (`begin_reading`). What changes later is read later.

Threads: `waits` and `may_start` are asked from any; all else by the controller's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from queues.apimachinery.pod_requests import Requests
from queues.causes import StartReason
from queues.quota.devices import with_devices
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import quota_requests
from queues.world.members import Member
from queues.world.world import World

#: So many different requests are remembered.
MAX_KNOWN = 4096


def is_gated(member: Member) -> bool:
    return member.waiting and (member.gated or member.quota_gated)


class PodRules:
    """Owner: who made the world, or for the leader's `WaitingPods`."""

    def __init__(
        self,
        world: World,
        *,
        counts_devices: Callable[[str], bool],
    ) -> None:
        """`counts_devices`: whether a capability of this queue's chain names devices."""
        self._world = world
        #: Pods that are not to be released now, by UID.
        self._postponed: Collection[str] = ()
        self._counts_devices = counts_devices
        #: Whether members that are alike may start, while changes are read.
        self._may_start: dict[tuple[object, ...], bool] = {}
        #: Requests of pods, and what they take of a quota, by the identity of the former.
        self._known_requests: dict[int, tuple[Requests, Requests]] = {}

    def begin_reading(self, *, postponed: Collection[str]) -> None:
        """`postponed`: pods that are not to be released now, by UID."""
        self._may_start.clear()
        self._postponed = postponed

    def is_postponed(self, uid: str) -> bool:
        return uid in self._postponed

    # Queues

    def has_quota(self, queue: str) -> bool:
        return bool(queue) and self._world.snapshot.decision(queue).has_quota

    def concerns(self, queue: str) -> bool:
        """Whether we release its pods."""
        has_quota = self._world.snapshot.decision(queue).has_quota
        return has_quota or self._world.members.quota_gated_in(queue) > 0

    def is_counted(self, queue: str) -> bool:
        """Whether what its pods use is asked for: here, or in a queue that was above it before it went."""
        if self.concerns(queue):
            return True
        snapshot = self._world.snapshot
        chain = snapshot.tree.counting_chain(queue)
        return any(snapshot.decision(above).has_quota for above in chain[1:])

    # Pods

    def waits(self, member: Member) -> bool:
        """Whether it waits for us: it has a gate of ours, or its quota was not asked whether it has room. One
        that was given up is not asked for (`queues.untaken`).
        """
        if is_gated(member):
            return True
        return (
            member.unreleased
            and not member.given_up
            and self._world.snapshot.decision(member.queue).has_quota
        )

    def may_start(self, member: Member) -> bool:
        """Whether nothing but its quota keeps it waiting."""
        start = self._world.decisions.of_member(member)
        return start.may_start or start.reason is StartReason.NO_ROOM

    def may_be_released(self, member: Member) -> bool:
        """Not before its queue is written on it: which one that is would hang on whether a replica has heard
        of its PodGroup, and the next leader may count it nowhere.
        """
        return self.waits(member) and self.may_go(member)

    def may_go(self, member: Member) -> bool:
        """Whether a waiting pod may be released. A pod that has our gate and the gate of another controller
        may not: it would hold room that it cannot use. A pod without our gate may be bound as soon as the
        other gate is removed, perhaps before the guard is on. So it counts as if it had no gate.
        """
        is_kept = bool(member.other_gate) and is_gated(member) and self.has_quota(member.queue)
        return not is_kept and self._may_be_asked_for(member)

    def _may_be_asked_for(self, member: Member) -> bool:
        return (
            member.written
            and not member.leaving
            and (member.quota_gated or self.concerns(member.queue))
            and self._may_start_as_read(member)
        )

    def awaits_other_gate(self, member: Member) -> bool:
        """Whether the scheduling gate of another controller is all that keeps the pod from its release."""
        is_kept = member.waiting and not member.leaving and not self.may_go(member)
        return is_kept and bool(member.other_gate) and is_gated(member) and self._may_be_asked_for(member)

    def _may_start_as_read(self, member: Member) -> bool:
        alike = (
            member.queue,
            member.namespace,
            member.podgroup,
            member.scheduler_policy,
            not member.requests,
        )
        known = self._may_start.get(alike)
        if known is None:
            known = self._may_start[alike] = self.may_start(member)
        return known

    def is_asked_with_gang(self, member: Member) -> bool:
        """Whether it goes by what is asked for of its PodGroup: that is a gang, or does not exist."""
        if not member.podgroup or not self.has_quota(member.queue):
            return False
        key = member.namespace, member.podgroup
        groups = self._world.podgroups
        return groups.gang(*key) is not None or groups.get(*key) is None

    def requests(self, member: Member) -> Requests:
        """What it takes of a quota; by its claims too, where a capability of its chain names devices."""
        requests = self._quota_requests(member.requests)
        if self._counts_devices(member.queue):
            return with_devices(requests, member.claims, self._world.device_claims)
        return requests

    def _quota_requests(self, requests: Requests) -> Requests:
        """As `quota_requests`, by identity: equal requests are one object, as a rule, and to hash them takes
        as long as all else that is done for a pod.
        """
        known = self._known_requests.get(id(requests))
        if known is not None and known[0] is requests:
            return known[1]
        if len(self._known_requests) >= MAX_KNOWN:
            self._known_requests.clear()
        counted = quota_requests(requests)
        self._known_requests[id(requests)] = requests, counted
        return counted

    def priority(self, member: Member) -> int:
        """That of the PriorityClass that its PodGroup names; else its own."""
        gang = self._world.podgroups.gang(member.namespace, member.podgroup) if member.podgroup else None
        return member.priority if gang is None or gang.priority is None else gang.priority

    def waiting_pod(self, member: Member) -> WaitingPod:
        return WaitingPod(
            uid=member.uid,
            queue=member.queue,
            requests=self.requests(member),
            priority=member.priority,
            since=member.created,
        )
