"""The running pods of a drain, read from the cache: who made each, and which of its owners can be suspended.

Which owner counts is said in `queues.drain.owners`. For an owner that the cache does not have yet the drain
waits until `UNKNOWN_OWNER_WAIT` after the pod was created, and until it was looked up
(`Store.missing_owners`). It also waits while the queue of an owner may be another than the cache has, since
its namespace names another (`Store.membership_relist_pending`).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property

from cluster.cache.members import Member
from cluster.cache.store import Store
from queues.drain.broken_gangs import GangMinimum
from queues.drain.disruption_budgets import BudgetKey
from queues.drain.model import RunningPod, SuspendableWorkload
from queues.drain.owners import DrainOwners, suspendable_workload
from queues.workload_kinds import KINDS, MAX_OWNERS, SUSPENDABLE, Life
from queues.world import running_pods

#: The `kind` of an owner that may have to be suspended instead of its pods evicted.
SUSPENDABLE_OWNERS = frozenset(row.kind for row in SUSPENDABLE.values())
#: The same of one that may have to be scaled to zero.
SCALABLE_OWNERS = frozenset(row.kind for row in KINDS.values() if row.life is Life.WHILE_SCALED)
#: How long after its creation a pod waits for an owner that the cache does not have yet.
UNKNOWN_OWNER_WAIT = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class RunningPodReader:
    """Reads the members of the queues of one drain.

    `requested`: UIDs of pods and workloads with a request that the cache does not show yet.
    `unsuspendable`: UIDs of workloads that no controller suspends. `delayed`: UIDs of delayed pods. `scales`:
    whether workloads that can be scaled are brought to zero now.
    """

    store: Store
    queues: frozenset[str]
    requested: Container[str]
    unsuspendable: Container[str]
    delayed: Container[str]
    now: datetime
    scales: bool = False

    def pods(self) -> Iterator[RunningPod]:
        """The pods that are on a node and have not finished."""
        for queue in self.queues:
            for member in self.store.members.in_queue(queue):
                if running_pods.is_running(member):
                    yield self._running_pod(member)

    @cached_property
    def _owners(self) -> DrainOwners:
        return DrainOwners(
            by_uid=self.store.workloads.by_uid,
            queues=self.queues,
            unsuspendable=self.unsuspendable,
            scales=self.scales,
        )

    def _running_pod(self, member: Member) -> RunningPod:
        owner_unknown = self._is_owner_unknown(member)
        is_daemon = self._owners.is_daemon(member.owner_uid, namespace=member.namespace)
        return running_pods.running_pod(
            member,
            workload=self._workload(member),
            is_daemon=is_daemon or (owner_unknown and member.owner_kind == "DaemonSet"),
            is_going=member.uid in self.requested
            or (owner_unknown and self._may_have_to_wait(member.owner_kind)),
        )

    def _workload(self, member: Member) -> SuspendableWorkload | None:
        owner = self._owners.suspendable(member.owner_uid, namespace=member.namespace)
        if owner is None:
            return None
        is_requested, is_stalled = owner.uid in self.requested, member.uid in self.delayed
        return suspendable_workload(owner, requested=is_requested, stalled=is_stalled)

    def _is_owner_unknown(self, member: Member) -> bool:
        """Whether the cache may lack the owner, or its queue, for now; or the owner of a scaled one."""
        uid = member.owner_uid
        for _ in range(MAX_OWNERS if self.scales else 1):
            owner = self.store.workloads.by_uid(uid)
            if owner is None:
                is_young = member.created + UNKNOWN_OWNER_WAIT > self.now
                return is_young or uid in self.store.missing_owners
            if not owner.queue and self.store.membership_relist_pending:
                return True
            if not owner.owner_uid:
                break
            uid = owner.owner_uid
        return False

    def _may_have_to_wait(self, owner_kind: str) -> bool:
        """Whether a pod waits for an unknown owner of this kind, since that may go in its place."""
        return owner_kind in SUSPENDABLE_OWNERS or (self.scales and owner_kind in SCALABLE_OWNERS)


def gang_minimums(store: Store, pods: Collection[RunningPod]) -> dict[BudgetKey, GangMinimum]:
    """What the gangs of these pods of one drain need."""
    return running_pods.gang_minimums(pods, StoredGangs(store))


class StoredGangs:
    """Implements `queues.world.running_pods.Gangs`."""

    def __init__(self, store: Store) -> None:
        self.gang = store.podgroups.gang
        self.in_podgroup = store.members.in_podgroup
