"""What one replica has seen: written as an annotation on its Lease, read by the leader.

Replicas of different versions run side by side during a roll-out. A field that an annotation lacks is
unknown; its default means so. The names and meanings that older versions read do not change.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import islice

import msgspec
from msgspec import structs

from cluster.cache.store import Store
from queues.status.acknowledgement import PodPass, ReplicaView
from queues.text import truncated

#: Open passes that are named: a Lease is small.
MAX_PASSES_NAMED = 20
#: Queues that are named: annotations have 256 KiB in all, and a name has up to 253 characters.
MAX_QUEUES_NAMED = 200
MAX_RETRYING_NAMED = 10
#: Lines about scheduling policies, and characters of each.
MAX_POLICY_LINES, POLICY_LINE_LENGTH = 6, 400


class ReplicaReport(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A field is None if the replica does not report it.

    `seen`: the resource version up to which it knows the queues.
    `members`: the one up to which it knows the pods that have our label. `pods`: the same of all pods, of a
    replica of an older version, which watches them all. A leader of an older version gives no pod the label,
    so it must not rely on a replica that watches labelled pods alone: it is not told of `members`.
    `open`: the stopped queues of which it has open passes. `binds`: those of them where a bind that the guard
    allowed may still be stored. `passes`: the pods of the open passes, as queue, namespace and name; None if
    they are more than `MAX_PASSES_NAMED`.
    `admitting`: the closed queues in which an admitted object may still be stored.
    `quotas`: whether it knows quotas: it gives pods their gate, and passes none that was not released.
    `windows`: whether it knows change windows: it stops a queue for which `spec.inWindow` names one.
    `untaken`: whether it refuses a pod that was given up (`queues.untaken`) though that has label
    `sluice.dev/released` still.
    `policies`: the resource version of the ConfigMap by whose scheduling policies it answers; 0 without one.
    `ca`: which authority issued the certificate that it serves; empty if it does not know. `certs` reads it.
    `retrying`: the loops of it that fail and are tried again (`cluster.retries`), as loop, since when (RFC
    3339) and why; at most `MAX_RETRYING_NAMED`. The plugin reads it.
    `version`: of the server; `build`: what tells builds of one version apart (`server.build`). `scheduler`:
    its setting `scheduler_name`. `certificate_until`: when the certificate that it serves expires (RFC 3339).
    `registration`: what webhook configurations and policies lack, by its watch. `policy_problems`: what is
    wrong with the scheduling policies, `policy_notes`: what of them has no effect; at most `MAX_POLICY_LINES`
    each, and how many more. The plugin reads these seven and `seen`.
    """

    seen: int = 0
    open: tuple[str, ...] | None = None
    admitting: tuple[str, ...] | None = None
    pods: int | None = None
    members: int | None = None
    passes: tuple[tuple[str, str, str], ...] | None = None
    binds: tuple[str, ...] | None = None
    policies: int | None = None
    ca: str | None = None
    version: str | None = None
    scheduler: str | None = None
    certificate_until: str | None = None
    quotas: bool | None = None
    windows: bool | None = None
    untaken: bool | None = None
    build: str | None = None
    retrying: tuple[tuple[str, str, str], ...] | None = None
    registration: tuple[str, ...] = ()
    policy_problems: tuple[str, ...] = ()
    policy_notes: tuple[str, ...] = ()

    @property
    def has_open_work(self) -> bool:
        """Whether an object or a bind that it let through may still be stored."""
        return bool(self.open or self.admitting)

    def differs_only_in_pods(self, other: ReplicaReport | None) -> bool:
        """Return whether only the version of the pods differs: it changes all the time, and no replica waits
        for it.
        """
        return other is not None and structs.replace(other, pods=self.pods, members=self.members) == self

    def to_view(self, name: str) -> ReplicaView:
        """Return the report as the acknowledgement rule reads it."""
        passes = (
            None
            if self.passes is None
            else tuple(PodPass(queue=queue, namespace=space, name=pod) for queue, space, pod in self.passes)
        )
        opened = None if self.open is None else frozenset(self.open)
        binds = None if self.binds is None else frozenset(self.binds)
        return ReplicaView(
            name=name,
            queues=self.seen,
            pods=self.pods if self.members is None else self.members,
            open_queues=opened,
            passes=passes,
            bind_queues=binds,
            windows=bool(self.windows),
        )


def report_of(store: Store) -> ReplicaReport:
    """Return what this replica has seen. Versions are read before the passes, which may only be newer."""
    seen = max(store.snapshot_version, store.watch_progress.applied("queues"))
    pods = store.watch_progress.applied("pods")
    store.settling_binds.drop_settled()
    stopped = stopped_queues_with_passes(store)
    return ReplicaReport(
        seen,
        open=_names_or_none(stopped),
        admitting=_names_or_none(closed_queues_with_admissions(store)),
        members=pods,
        passes=list_open_passes(store, stopped, most=MAX_PASSES_NAMED),
        binds=_names_or_none(stopped_queues_with_binds(store)),
        policies=policies_in_effect(store),
        policy_problems=_policy_lines(store, problems=True),
        policy_notes=_policy_lines(store, problems=False),
        quotas=True,
        windows=True,
        untaken=True,
    )


def policies_in_effect(store: Store) -> int | None:
    """Return the version of the policies; None while each pod of no queue counts as system-critical."""
    version = store.policies.version
    return None if store.policies.policies.protects_system_pods and not store.system_pods.known else version


def _policy_lines(store: Store, *, problems: bool) -> tuple[str, ...]:
    texts = [line.text for line in store.policies.lines if line.is_problem is problems]
    shown = [truncated(text, limit=POLICY_LINE_LENGTH) for text in texts[:MAX_POLICY_LINES]]
    more = len(texts) - len(shown)
    return (*shown, *([f"and {more} more of policies; see: kubectl queue policy list"] if more else ()))


def stopped_queues_with_passes(store: Store) -> tuple[str, ...]:
    """Return the queues that do not schedule and have open passes."""
    snapshot = store.snapshot
    queues = {each.queue for each in store.bind_passes.open_passes()}
    return tuple(sorted(queue for queue in queues if not snapshot.decision(queue).schedules))


def stopped_queues_with_binds(store: Store) -> tuple[str, ...]:
    """Return the queues that do not schedule and where a bind that the guard allowed may still be stored."""
    snapshot = store.snapshot
    queues = {each.queue for each in store.bind_passes.open_passes() if each.bind}
    return tuple(sorted(queue for queue in queues if not snapshot.decision(queue).schedules))


def list_open_passes(
    store: Store, queues: Container[str], *, most: int
) -> tuple[tuple[str, str, str], ...] | None:
    """Return queue, namespace and name of each open pass of these queues; None if more than `most`."""
    passes = {(each.queue, *each.key) for each in islice(store.bind_passes.open_passes_of(queues), most + 1)}
    return tuple(sorted(passes)) if len(passes) <= most else None


def closed_queues_with_admissions(store: Store) -> tuple[str, ...]:
    """Return the queues that do not accept and in which an object admitted before may still be stored."""
    snapshot = store.snapshot
    return tuple(sorted(queue for queue in store.admissions.queues() if not snapshot.decision(queue).accepts))


def _names_or_none(queues: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the names; None if they are more than a Lease has room for."""
    return queues if len(queues) <= MAX_QUEUES_NAMED else None
