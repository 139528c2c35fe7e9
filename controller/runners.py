"""The members that run, as draining sees them: who made each, and what of that can pause."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from datetime import datetime, timedelta

from cluster.members import Member
from cluster.store import Store
from cluster.workloads import Workload
from queues.draining import Runner, Work

VOLCANO = "jobs.batch.volcano.sh"
PAUSABLE = frozenset({"jobs", "jobsets", VOLCANO})
#: How long a Job that is not known yet is waited for; one that is gone takes its pods along.
UNKNOWN = timedelta(seconds=60)


def runners(
    store: Store, queues: Iterable[str], *, gone: Container[str], unanswered: Container[str], now: datetime
) -> Iterator[Runner]:
    """Those of the queues that are on a node and have not finished.

    `gone`: UIDs of pods and work that are on their way, whatever we hold of them. `unanswered`: UIDs of work
    that cannot be paused, since nobody answers for it.
    """
    for queue in queues:
        for member in store.members.of(queue):
            if member.node and member.live:
                yield _runner(store, member, gone=gone, unanswered=unanswered, now=now)


def _runner(
    store: Store, member: Member, *, gone: Container[str], unanswered: Container[str], now: datetime
) -> Runner:
    made_by = _pausable(store, member)
    work = _work(made_by, gone) if made_by is not None and made_by.uid not in unanswered else None
    lost = made_by is None and member.owner_kind == "Job" and member.created + UNKNOWN > now
    return Runner(
        uid=member.uid,
        namespace=member.namespace,
        name=member.name,
        queue=member.queue,
        labels=member.labels,
        created=member.created,
        priority=member.priority,
        group=member.group,
        work=work,
        bare=not member.owner_uid,
        daemon=member.owner_kind == "DaemonSet",
        ready=member.ready,
        running=member.phase == "Running",
        leaving=member.leaving or member.uid in gone or lost,
    )


def _pausable(store: Store, member: Member) -> Workload | None:
    """The topmost of its owners that can be suspended and resumed."""
    found: Workload | None = None
    work = store.workloads.by_uid(member.owner_uid) if member.owner_uid else None
    while work is not None and work.namespace == member.namespace:
        above = store.workloads.by_uid(work.owner_uid) if work.owner_uid else None
        found = work if work.kind.key in PAUSABLE else found
        work = above if above is not None and above is not work else None
    return found


def _work(work: Workload, gone: Container[str]) -> Work:
    return Work(
        kind=work.kind.key,
        namespace=work.namespace,
        name=work.name,
        uid=work.uid,
        paused=work.paused or work.uid in gone,
    )
