"""The running pods of a drain, read from the cache: who made each, and which of its owners can be suspended.

An owner reference is what a user wrote. It counts where what it names is there, in the same namespace; a
workload that is to be suspended has to be of a queue that is drained too, and unfinished. What another
controller acts on (`spec.managedBy`) is not suspended, nor what is above it: its pods are evicted. An owner
that the cache does not have yet is waited for, `UNKNOWN_OWNER_WAIT` after the pod was made.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from cluster.cache.members import Member
from cluster.cache.store import Store
from cluster.cache.workloads import Workload
from queues.drain.model import (
    RunningPod,
    SuspendableWorkload,
    Termination,
)
from queues.drain.terminating_pods import requested_at
from queues.workload_kinds import MAX_OWNERS, SUSPENDABLE

#: How long an owner that is not known yet is waited for.
UNKNOWN_OWNER_WAIT = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class RunningPodReader:
    """Reads the members of the queues of one drain.

    `requested`: UIDs of pods and workloads that were asked to go, though the cache does not show it.
    `unsuspendable`: UIDs of workloads that no controller suspends. `delayed`: UIDs of delayed pods.
    """

    store: Store
    queues: frozenset[str]
    requested: Container[str]
    unsuspendable: Container[str]
    delayed: Container[str]
    now: datetime

    def pods(self) -> Iterator[RunningPod]:
        """Those that are on a node and have not finished."""
        for queue in self.queues:
            for member in self.store.members.in_queue(queue):
                if member.node and member.live:
                    yield self._running_pod(member)

    def _running_pod(self, member: Member) -> RunningPod:
        workload = self._suspendable_owner(member)
        is_young = member.created + UNKNOWN_OWNER_WAIT > self.now
        owner_unknown = is_young and not self.store.workloads.by_uid(member.owner_uid)
        return RunningPod(
            uid=member.uid,
            namespace=member.namespace,
            name=member.name,
            queue=member.queue,
            labels=member.labels,
            created=member.created,
            priority=member.priority,
            pod_group=member.group,
            workload=self._suspendable_workload(workload, member) if workload is not None else None,
            bare=not member.owner_uid,
            daemon=self._is_daemon(member) or (owner_unknown and member.owner_kind == "DaemonSet"),
            ready=member.ready,
            running=member.phase == "Running",
            leaving=member.leaving
            or member.uid in self.requested
            or (owner_unknown and member.owner_kind == "Job"),
            grace_period=member.own_grace,
            termination=termination_of(member),
        )

    def _is_daemon(self, member: Member) -> bool:
        """The owner reference is what a user wrote: the DaemonSet has to be there."""
        owner = self.store.workloads.of_kind["daemonsets"].by_uid(member.owner_uid)
        return owner is not None and owner.namespace == member.namespace

    def _suspendable_owner(self, member: Member) -> Workload | None:
        """The topmost of its owners that can be suspended and resumed, and is drained itself."""
        topmost: Workload | None = None
        uid = member.owner_uid
        for _ in range(MAX_OWNERS):
            workload = self.store.workloads.by_uid(uid) if uid else None
            if workload is None or workload.namespace != member.namespace or workload.delegated:
                break
            if self._is_suspendable(workload):
                topmost = workload
            uid = workload.owner_uid
        return topmost

    def _is_suspendable(self, workload: Workload) -> bool:
        drained = workload.live and workload.queue in self.queues
        return drained and workload.kind.key in SUSPENDABLE and workload.uid not in self.unsuspendable

    def _suspendable_workload(self, workload: Workload, member: Member) -> SuspendableWorkload:
        return SuspendableWorkload(
            kind=workload.kind.key,
            namespace=workload.namespace,
            name=workload.name,
            uid=workload.uid,
            suspended=workload.paused or workload.uid in self.requested,
            stalled=member.uid in self.delayed,
        )


def termination_of(member: Member) -> Termination | None:
    """The deletion of the pod; None where it is not being deleted."""
    if member.leaves_at is None:
        return None
    return Termination(
        requested_at=requested_at(member.leaves_at, grace=member.deletion_grace),
        grace=member.deletion_grace,
        node=member.node,
        finalizers=member.finalizers,
    )
