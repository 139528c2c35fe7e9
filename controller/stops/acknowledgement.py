"""Brings stops towards their acknowledgement, and gathers the evidence for the rule in
`queues.status.acknowledgement`.

| evidence                          | where it comes from                                                   |
|-----------------------------------|-----------------------------------------------------------------------|
| which other replicas may answer   | the watch of their Leases, and a list that is newer than the stop     |
| what other replicas have seen     | their Leases, read after the stop was seen here (`replica_readings`)   |
| how new the pods are              | `Store.watch_progress`: the watches of all replicas catch up          |
| which members could be bound      | the store's members, and the guard (`bind_guard`)                     |
| which passes of ours are open     | the store's passes, settled by the pods that are known                |
| which passes lost replicas had    | assumed for each pod (`SettlingBinds.assume`)                         |
| which members have no label       | lists of such pods (`controller.pods.member_labels`)                  |

Invariants of `advance`
- It acts first: it has read, known, labelled and retried what the stop waits for. Then the rule answers from
  the evidence that there is: asking the rule does nothing, and what was demanded is not taken as come.
- Members that have their label are closed before the passes are gathered: passes may be assumed for them.
- Members and passes are gathered before the changes of labels are taken. So a member that leaves the watch
  is in one of both at least, and perhaps in both; in the other order it could be in neither.

The passes of a lost replica are assumed once the pods are known as of a moment after the loss. None are
assumed for a queue of which its last report said that it is stopped and that no pass of it is open. Where its
Lease expired, its guard may have allowed a bind of each pod that no scheduler calls filter for: that bind is
assumed as well, for the time of a request. A replica that ends in order has waited for these binds.
kube-scheduler is made to retry the pods that are assumed to have passed (`BindPassRetry`). After the retry no
earlier bind of them is under way.

A reading of the Leases counts for a stop only if it began after the stop was seen here. A replica without a
Lease at that time lists the queues later, with the stop in them, unless somebody has deleted its Lease. So
the watch of the Leases must have come to the version of the stop: a replica that it has shown counts, whether
its Lease is still there or not (`cluster.coordination.replicas`). Our own Lease is renewed for that. What a
replica reported about the stop stays true, so a reading need not be the latest.

Where no other replica is known, a marker of the pods is begun as soon as the stop is seen, while the Leases
are read. If the reading shows no other replica, nor that one is gone, the pods as of that marker are enough:
it was begun after the stop was known here. The list of pods without a label is begun with its version, too.

A namespace may come to name another queue. Then its pods are judged again (`Store.relist_members`), and those
without a label are listed. A stop waits for both if the namespace's version is at most that of the pods that
it needs. What a namespace names later has no share in it, as after an acknowledgement. So a namespace that
changes all the time keeps no stop waiting.

Resource versions of queues, Leases and pods are compared with each other. That assumes that one etcd keeps
all of them, which `replica_readings` checks.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping

import msgspec

from cluster.cache.changes import QueueChange, StoreChange
from cluster.coordination.leases import LEASES
from cluster.coordination.replica_report import ReplicaReport
from cluster.coordination.replicas import ReplicaReading
from cluster.inflight.binds import BindPass
from controller.context import ControllerContext
from controller.parts import Part
from controller.pods.member_labels import MemberLabels
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
    departures_until,
    not_asked,
    obstacles,
    replicas_have_seen,
)
from queues.verdict import is_by_window

#: A bind by a scheduler that does not call the extender is stored within this time of its admission.
BYPASS_SECONDS = 2.0
#: How often the Leases are read for the end of a gap of their watch, as long as they cannot be read.
AGAIN_DUE_SECONDS = 0.3
#: How often the Leases are read for a version that every replica has.
READ_SECONDS = 1.0
#: The number of versions for which the time of the first request is kept; an older one uses the next one's.
MAX_REQUESTED_VERSIONS = 64
#: The age at which the pod of a pass may wait for a volume; its claims are read only while at most so many
#: passes are open.
VOLUME_SECONDS, MAX_VOLUME_READS = 1.0, 50


class LostReplicas(msgspec.Struct, frozen=True):
    """Replicas that are gone: a version that was current then, and their last reports; None if not known.

    `expired`: one of them did not end in order.
    """

    version: int
    reports: tuple[ReplicaReport, ...] | None
    expired: bool


class SpecsSeen(msgspec.Struct, frozen=True, gc=False):
    """The specs on a queue's chain (`QueueDecision.revision`), a version that has them, and since when they
    are known here, in monotonic seconds."""

    revision: str
    version: int
    at: float


#: How often the Leases are read while another replica leads.
OBSERVE_SECONDS = 1.0


class StopAcknowledgement(Part):
    """Owner: the controller's thread. What `demand_...` does not find true is begun, for it to come true."""

    name = "acknowledgement"

    def __init__(
        self,
        context: ControllerContext,
        *,
        guards: BindGuards,
        bind_pass_retry: BindPassRetry,
        member_labels: MemberLabels,
        not_asked: Callable[[], str] = str,
    ) -> None:
        """`not_asked`: why the API server does not ask us about all pods; "" if it does."""
        self._store = context.store
        self._progress = context.store.watch_progress
        self._bind_pass_retry = bind_pass_retry
        self._guards = guards
        self._member_labels = member_labels
        self._not_asked = not_asked
        self._volumes = VolumeWaits(context)
        self._work_queue = context.work_queue
        self._replicas = context.other_replicas
        self._readings = ReplicaReadings(context, received=self._receive_reading)
        #: The highest version of the queues of which each replica that may know older ones is known.
        self._version_of_known = -1
        #: When the Leases were read last for the end of a gap of their watch, in monotonic seconds.
        self._due_read_at = -math.inf
        #: The live replicas that do not say that they know quotas; None before the first reading.
        self._unaware: frozenset[str] | None = None
        #: Those that do not say that they know change windows.
        self._unaware_of_windows: frozenset[str] = frozenset()
        #: The open passes of this replica by queue, in this sync; None before they are needed.
        self._passes: dict[str, list[BindPass]] | None = None
        #: `MemberLabels.passes_assumed` when they were gathered.
        self._passes_assumed = 0
        #: The highest version of the queues that all live replicas have reported. One that joins later lists
        #: them later.
        self._version_of_all = -1
        #: Versions that were requested of all replicas, ascending, and when each was first.
        self._requested: deque[tuple[int, float]] = deque(maxlen=MAX_REQUESTED_VERSIONS)
        self._specs: dict[str, SpecsSeen] = {}
        #: By queue: the version of its stop, and one that was current once all replicas had it.
        self._pods_since: dict[str, tuple[int, int]] = {}
        #: The latest of the times since when stops are known here that a marker was prompted for.
        self._prompted_at = -math.inf
        #: By queue: its stop's version, the passes assumed then, and the time up to which departures count.
        self._departures_until: dict[str, tuple[tuple[int, int], float]] = {}
        self._lost: LostReplicas | None = None
        #: When the Leases are read again while another replica leads, in monotonic seconds.
        self._observe_at = -math.inf

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        """Begin a new sync: what was gathered in the last one is outdated. If that fails, no stop is looked
        at, and the whole sync is tried again.
        """
        self._readings.start_sync()
        if self._replicas.is_due and self._store.clock.monotonic() >= self._due_read_at + AGAIN_DUE_SECONDS:
            self._due_read_at = self._store.clock.monotonic()
            self._readings.refresh()
        self._passes = None
        self._assume_passes_of_lost()

    def stand_by(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        """Read the Leases of the others, so that replicas that are lost are known by the time we lead."""
        now = self._store.clock.monotonic()
        if now >= self._observe_at:
            self._observe_at = now + OBSERVE_SECONDS
            self.record(changes)
            self._readings.refresh()

    def forget(self, queue: str) -> None:
        """Forget a queue that schedules, or is gone."""
        self._pods_since.pop(queue, None)
        self._departures_until.pop(queue, None)

    def resync(self) -> None:
        self._specs = {queue: specs for queue, specs in self._specs.items() if queue in self._store.queues}

    def advance(self, queue: str, *, since: int, at: float) -> Obstacle | None:
        """Take the next steps towards acknowledging the stop that the queues have since version `since`.
        Return the first thing that it still waits for, by the evidence that there is then; None if it holds.

        `at`: since when the stop is known here, in monotonic seconds.
        """
        if why := self._not_asked():
            self.forget(queue)  # what it waits for counts from the end of that on
            return not_asked(why)
        leases = self._demand_leases(since)  # first: what the watch has shown by then is in the reading
        below, reading = self._store.snapshot.tree.subtree(queue), self._readings.latest(since=at)
        self._prompt_pods(at)
        views = None if reading is None else tuple(view.to_view(name) for name, view in reading.views.items())
        pods_since = self._demand_pods(queue, reading, views, since=since, at=at)
        self._member_labels.settle(below)
        passes = self._gather_passes(below)
        self._read_volumes(passes, views)
        pods = self._demand_known_pods(queue, since=since)  # before the members are looked at
        evidence = self._evidence(
            queue, below, views, passes, since=since, pods_since=pods_since, pods=pods, leases=leases
        )
        if pods_since is not None:  # pods without a label are looked for while all else is waited for
            evidence = self._look_for_unlabelled(queue, evidence)
        first = next(obstacles(evidence), None)
        if first is None:
            self._version_of_all = max(self._version_of_all, since)
            return None
        if reading is None or reading.views:  # else no other replica has anything to report later
            self._readings.request(queue, QueueChange.STATUS, since=at)
        assumed = (bind_pass for bind_pass in passes if bind_pass.assumed and not bind_pass.bind)
        self._bind_pass_retry.retry_pods(bind_pass.key for bind_pass in assumed)
        return first

    def _evidence(
        self,
        queue: str,
        queues: frozenset[str],
        views: tuple[ReplicaView, ...] | None,
        passes: list[BindPass],
        *,
        since: int,
        pods_since: int | None,
        pods: int,
        leases: int,
    ) -> Evidence:
        """What is known now, but for members without their label. Asks for nothing."""
        return Evidence(
            queues=queues,
            since=since,
            pods_since=pods_since,
            pods=pods,
            replica_views=None if views is None else tuple(map(self._with_volume_waits, views)),
            unaccounted=self._lost is not None or self._replicas.is_due,
            bindable_namespaces=self._bindable_namespaces(queues),
            guards=self._guards.on,
            passes=tuple(map(self._pod_pass, passes)),
            unlabelled=None,
            departures_until=math.inf,
            now=self._store.clock.monotonic(),
            request_seconds=self._store.bind_passes.request_seconds,
            bypass_seconds=BYPASS_SECONDS,
            leases=leases,
            certain_at=self._replicas.events.certain_at,
            by_window=self._is_by_window(queue),
        )

    def _is_by_window(self, queue: str) -> bool:
        snapshot = self._store.snapshot
        return is_by_window(queue, tree=snapshot.tree, now=snapshot.now)

    def _look_for_unlabelled(self, queue: str, evidence: Evidence) -> Evidence:
        """Return the evidence with what is known of members without their label, which are looked for."""
        labels = self._member_labels
        # What is assumed to have passed counts anew: the pass of a pod that leaves the watch is open no more.
        stop = (evidence.since, labels.passes_assumed)
        known, until = self._departures_until.get(queue, (stop, math.inf))
        if known != stop:
            until = math.inf
        unlabelled = labels.look_for(
            evidence.queues, since=self._pods_since[queue][1], departures_until=until
        )
        evidence = msgspec.structs.replace(evidence, unlabelled=unlabelled, departures_until=until)
        if until == math.inf and unlabelled.departed:
            self._departures_until[queue] = stop, departures_until(evidence)
        return evidence

    def specs_seen(self, queue: str) -> SpecsSeen:
        """The specs on the queue's chain, a version that has them, and since when they are known here."""
        snapshot = self._store.snapshot
        revision = snapshot.decision(queue).revision
        seen = self._specs.get(queue)
        if seen is None or seen.revision != revision:
            now = self._store.clock.monotonic()
            seen = self._specs[queue] = SpecsSeen(revision, snapshot.resource_version, now)
        return seen

    def demand_seen_by_all(self, queue: str, *, change: QueueChange = QueueChange.STATUS) -> bool:
        """Whether every live replica has the specs that the queue's chain has now.

        If not, a new reading of the Leases is requested; `change` of the queue is added once it has come.
        """
        return self.demand_version_of_all(self.specs_seen(queue).version, queue=queue, change=change)

    def demand_version_of_all(
        self, version: int, *, queue: str | None = None, change: QueueChange = QueueChange.STATUS
    ) -> bool:
        """Whether every live replica has the queues of `version` or later; else as in `demand_seen_by_all`.

        `queue`: None if nothing is to be added: a sync begins then.
        """
        if version <= self._version_of_all:
            if self._store.clock.monotonic() >= self._readings.arrived_at + READ_SECONDS:
                self._readings.refresh()
            return True
        at = self.known_at(version)
        reading = self._readings.latest(since=at)
        if reading is None or any(view.seen < version for view in reading.views.values()):
            self._readings.request(queue, change, since=at)
            return False
        self._version_of_all = version
        return True

    def demand_all_known(self, version: int) -> bool:
        """Whether each replica that may answer from queues older than that version is among those that
        `demand_version_of_all` asks for: also one whose Lease somebody has deleted.
        """
        if version <= self._version_of_known:
            return True
        if self._demand_leases(version) < version:
            return False
        if not self._replicas.is_certain or self._replicas.is_due:
            return False
        reading = self._readings.latest()
        # `demand_version_of_all` may have had its answer before the watch showed a replica that is behind.
        if reading is None or any(view.seen < version for view in reading.views.values()):
            return False
        self._version_of_known = version
        return True

    def demand_given_up_by_all(self, version: int) -> bool:
        """Whether each replica that may answer refuses a pod that was given up at this version.

        Each has to know the pods of that version or later, and that such a pod is refused. If one does not,
        its watch is made to catch up, and a sync begins once the Leases have been read again.
        """
        at = self.known_at(version)
        is_certain = self._demand_leases(version) >= version and self._replicas.is_certain
        is_known = self._progress.demand(PODS, version)
        reading = self._readings.latest(since=at)
        views = [] if reading is None else [view.to_view(name) for name, view in reading.views.items()]
        are_behind = any(view.pods is None or view.pods < version for view in views)
        if are_behind:
            self._progress.announce(PODS, version)
        if reading is None or are_behind or not all(view.untaken for view in reading.views.values()):
            self._readings.request(None, QueueChange.STATUS, since=at)
            return False
        return is_known and is_certain and not self._replicas.is_due

    def _demand_leases(self, version: int) -> int:
        """The version up to which the watch has shown the Leases; it is made to catch up with that one."""
        self._progress.demand(LEASES, version)
        return self._progress.applied(LEASES)

    def demand_version_since(self, at: float, *, queue: str) -> int | None:
        """A version that was current at a moment after `at`, in monotonic seconds, or later.

        None if none is known: a reading of the Leases is requested then, and the queue's status is looked at
        once it has come.
        """
        reading = self._readings.latest(since=at)
        if reading is None:
            self._readings.request(queue, QueueChange.STATUS, since=at)
            return None
        return reading.version

    @property
    def unaware_of_quotas(self) -> frozenset[str] | None:
        """The live replicas that do not say that they know quotas; None if the Leases were not read yet.

        When they change, the statuses of all queues with a capability are looked at.
        """
        return self._unaware

    def demand_alike_answers(self, queue: str, *, queues: int, policies: int, since: float) -> bool:
        """Whether every live replica answers from queues of this version or later, and by policies of this
        version, as the Leases say that were read since then.

        If not, a new reading of the Leases is requested, and the queue's members are looked at once it has
        come, or once a replica reports something else.
        """
        reading = self._readings.latest(since=since)
        if reading is not None and all(
            view.seen >= queues and view.policies == policies for view in reading.views.values()
        ):
            return True
        self._readings.request(queue, QueueChange.MEMBERS, since=since)
        return False

    def known_at(self, version: int) -> float:
        """A time, in monotonic seconds, at which queues of this version or later were known here.

        It is the same for all queues that one change stops: one reading of the Leases serves all of them.
        """
        if not self._requested or self._requested[-1][0] < version:
            self._requested.append((version, self._store.clock.monotonic()))
        return next(at for requested, at in self._requested if requested >= version)

    def demand_nothing_pending(self, queue: str) -> bool | None:
        """Whether no object that a live replica has admitted to the queue, or to one below it, can still be
        created; None if the Leases were not read yet.

        It holds for a close only if all replicas had seen the close before (`demand_seen_by_all`).
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

    def _demand_pods(
        self,
        queue: str,
        reading: ReplicaReading | None,
        views: tuple[ReplicaView, ...] | None,
        *,
        since: int,
        at: float,
    ) -> int | None:
        """The version that the pods must have; the watches of all replicas are made to catch up with it."""
        stop, version = self._pods_since.get(queue, (since, 0))
        if stop != since or not version:
            if views is None or reading is None or not replicas_have_seen(views, since=since):
                return None
            version = max(since, reading.version)
            if not (views or reading.left):
                version = min(version, self._progress.prompted_version(PODS, since=at) or version)
            self._pods_since[queue] = (since, version)
        version = self._member_labels.version_since(self._store.snapshot.tree.subtree(queue), version)
        self._progress.demand(PODS, version)
        if any(view.pods is not None and view.pods < version for view in views or ()):
            self._progress.announce(PODS, version)
        return version

    def _demand_known_pods(self, queue: str, *, since: int) -> int:
        """The version up to which this replica knows the pods; 0 while some are to be judged again, by what
        namespaces named at the version that the stop needs.
        """
        needed = self._pods_since.get(queue, (since, since))[1]
        return self._progress.applied(PODS) if self._store.demand_relist(needed) else 0

    def _prompt_pods(self, at: float) -> None:
        """Make the pods catch up with a stop that is known since `at`, before the Leases were read."""
        if at > self._prompted_at:
            self._prompted_at = at
            known = self._readings.latest()
            if known is None or not known.views:
                self._progress.prompt(PODS)
        if version := self._progress.prompted_version(PODS, since=at):
            self._member_labels.begin_list(version)

    def _bindable_namespaces(self, queues: frozenset[str]) -> tuple[BindableNamespace, ...]:
        members = self._store.members
        namespaces = []
        for queue in queues:
            unfiltered = frozenset(members.unfiltered_namespaces(queue))
            for namespace in members.bindable_namespaces(queue):
                namespaces.append(BindableNamespace(queue, namespace, namespace in unfiltered))
        return tuple(namespaces)

    def _gather_passes(self, queues: frozenset[str]) -> list[BindPass]:
        """The open passes of these queues; the pods are made to catch up with what may have settled them."""
        by_queue = self._open_passes()
        passes = [bind_pass for queue in queues & by_queue.keys() for bind_pass in by_queue[queue]]
        if passes:
            self._progress.demand(PODS, self._store.own_writes.last)
        return passes

    def _open_passes(self) -> dict[str, list[BindPass]]:
        """The open passes of this replica by queue, computed once in a sync, and again if some were assumed.

        A pass that was given from a snapshot without the stop was recorded before this sync began.
        """
        if self._passes is None or self._passes_assumed != self._member_labels.passes_assumed:
            self._passes_assumed = self._member_labels.passes_assumed
            self._store.settling_binds.drop_settled()
            self._passes = {}
            for bind_pass in self._store.bind_passes.open_passes():
                self._passes.setdefault(bind_pass.queue, []).append(bind_pass)
        return self._passes

    def _read_volumes(self, passes: list[BindPass], views: tuple[ReplicaView, ...] | None) -> None:
        """Find out which pods of old passes wait for a volume, unless too many passes are open."""
        if len(passes) > MAX_VOLUME_READS:
            return
        now = self._store.clock.monotonic()
        for bind_pass in passes:
            if not bind_pass.bind and bind_pass.at <= now - VOLUME_SECONDS:
                self._volumes.read(bind_pass.namespace, bind_pass.name)
        for view in views or ():
            for pod_pass in view.passes or ():
                self._volumes.read(pod_pass.namespace, pod_pass.name)

    def _pod_pass(self, bind_pass: BindPass) -> PodPass:
        now = self._store.clock.monotonic()
        unsent_at = None
        if not bind_pass.bind:
            unsent_at = self._volumes.waiting_since(bind_pass.namespace, bind_pass.name)
        is_bind = bind_pass.bind or may_be_a_bind(
            bind_pass,
            waiting_at=unsent_at,
            now=now,
            request_seconds=self._store.bind_passes.request_seconds,
        )
        return PodPass(
            queue=bind_pass.queue,
            namespace=bind_pass.namespace,
            name=bind_pass.name,
            bind=is_bind,
            unsent_at=unsent_at,
        )

    def _with_volume_waits(self, view: ReplicaView) -> ReplicaView:
        """The view, with what is known here of the pods that its replica has let through."""
        if not view.passes:
            return view
        passes = [
            msgspec.structs.replace(
                pod_pass, unsent_at=self._volumes.waiting_since(pod_pass.namespace, pod_pass.name)
            )
            for pod_pass in view.passes
        ]
        return msgspec.structs.replace(view, passes=tuple(passes))

    def is_unknown_to_some(self, queue: str) -> bool:
        """Whether nothing but change windows stops the queue, and a live replica does not know these.

        When the replicas that do not change, the statuses of such queues are looked at.
        """
        return bool(self._unaware_of_windows) and self._is_by_window(queue)

    def _receive_reading(self, reading: ReplicaReading) -> None:
        self._record_lost_replicas(reading)
        unaware = frozenset(name for name, report in reading.views.items() if not report.windows)
        if unaware != self._unaware_of_windows:
            self._unaware_of_windows = unaware
            for name in self._store.snapshot.stopped_queues():
                if self._is_by_window(name):
                    self._work_queue.add(name, QueueChange.STATUS)
        unaware = frozenset(name for name, report in reading.views.items() if not report.quotas)
        if unaware != self._unaware:
            self._unaware = unaware
            for queue in self._store.snapshot.tree.queues.values():
                if queue.capability is not None:
                    self._work_queue.add(queue.name, QueueChange.STATUS)

    def _record_lost_replicas(self, reading: ReplicaReading) -> None:
        if reading.left or reading.vanished:
            self._member_labels.request_all()  # an older version may have left pods without a label
        if reading.left:
            reports = None if reading.lost is None else tuple(reading.lost)
            if self._lost is not None and reports is not None and self._lost.reports is not None:
                reports = (*self._lost.reports, *reports)
            elif self._lost is not None:
                reports = None
            expired = reading.expired or (self._lost is not None and self._lost.expired)
            self._lost = LostReplicas(reading.version, reports, expired)
        if reading.vanished:
            self._store.admissions.assume_any()
        self._assume_passes_of_lost()

    def _assume_passes_of_lost(self) -> None:
        """Assume the passes that lost replicas may have given, once all pods of that moment are known."""
        lost = self._lost
        if lost is not None and self._progress.demand(PODS, lost.version):
            self._store.settling_binds.assume(
                lambda queue: self._all_had_stopped(queue, lost.reports), binds=lost.expired
            )
            self._lost = None

    def _all_had_stopped(self, queue: str, lost: tuple[ReplicaReport, ...] | None) -> bool:
        """Whether all lost replicas had reported the queue, with its present specs, as stopped."""
        snapshot = self._store.snapshot
        if lost is None or queue not in snapshot.tree or snapshot.decision(queue).schedules:
            return False
        chain = [self._store.queues.get(above.name) for above in snapshot.tree.chain(queue).queues]
        version = max((obj.metadata.version for obj in chain if obj is not None), default=0)
        return all(
            report.seen >= version and report.open is not None and queue not in report.open for report in lost
        )


def may_be_a_bind(
    bind_pass: BindPass, *, waiting_at: float | None, now: float, request_seconds: float
) -> bool:
    """Whether a lost replica may have let a bind of this pod pass the guard, which may still be stored.

    It did so before the pass was assumed. `waiting_at`: a time at which no bind of the pod had been sent.
    """
    if not bind_pass.assumed or (waiting_at is not None and waiting_at >= bind_pass.at):
        return False
    return now < bind_pass.at + request_seconds
