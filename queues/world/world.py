"""`World`: what is known of a cluster at one time, in the parts of which rules ask.

The store of a replica is one (`cluster.cache.store`), and so are lists (`listed`). What a world has not seen
is not there; who filled it says what that is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from queues.quota.devices import Devices
from queues.quota.gangs import Gang
from queues.snapshot import QueueDecision, QueueSnapshot
from queues.start_decision import StartDecision
from queues.world.members import Member
from queues.world.objects import PodGroup
from queues.world.workloads import Workload


class WorldMembers(Protocol):
    def waiting_in(self, queue: str) -> Sequence[Member]:
        """Return the members of one queue that are on no node yet, in no order."""

    def in_podgroup(self, namespace: str, podgroup: str) -> Sequence[Member]:
        """Return the members that name this PodGroup."""

    def quota_gated_in(self, queue: str) -> int:
        """Return how many members of the queue have the gate of quotas."""


class WorldPodGroups(Protocol):
    def get(self, namespace: str, name: str) -> PodGroup | None: ...

    def gang(self, namespace: str, name: str) -> Gang | None:
        """Return what the PodGroup asks for; None if its pods go by themselves, or it does not exist."""

    def in_queue(self, queue: str) -> Sequence[PodGroup]: ...


class WorldWorkloads(Protocol):
    def by_uid(self, uid: str) -> Workload | None: ...


class WorldDecisions(Protocol):
    def of_queue(self, queue: str, *, namespace: str) -> QueueDecision:
        """Return what a queue decides for the members of a namespace."""

    def of_member(self, member: Member) -> StartDecision:
        """Return whether the member may start."""


class World(Protocol):
    @property
    def snapshot(self) -> QueueSnapshot: ...
    @property
    def members(self) -> WorldMembers: ...
    @property
    def podgroups(self) -> WorldPodGroups: ...
    @property
    def workloads(self) -> WorldWorkloads: ...
    @property
    def decisions(self) -> WorldDecisions: ...
    @property
    def device_claims(self) -> Devices: ...
