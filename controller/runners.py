"""The members that run, as draining sees them: who made each, and what of that can pause.

An owner reference is what a user wrote: it counts where what it names is there, in the same namespace, and,
for what is to be paused, of a queue that is drained too and not finished.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from datetime import datetime, timedelta

from cluster.members import Member
from cluster.store import Store
from cluster.workloads import HEIGHT, Workload
from queues.draining import Runner, Work

VOLCANO = "jobs.batch.volcano.sh"
PAUSABLE = frozenset({"jobs", "jobsets", VOLCANO})
#: How long an owner that is not known yet is waited for.
UNKNOWN = timedelta(seconds=10)


def runners(
    store: Store,
    queues: Collection[str],
    *,
    gone: Container[str],
    unanswered: Container[str],
    stuck: Container[str],
    now: datetime,
) -> Iterator[Runner]:
    """Those of the queues that are on a node and have not finished.

    `gone`: UIDs of pods and work that are on their way, whatever we hold of them. `unanswered`: UIDs of work
    that cannot be paused, since nobody answers for it. `stuck`: UIDs of pods that do not get on.
    """
    seeing = _Seeing(store, frozenset(queues), gone=gone, unanswered=unanswered, stuck=stuck, now=now)
    for queue in queues:
        for member in store.members.of(queue):
            if member.node and member.live:
                yield seeing.runner(member)


class _Seeing:
    """One look at the members of the queues of one drain."""

    def __init__(
        self,
        store: Store,
        queues: frozenset[str],
        *,
        gone: Container[str],
        unanswered: Container[str],
        stuck: Container[str],
        now: datetime,
    ) -> None:
        self._workloads = store.workloads
        self._queues = queues
        self._gone = gone
        self._unanswered = unanswered
        self._stuck = stuck
        self._now = now

    def runner(self, member: Member) -> Runner:
        work = self._pausable(member)
        young = member.created + UNKNOWN > self._now and not self._workloads.by_uid(member.owner_uid)
        return Runner(
            uid=member.uid,
            namespace=member.namespace,
            name=member.name,
            queue=member.queue,
            labels=member.labels,
            created=member.created,
            priority=member.priority,
            group=member.group,
            work=self._work(work, member) if work is not None else None,
            bare=not member.owner_uid,
            daemon=self._is_daemon(member) or (young and member.owner_kind == "DaemonSet"),
            ready=member.ready,
            running=member.phase == "Running",
            leaving=member.leaving or member.uid in self._gone or (young and member.owner_kind == "Job"),
        )

    def _is_daemon(self, member: Member) -> bool:
        """A reference is but a name that its user wrote: the DaemonSet has to be there."""
        made_by = self._workloads.of_kind["daemonsets"].by_uid(member.owner_uid)
        return made_by is not None and made_by.namespace == member.namespace

    def _pausable(self, member: Member) -> Workload | None:
        """The topmost of its owners that can be suspended and resumed, and is drained itself."""
        found: Workload | None = None
        uid = member.owner_uid
        for _ in range(HEIGHT):
            work = self._workloads.by_uid(uid) if uid else None
            if work is None or work.namespace != member.namespace:
                break
            if self._may_pause(work):
                found = work
            uid = work.owner_uid
        return found

    def _may_pause(self, work: Workload) -> bool:
        drained = work.live and work.queue in self._queues
        return drained and work.kind.key in PAUSABLE and work.uid not in self._unanswered

    def _work(self, work: Workload, member: Member) -> Work:
        return Work(
            kind=work.kind.key,
            namespace=work.namespace,
            name=work.name,
            uid=work.uid,
            paused=work.paused or work.uid in self._gone,
            stalled=member.uid in self._stuck,
        )
