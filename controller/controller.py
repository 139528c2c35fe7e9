"""The controller's thread: what a sync does, and when one begins.

Read `_run`, then `_sync`, then `_make_parts`: the parts in their order, each with the reason for its place.

Invariants
- Other threads only add changes and deliver results (`workqueue`). This thread decides everything, and the
  threads of a `WriteQueue` send the requests: this thread waits for no answer.
- Nothing is done before the store is in sync: half a cluster would look empty.
- An exception in a part, or for a queue or an object, stops nothing else (`cluster.key_backoff`): that part,
  queue or object is tried again after a back-off.
- Every `RESYNC_SECONDS` all queues are synced.
- `stop()` returns once the sync under way has ended.

What is synced after a change:

=====================  ======================================================================
what changed           what is synced
=====================  ======================================================================
a queue's spec         its Commands, its waiting members, PodGroups and status; the same of all below
all of a queue         the same of that queue: at a resync, after a back-off of something of it, and when
                       it begins or ceases to select a namespace
a queue's members      its waiting members and its status: when they are due, or the Leases were read
a queue's status       its status
a queue's Commands     its Commands and its status
a member               that member; the status of its queue, and of those above that wait for
                       it (a stop to be acknowledged, a close to become Closed), or count it in
                       their quota, which they do once in a while; its PodGroup
a workload             the status of its queue, and of those above that wait for it
a PodGroup             its phase; the status of its queue, and of those above that wait for it
no queue               the pods whose PodGroup was not there; the labels of namespaces
the policies           the status of each queue whose condition PolicyResolved changes
=====================  ======================================================================
"""

from __future__ import annotations

import math
from functools import partial

from cluster.background_thread import BackgroundThread
from cluster.cache.changes import NO_QUEUE, QueueChange
from cluster.write_ranks import WriteRank
from controller.commands.handler import CommandHandler
from controller.context import RETRY_SECONDS, ControllerContext
from controller.default_objects import DefaultQueues, NamespaceLabelPart
from controller.drain.controller import DrainController
from controller.events import FailureEvents, ParentCycleEvents, UnreadableEvents
from controller.gauges import Gauges
from controller.members.changed_members import ChangedMembers
from controller.members.queue_members import QueueMembers
from controller.members.resumed_pods import ResumedPods
from controller.parts import Part, attempt
from controller.pods.member_labels import MemberLabels
from controller.pods.pod_conditions import PodConditions
from controller.pods.recreation import ParkedPodRecreation
from controller.pods.retry import BindPassRetry, PreemptionRetry
from controller.pods.retry_event import RetryEvents
from controller.pods.ungating import Ungating
from controller.pods.untaken_pods import UntakenPods
from controller.quota.releases import QuotaReleases
from controller.requests import RequestUpkeep
from controller.status.podgroup_status import PodGroupStatuses
from controller.status.policy_changes import PolicyChanges
from controller.status.queue_reconciler import QueueReconciler
from controller.status.queue_records import QueueRecords
from controller.status.queue_statuses import DrainingStatuses, QueueStatuses
from controller.status.quota_enforcement import QuotaEnforcement
from controller.stops.acknowledgement import StopAcknowledgement
from controller.stops.bind_guard import BindGuards
from controller.stops.edge_hold import EdgeHold
from controller.stops.registration_lapses import RegistrationLapses
from controller.stops.windows import ChangeWindows
from controller.workqueue import ChangesByPart

RESYNC_SECONDS = 30.0
#: How often it is checked whether the store is in sync.
UNSYNCED_SECONDS = 0.05
IDLE_SECONDS = 5.0
#: How often the parts that stand by are called at least.
STAND_BY_SECONDS = 1.0


class QueueController:
    """Owner: the server, which starts and stops it."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._store = context.store
        self._backoff = context.store.backoff
        self._work_queue = context.work_queue
        self._queue_records = QueueRecords(context.work_queue)
        self._resync_at = 0.0
        self._led = False
        self._term = 0
        self._guards = BindGuards(context, changed=self._queue_records.wake)
        self._member_labels = MemberLabels(context, changed=self._queue_records.wake)
        self._lapses = RegistrationLapses(
            context,
            member_labels=self._member_labels,
            guards=self._guards,
            changed=self._add_promises,
        )
        self.parts = self._make_parts()
        self._thread = BackgroundThread(self._run, name="queue-controller")
        context.store.add_listener(self._work_queue.add_change)
        context.store.watch_progress.listen(lambda _kind: self._queue_records.wake())
        context.store.registrations.listen(self._work_queue.wake)

    def _make_parts(self) -> tuple[Part, ...]:
        """The parts in the order in which a sync runs them, each with the reason for its place."""
        context, records, guards = self._context, self._queue_records, self._guards
        member_labels, lapses = self._member_labels, self._lapses
        retry_events = RetryEvents(context)
        bind_pass_retry = BindPassRetry(context, events=retry_events)
        acknowledgement = StopAcknowledgement(
            context,
            guards=guards,
            bind_pass_retry=bind_pass_retry,
            member_labels=member_labels,
            not_asked=lambda: lapses.obstacle,
        )
        edge_hold = EdgeHold(
            context.store, statuses_wait=lambda: context.status_writers.count_before(WriteRank.COUNTS)
        )
        windows = ChangeWindows(context, hold=edge_hold)
        draining = DrainController(context, demand_version_of_all=acknowledgement.demand_version_of_all)
        recreation = ParkedPodRecreation(
            context,
            is_acknowledged=lambda queue: records.holds(queue, context.store.snapshot),
            suspend_job=draining.suspend_waiting,
        )
        policy_changes = PolicyChanges(context, records=records)
        conditions = PodConditions(context)
        releases = QuotaReleases(
            context, blocked=conditions.write_lack, is_use_unknown=lambda: bool(lapses.obstacle)
        )
        draining.hold(releases.is_held)
        enforcement = QuotaEnforcement(
            context,
            acknowledgement=acknowledgement,
            guards=guards,
            releases=releases,
            member_labels=member_labels,
            lapses=lapses,
        )
        reconciler = QueueReconciler(
            context,
            records=records,
            acknowledgement=acknowledgement,
            member_labels=member_labels,
            draining=draining,
            recreation=recreation,
            policy_changes=policy_changes,
            enforcement=enforcement,
            lapses=lapses,
            claimant_of=releases.claimant_of,
            given_back=releases.given_back,
            kept_below=releases.kept_below,
            counted_beside=releases.counted_beside,
        )
        statuses = QueueStatuses(
            context, reconciler=reconciler, records=records, draining=draining, edge_hold=edge_hold
        )
        podgroups = PodGroupStatuses(
            context, standing=releases.standing, take_changed=releases.take_changed_groups
        )
        ungating = Ungating(context, events=retry_events)
        changed_members = ChangedMembers(context.store, is_restoring=member_labels.is_restoring)
        resumed = ResumedPods(
            context, acknowledgement=acknowledgement, ungating=ungating, members=changed_members
        )
        members = QueueMembers(
            context,
            members=changed_members,
            resumed=resumed,
            ungating=ungating,
            preemption_retry=PreemptionRetry(context, events=retry_events),
            acknowledgement=acknowledgement,
            conditions=conditions,
            recreation=recreation,
            draining=draining,
            podgroups=podgroups,
        )
        return (
            # A term begins with no request of another one, and pods that are gone with none for anybody.
            RequestUpkeep(context.store, context.requests),
            # The passes of this replica, also while another one leads.
            bind_pass_retry,
            # What must be there before anything is decided of a queue or a namespace.
            DefaultQueues(context),
            NamespaceLabelPart(context),
            ParentCycleEvents(context),
            # Which pods are members: before a stop is looked at, which waits for them ...
            member_labels,
            # ... and before a lapse of the webhooks ends, which waits for a list of theirs.
            lapses,
            # What was gathered for acknowledgements in the last sync: before the first status.
            acknowledgement,
            # The edges of windows go before the statuses of their queues, which are held meanwhile.
            windows,
            edge_hold,
            # Queues whose policy is another one have their status looked at in this sync.
            policy_changes,
            # A guard is turned on before pods are released or ungated in its namespace, and before the status
            # that waits for it.
            guards,
            # A resumed queue's pods go before all else that is done for queues: users wait for them.
            resumed,
            # What is released for a quota: before statuses, which say what is used.
            releases,
            enforcement,
            statuses,
            # Commands and members come after the status: who stopped a queue waits for that, and it may have
            # many members.
            CommandHandler(context),
            members,
            # The phases of PodGroups follow from the members and from what was released.
            podgroups,
            UntakenPods(
                context,
                is_refused_by_all=acknowledgement.demand_given_up_by_all,
                guarded_since=lambda namespace: self._guards.on.get(namespace, math.inf),
            ),
            # It deletes what members have shown to be parked, and suspends Jobs by the drain's own requests.
            recreation,
            # A drain steps once its queue's members are known; then comes the status that says how far it is.
            draining,
            DrainingStatuses(statuses),
            # One question for all queues whose status has asked for it.
            reconciler.closing,
            # What all others have found.
            UnreadableEvents(context),
            FailureEvents(context),
            Gauges(context, windows_overdue=windows.overdue),
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._work_queue.stop()
        self._thread.join(timeout=10)

    @property
    def alive(self) -> bool:
        return self._thread.alive

    def elected(self) -> None:
        """Begin a sync, since this replica leads from now on. May be called from any thread."""
        self._work_queue.wake()

    def _run(self) -> None:
        while not self._work_queue.stopped:
            changes = self._work_queue.get(
                self._times(), at_once=self._led and self._queue_records.are_urgent
            )
            try:
                self._sync(changes)
            except Exception as exc:  # a fault of this module: each part handles its own
                seconds = self._backoff.record_failure("sync", "", exc)
                self._work_queue.requeue(changes)
                self._work_queue.pause(min(seconds, RETRY_SECONDS))

    @property
    def next_sync_at(self) -> float:
        """When it syncs though nothing has changed, in monotonic seconds."""
        return min(self._times())

    def _times(self) -> list[float]:
        """When to sync though nothing has changed, in monotonic seconds."""
        now = self._store.clock.monotonic()
        times = [now + (IDLE_SECONDS if self._led else STAND_BY_SECONDS), self._backoff.next_requeue]
        if self._led:
            times.extend(self._not_before(part.name, part.due) for part in self.parts)
        valid_until = self._store.snapshot.valid_until
        if valid_until is not None:
            left = (valid_until - self._store.clock.now()).total_seconds()
            times.append(self._not_before("snapshot", now + max(0.0, left)))
        return times

    def _not_before(self, step: str, at: float) -> float:
        """When a step is due, if it does not back off until later."""
        return max(at, self._store.clock.monotonic() + self._backoff.seconds_left(step, NO_QUEUE))

    def _sync(self, changes: ChangesByPart) -> None:
        """Do everything that follows from the changes."""
        if not self._store.synced:
            self._context.metrics.oldest_unacknowledged_stop.set(None)  # others know better
            self._work_queue.requeue(changes)
            self._work_queue.pause(UNSYNCED_SECONDS)
            self._work_queue.wake()
            return
        for queue in self._backoff.take_due_queues():
            changes.setdefault(queue, set()).add(QueueChange.RESYNC)
        self._resync_if_due(changes)
        self._follow_leadership(changes)
        if not self._led:
            for part in self.parts:
                attempt(self._store, part.name, partial(part.stand_by, changes))
            return
        self._forget_deleted_queues(changes)
        for part in self.parts:
            part.record(changes)
            attempt(self._store, part.name, partial(self._take_step, part, changes))

    def _take_step(self, part: Part, changes: ChangesByPart) -> None:
        for queue in part.step() or ():
            changes.setdefault(queue, set()).add(QueueChange.STATUS)

    def _resync_if_due(self, changes: ChangesByPart) -> None:
        """Add all queues when the resync is due, or when an expired snapshot was replaced."""
        snapshot, now = self._store.snapshot, self._store.clock.monotonic()
        expired = snapshot.valid_until is not None and snapshot.valid_until <= self._store.clock.now()
        renewed = expired and attempt(self._store, "snapshot", self._store.queue_cache.publish)
        if renewed or now >= self._resync_at:
            self._resync_at = now + RESYNC_SECONDS
            self._add_everything(changes)
            for part in self.parts:
                attempt(self._store, f"resync of {part.name}", part.resync)

    def _follow_leadership(self, changes: ChangesByPart) -> None:
        """Begin or end a term. When one begins all queues are added."""
        was, self._led = (self._led, self._term), self._context.leading()
        self._term = self._context.term()
        if (self._led, self._term) == was:
            return
        for part in self.parts:
            part.begin_term()
        if self._led:
            self._add_everything(changes)

    def _add_promises(self) -> None:
        """Have the statuses of all queues looked at that promise something: a stop, or a capability."""
        tree, snapshot = self._store.snapshot.tree, self._store.snapshot
        for queue in tree:
            if not snapshot.decision(queue).schedules or tree.queues[queue].capability is not None:
                self._work_queue.add(queue, QueueChange.STATUS)

    def _forget_deleted_queues(self, changes: ChangesByPart) -> None:
        for queue in changes:
            if queue not in self._store.snapshot.tree:
                for part in self.parts:
                    part.forget_queue(queue)

    def _add_everything(self, changes: ChangesByPart) -> None:
        store = self._store
        for queue in (*store.snapshot.tree, *store.members.queues(), *store.commands.queues(), NO_QUEUE):
            changes.setdefault(queue, set()).add(QueueChange.RESYNC)
