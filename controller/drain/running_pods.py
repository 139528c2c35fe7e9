"""The members that run, as draining sees them: who made each, and what of that can pause.

An owner reference is what a user wrote: it counts where what it names is there, in the same namespace, and,
for what is to be paused, of a queue that is drained too and not finished. What another controller acts on
(`spec.managedBy`) is not paused, nor what is above it: its pods go by themselves.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from cluster.cache.members import Member
from cluster.cache.store import Store
from cluster.cache.workloads import MAX_OWNERS, Workload
from queues.drain.model import (
    RunningPod,
    SuspendableWorkload,
    Termination,
)
from queues.drain.terminating_pods import requested_at

VOLCANO = "jobs.batch.volcano.sh"
SUSPENDABLE = frozenset({"jobs", "jobsets", VOLCANO})
#: How long an owner that is not known yet is waited for.
UNKNOWN_OWNER_WAIT = timedelta(seconds=10)


@dataclass(frozen=True, kw_only=True)
class RunningPodReader:
    """One look at the members of the queues of one drain.

    `gone`: UIDs of pods and work that are on their way, whatever we hold of them. `unanswered`: UIDs of work
    that cannot be paused, since no controller acts on it. `stuck`: UIDs of pods that do not get on.
    """

    store: Store
    queues: frozenset[str]
    requested: Container[str]
    unsuspendable: Container[str]
    delayed: Container[str]
    now: datetime

    def pods(self) -> Iterator[RunningPod]:
        """Those of the queues that are on a node and have not finished."""
        for queue in self.queues:
            for member in self.store.members.in_queue(queue):
                if member.node and member.live:
                    yield self._running_pod(member)

    def _running_pod(self, member: Member) -> RunningPod:
        work = self._suspendable_owner(member)
        young = member.created + UNKNOWN_OWNER_WAIT > self.now and not self.store.workloads.by_uid(
            member.owner_uid
        )
        return RunningPod(
            uid=member.uid,
            namespace=member.namespace,
            name=member.name,
            queue=member.queue,
            labels=member.labels,
            created=member.created,
            priority=member.priority,
            pod_group=member.group,
            workload=self._suspendable_workload(work, member) if work is not None else None,
            bare=not member.owner_uid,
            daemon=self._is_daemon(member) or (young and member.owner_kind == "DaemonSet"),
            ready=member.ready,
            running=member.phase == "Running",
            leaving=member.leaving or member.uid in self.requested or (young and member.owner_kind == "Job"),
            grace_period=member.own_grace,
            termination=termination_of(member),
        )

    def _is_daemon(self, member: Member) -> bool:
        """A reference is but a name that its user wrote: the DaemonSet has to be there."""
        made_by = self.store.workloads.of_kind["daemonsets"].by_uid(member.owner_uid)
        return made_by is not None and made_by.namespace == member.namespace

    def _suspendable_owner(self, member: Member) -> Workload | None:
        """The topmost of its owners that can be suspended and resumed, and is drained itself."""
        found: Workload | None = None
        uid = member.owner_uid
        for _ in range(MAX_OWNERS):
            work = self.store.workloads.by_uid(uid) if uid else None
            if work is None or work.namespace != member.namespace or work.delegated:
                break
            if self._is_suspendable(work):
                found = work
            uid = work.owner_uid
        return found

    def _is_suspendable(self, work: Workload) -> bool:
        drained = work.live and work.queue in self.queues
        return drained and work.kind.key in SUSPENDABLE and work.uid not in self.unsuspendable

    def _suspendable_workload(self, work: Workload, member: Member) -> SuspendableWorkload:
        return SuspendableWorkload(
            kind=work.kind.key,
            namespace=work.namespace,
            name=work.name,
            uid=work.uid,
            suspended=work.paused or work.uid in self.requested,
            stalled=member.uid in self.delayed,
        )


def termination_of(member: Member) -> Termination | None:
    """Its deletion; None where it is not being deleted."""
    if member.leaves_at is None:
        return None
    return Termination(
        requested_at=requested_at(member.leaves_at, grace=member.deletion_grace),
        grace=member.deletion_grace,
        node=member.node,
        finalizers=member.finalizers,
    )
