"""Whether a stop is known to hold: gathers the evidence for the rule in `queues.status.acknowledgement`.

| evidence                       | from                                                                    |
|--------------------------------|-------------------------------------------------------------------------|
| what other replicas have seen  | their Leases, read after the stop was heard of (`replica_readings`)      |
| how new the pods are           | `store.progress`, which makes the watches of all replicas catch up      |
| what may be bound, and where   | the store's members, and the guard (`bind_guard`)                       |
| what was let through here      | the store's passes, settled by the pods that are known                  |
| what lost replicas let through | assumed of each pod (`Store.assume_bind_passes`)                        |

What a lost replica may have let through is assumed once the pods are known as of a moment after the loss. Of
a queue that it had said to have stopped, with nothing open, nothing is assumed.

kube-scheduler is made to retry the pods that are assumed to have passed (`BindPassRetry`). After the retry no
earlier bind of them is under way.

A reading of the Leases counts for a stop only if it began after the stop was heard of: a replica that it does
not name had no Lease by then, so it lists the queues later, with the stop in them. What a replica said of
that stop stays true, so a reading need not be the latest.

Resource versions of queues, Leases and pods are compared with each other, which takes that one etcd keeps
all of them. It is checked by `replica_readings`.
"""

from __future__ import annotations

from collections import deque

import msgspec

from cluster.cache.changes import QueueChange
from cluster.coordination.replica_report import ReplicaReport
from cluster.coordination.replicas import ReplicaReading
from cluster.inflight.binds import BindPass
from controller.context import ControllerContext
from controller.pods.retry import BindPassRetry
from controller.stops.bind_guard import BindGuards
from controller.stops.replica_readings import PODS, ReplicaReadings
from controller.stops.volume_waits import VolumeWaits
from queues.status.acknowledgement import (
    BindableNamespace,
    Evidence,
    Obstacle,
    PodPass,
    ReplicaView,
    obstacles,
    replicas_have_seen,
)

UNASKED_SECONDS = 2.0
#: For what every replica had seen already the Leases are not read more often.
READ_SECONDS = 1.0
#: Versions whose first question is remembered; of those before, the next one's counts.
ASKED = 64
#: A pass this old may be of a pod that waits for a volume; that is asked while so few passes are open.
VOLUME_SECONDS, VOLUMES_ASKED = 1.0, 50


class Lost(msgspec.Struct, frozen=True):
    """Replicas that are gone: a version that was current then, and what they had said last, if known."""

    version: int
    views: tuple[ReplicaReport, ...] | None


class SpecsSeen(msgspec.Struct, frozen=True, gc=False):
    """The specs on a queue's chain (`QueueDecision.revision`), a version that has them, and since when."""

    revision: str
    version: int
    at: float


class StopAcknowledgement:
    """Owner: the controller's thread."""

    def __init__(
        self, context: ControllerContext, *, guards: BindGuards, bind_pass_retry: BindPassRetry
    ) -> None:
        self._store = context.store
        self._progress = context.store.progress
        self._bind_pass_retry = bind_pass_retry
        self._guards = guards
        self._volumes = VolumeWaits(context)
        self._readings = ReplicaReadings(context, received=self._note_lost)
        self._passes: dict[str, list[BindPass]] | None = None
        #: Up to which version every replica had seen the queues; whoever comes later lists them later.
        self._agreed = -1
        #: Versions that were asked about, and when each was first; ascending.
        self._asked: deque[tuple[int, float]] = deque(maxlen=ASKED)
        self._specs: dict[str, SpecsSeen] = {}
        #: By queue: the version of its stop, and one that was current once all replicas had it.
        self._pods_since: dict[str, tuple[int, int]] = {}
        self._lost: Lost | None = None

    def start_sync(self) -> None:
        """A new look at the cluster."""
        self._readings.start_sync()
        self._passes = None
        self._count_lost()

    def observe(self) -> None:
        """Read the Leases though nobody asks for them, so that a replica that is gone is known to be."""
        self.start_sync()
        self._readings.refresh()

    def forget(self, queue: str) -> None:
        """It schedules, or is gone."""
        self._pods_since.pop(queue, None)

    def forget_absent_queues(self) -> None:
        self._specs = {queue: each for queue, each in self._specs.items() if queue in self._store.queues}

    def obstacle(self, queue: str, *, since: int, at: float) -> Obstacle | None:
        """The first thing that the stop which queues of version `since` have waits for; None if it holds.

        `at`: when the stop was heard of, in monotonic seconds.
        """
        reading = self._readings.latest(since=at)
        views = None if reading is None else tuple(view.to_view(name) for name, view in reading.views.items())
        below = self._store.snapshot.tree.subtree(queue)
        version = self._version_of_pods(queue, reading, views, since=since)
        by_queue = self._open_passes()
        passes = [each for name in below & by_queue.keys() for each in by_queue[name]]
        ask = len(passes) <= VOLUMES_ASKED
        evidence = Evidence(
            queues=below,
            since=since,
            pods_since=version,
            pods=0 if self._store.is_rejudging else self._progress.applied(PODS),
            replica_views=tuple(map(self._with_waits, views)) if views and ask else views,
            unaccounted=self._lost is not None,
            bindable_namespaces=self._places(below),
            guards=self._guards.on,
            passes=tuple(self._pass(each, ask=ask) for each in passes),
            now=self._store.clock.monotonic(),
            request_seconds=self._store.bind_passes.request_seconds,
            bypass_seconds=UNASKED_SECONDS,
        )
        first = next(obstacles(evidence), None)
        if first is None:
            self._agreed = max(self._agreed, since)
        else:
            self._readings.request(queue, QueueChange.STATUS, since=at)
            self._bind_pass_retry.retry_pods(each.key for each in passes if each.assumed)
        return first

    def specs_seen(self, queue: str) -> SpecsSeen:
        """Since when the specs on the queue's chain are known here, and a version that has them."""
        snapshot = self._store.snapshot
        revision = snapshot.decision(queue).revision
        seen = self._specs.get(queue)
        if seen is None or seen.revision != revision:
            now = self._store.clock.monotonic()
            seen = self._specs[queue] = SpecsSeen(revision, snapshot.resource_version, now)
        return seen

    def all_have_seen(self, queue: str, *, change: QueueChange = QueueChange.STATUS) -> bool:
        """Whether every live replica answers by the specs that the queue's chain has.

        `change`: what of the queue is looked at again once that may be known.
        """
        return self.all_have_version(self.specs_seen(queue).version, queue=queue, change=change)

    def all_have_version(
        self, version: int, *, queue: str = "", change: QueueChange = QueueChange.STATUS
    ) -> bool:
        """The same of queues of that version or later."""
        if version <= self._agreed:
            if self._store.clock.monotonic() >= self._readings.came_at + READ_SECONDS:
                self._readings.refresh()
            return True
        at = self.known_at(version)
        reading = self._readings.latest(since=at)
        if reading is None or any(view.seen < version for view in reading.views.values()):
            self._readings.request(queue, change, since=at)
            return False
        self._agreed = version
        return True

    def known_at(self, version: int) -> float:
        """A time, in monotonic seconds, at which queues of this version or later were known here.

        It is the same for all queues that one change stops: one reading of the Leases serves all of them.
        """
        if not self._asked or self._asked[-1][0] < version:
            self._asked.append((version, self._store.clock.monotonic()))
        return next(at for asked, at in self._asked if asked >= version)

    def nothing_pending(self, queue: str) -> bool | None:
        """Whether nothing that any live replica admitted to it or below can come any more; None if the Leases
        were not read yet.

        It says so of a close only if all replicas had seen that before (`all_have_seen`).
        """
        below, reading = self._store.snapshot.tree.subtree(queue), self._readings.latest()
        if self._store.admissions.any_open_in(below):
            return False
        if reading is not None and all(
            view.admitting is not None and below.isdisjoint(view.admitting) for view in reading.views.values()
        ):
            return True
        self._readings.request(queue, QueueChange.STATUS)
        return None if reading is None else False

    def _version_of_pods(
        self,
        queue: str,
        reading: ReplicaReading | None,
        views: tuple[ReplicaView, ...] | None,
        *,
        since: int,
    ) -> int | None:
        """The version that the pods have to be as new as; the watches are made to catch up with it."""
        stop, version = self._pods_since.get(queue, (since, 0))
        if stop != since or not version:
            if views is None or reading is None or not replicas_have_seen(views, since=since):
                return None
            version = max(since, reading.version)
            self._pods_since[queue] = (since, version)
        self._progress.demand(PODS, version)
        if any(view.pods is not None and view.pods < version for view in views or ()):
            self._progress.announce(PODS, version)
        return version

    def _places(self, queues: frozenset[str]) -> tuple[BindableNamespace, ...]:
        members = self._store.members
        places = []
        for queue in queues:
            unasked = frozenset(members.unmarked_namespaces(queue))
            for namespace in members.bindable_namespaces(queue):
                places.append(BindableNamespace(queue, namespace, namespace in unasked))
        return tuple(places)

    def _open_passes(self) -> dict[str, list[BindPass]]:
        """Those of this replica by their queue, worked out once a look.

        Whatever was let through by a snapshot without the stop was recorded before that look began.
        """
        if self._passes is None:
            self._store.drop_settled_passes()
            self._passes = {}
            for each in self._store.bind_passes.open_passes():
                self._passes.setdefault(each.queue, []).append(each)
        return self._passes

    def _pass(self, each: BindPass, *, ask: bool) -> PodPass:
        """`ask`: whether to find out, of a pass that has been open for a while, whether its pod waits."""
        old = each.at <= self._store.clock.monotonic() - VOLUME_SECONDS
        waits = None
        if ask and old and not each.bind:
            waits = self._volumes.waiting_since(each.namespace, each.name)
        bind = each.bind or may_be_a_bind(
            each,
            waiting_at=waits,
            now=self._store.clock.monotonic(),
            request_seconds=self._store.bind_passes.request_seconds,
        )
        return PodPass(queue=each.queue, namespace=each.namespace, name=each.name, bind=bind, unsent_at=waits)

    def _with_waits(self, view: ReplicaView) -> ReplicaView:
        """With what is known here of the pods that it let through."""
        if not view.passes:
            return view
        named = [
            msgspec.structs.replace(each, unsent_at=self._volumes.waiting_since(each.namespace, each.name))
            for each in view.passes
        ]
        return msgspec.structs.replace(view, passes=tuple(named))

    def _note_lost(self, reading: ReplicaReading) -> None:
        if reading.left:
            views = None if reading.lost is None else tuple(reading.lost)
            if self._lost is not None and views is not None and self._lost.views is not None:
                views = (*self._lost.views, *views)
            elif self._lost is not None:
                views = None
            self._lost = Lost(reading.version, views)
        if reading.vanished:
            self._store.admissions.assume_any()
        self._count_lost()

    def _count_lost(self) -> None:
        """Count what those that are gone may have let through, once all pods of that moment are known."""
        lost = self._lost
        if lost is not None and self._progress.demand(PODS, lost.version):
            self._store.assume_bind_passes(lambda queue: self._had_stopped(queue, lost.views))
            self._lost = None

    def _had_stopped(self, queue: str, lost: tuple[ReplicaReport, ...] | None) -> bool:
        """Whether all that are gone had said that this queue, as it is now, does not schedule any more."""
        snapshot = self._store.snapshot
        if lost is None or queue not in snapshot.tree or snapshot.decision(queue).schedules:
            return False
        above = [self._store.queues.get(one.name) for one in snapshot.tree.chain(queue).queues]
        version = max((obj.metadata.version for obj in above if obj is not None), default=0)
        return all(view.seen >= version and view.open is not None and queue not in view.open for view in lost)


def may_be_a_bind(each: BindPass, *, waiting_at: float | None, now: float, request_seconds: float) -> bool:
    """Whether a replica that is gone may have let a bind of this pod pass the guard, which may land yet.

    It did so before the pass was assumed. `waiting_at`: a moment at which no bind of the pod had been sent.
    """
    if not each.assumed or (waiting_at is not None and waiting_at >= each.at):
        return False
    return now < each.at + request_seconds
