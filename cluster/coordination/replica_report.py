"""What one replica says it has seen: written as an annotation on its Lease, read by the leader.

Replicas of different versions run side by side during a roll-out. What an annotation does not say is not
known: each field has a default that means so. Names and meanings that an older version reads do not change.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import islice

import msgspec
from msgspec import structs

from cluster.cache.store import Store
from queues.status.acknowledgement import PodPass, ReplicaView

#: Open passes whose pods are named: a Lease is small.
MAX_PASSES_NAMED = 20
#: Queues that are named: annotations have 256 KiB in all, and a name may have 253 characters.
MAX_QUEUES_NAMED = 200


class ReplicaReport(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A field is None where the replica does not say.

    `seen`, `pods`: up to which resource version it knows the queues and the pods.
    `open`: the stopped queues that it has open passes of. `binds`: those of them where a bind that the guard
    allowed may still land. `passes`: the pods of the open passes, as queue, namespace and name; None where
    they are more than `MAX_PASSES_NAMED`.
    `admitting`: the closed queues that something admitted may still come to.
    """

    seen: int = 0
    open: tuple[str, ...] | None = None
    admitting: tuple[str, ...] | None = None
    pods: int | None = None
    passes: tuple[tuple[str, str, str], ...] | None = None
    binds: tuple[str, ...] | None = None

    @property
    def has_open_work(self) -> bool:
        """Whether something that was let through may still come."""
        return bool(self.open or self.admitting)

    def differs_only_in_pods(self, other: ReplicaReport | None) -> bool:
        """Whether nothing has changed that another replica may wait for. Pods change all the time."""
        return other is not None and structs.replace(other, pods=self.pods) == self

    def to_view(self, name: str) -> ReplicaView:
        """As the rule of the acknowledgement reads it."""
        passes = (
            None
            if self.passes is None
            else tuple(PodPass(queue=queue, namespace=space, name=pod) for queue, space, pod in self.passes)
        )
        opened = None if self.open is None else frozenset(self.open)
        binds = None if self.binds is None else frozenset(self.binds)
        return ReplicaView(
            name=name, queues=self.seen, pods=self.pods, open_queues=opened, passes=passes, bind_queues=binds
        )


def report_of(store: Store) -> ReplicaReport:
    """What this replica has seen. The versions are read before the passes, which may only be newer."""
    seen = max(store.snapshot_version, store.progress.applied("queues"))
    pods = store.progress.applied("pods")
    store.drop_settled_passes()
    stopped = stopped_queues_with_passes(store)
    return ReplicaReport(
        seen,
        open=_names_or_none(stopped),
        admitting=_names_or_none(closed_queues_with_admissions(store)),
        pods=pods,
        passes=list_open_passes(store, stopped, most=MAX_PASSES_NAMED),
        binds=_names_or_none(stopped_queues_with_binds(store)),
    )


def stopped_queues_with_passes(store: Store) -> tuple[str, ...]:
    """The queues that do not schedule and have open passes."""
    snapshot = store.snapshot
    queues = {each.queue for each in store.bind_passes.open_passes()}
    return tuple(sorted(queue for queue in queues if not snapshot.decision(queue).schedules))


def stopped_queues_with_binds(store: Store) -> tuple[str, ...]:
    """The queues that do not schedule and where a bind that the guard allowed may still land."""
    snapshot = store.snapshot
    queues = {each.queue for each in store.bind_passes.open_passes() if each.bind}
    return tuple(sorted(queue for queue in queues if not snapshot.decision(queue).schedules))


def list_open_passes(
    store: Store, queues: Container[str], *, most: int
) -> tuple[tuple[str, str, str], ...] | None:
    """Queue, namespace and name of each open pass of these queues; None if they are more than `most`."""
    passes = {(each.queue, *each.key) for each in islice(store.bind_passes.open_passes_of(queues), most + 1)}
    return tuple(sorted(passes)) if len(passes) <= most else None


def closed_queues_with_admissions(store: Store) -> tuple[str, ...]:
    """The queues that do not accept and that something admitted before may still come to."""
    snapshot = store.snapshot
    return tuple(sorted(queue for queue in store.admissions.queues() if not snapshot.decision(queue).accepts))


def _names_or_none(queues: tuple[str, ...]) -> tuple[str, ...] | None:
    """None where they are more than a Lease has room for."""
    return queues if len(queues) <= MAX_QUEUES_NAMED else None
