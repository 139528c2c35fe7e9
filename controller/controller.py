"""The controller's thread: what a sync does, and when one begins.

Read `_run`, then `_sync` from top to bottom: it calls the steps in their order.

Invariants
- Other threads only add changes and deliver results (`workqueue`). This thread decides everything, and the
  threads of a `WriteQueue` send the requests: this thread waits for no answer.
- Nothing is done before the store is in sync: half a cluster would look empty.
- An exception in a step, or for a queue or an object, stops nothing else (`cluster.key_backoff`): that step,
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

import itertools
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial

from cluster.background_thread import BackgroundThread
from cluster.cache.changes import (
    NO_QUEUE,
    Change,
    ClusterChange,
    PodChange,
    PodGroupChange,
    QueueChange,
)
from cluster.cache.members import Member
from cluster.cache.podgroups import PodGroupKey
from controller.commands.handler import CommandHandler
from controller.context import RETRY_SECONDS, ControllerContext, queue_subject
from controller.default_objects import create_default_queues, label_namespaces
from controller.drain.controller import DrainController
from controller.events import ParentCycleEvents, UnreadableEvents, record_failure
from controller.gauges import set_gauges
from controller.pods.member_labels import MemberLabels
from controller.pods.nominations import Nominations
from controller.pods.pod_conditions import PodConditions
from controller.pods.recreation import ParkedPodRecreation
from controller.pods.retry import BindPassRetry, PreemptionRetry
from controller.pods.retry_event import RetryEvents
from controller.pods.ungating import Ungating
from controller.quota.releases import QuotaReleases
from controller.status.podgroup_status import PodGroupStatuses
from controller.status.policy_changes import PolicyChanges
from controller.status.queue_reconciler import ACKNOWLEDGE_SECONDS, QueueReconciler
from controller.status.queue_records import QueueRecords
from controller.status.quota_enforcement import QuotaEnforcement
from controller.stops.acknowledgement import StopAcknowledgement
from controller.stops.bind_guard import BindGuards
from controller.stops.edge_hold import EdgeHold
from controller.stops.windows import ChangeWindows
from controller.unacknowledged_stops import UnacknowledgedStops
from controller.workqueue import Changes

RESYNC_SECONDS = 30.0
#: How often it is checked whether the store is in sync.
UNSYNCED_SECONDS = 0.05
IDLE_SECONDS = 5.0
#: How often the other replicas are observed while one of them leads.
OBSERVE_SECONDS = 1.0

#: The changes after which all of a queue is synced.
_OF_ALL = frozenset({QueueChange.SPEC, QueueChange.RESYNC})
#: After which of `NO_QUEUE` the labels of namespaces are looked at; a RESYNC comes after a back-off, too.
_OF_NAMESPACES = frozenset[Change]({ClusterChange.NAMESPACES, QueueChange.RESYNC})


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
        #: The queues of which pods wait until every replica lets them pass.
        self._postponed: set[str] = set()
        self._observe_at = 0.0
        self._guards = BindGuards(context, changed=self._queue_records.wake)
        self._retry_events = RetryEvents(context)
        self._preemption_retry = PreemptionRetry(context, events=self._retry_events)
        self._bind_pass_retry = BindPassRetry(context, events=self._retry_events)
        self._member_labels = MemberLabels(context, changed=self._queue_records.wake)
        self._acknowledgement = StopAcknowledgement(
            context,
            guards=self._guards,
            bind_pass_retry=self._bind_pass_retry,
            member_labels=self._member_labels,
        )
        self._edge_hold = EdgeHold(context.store, status_writers=context.status_writers)
        self._windows = ChangeWindows(context, hold=self._edge_hold)
        self._unacknowledged_stops = UnacknowledgedStops()
        self._draining = DrainController(context)
        self._recreation = ParkedPodRecreation(
            context, is_acknowledged=self._is_acknowledged, suspend_job=self._draining.suspend_waiting
        )
        self._policy_changes = PolicyChanges(context, records=self._queue_records)
        self._pod_conditions = PodConditions(context)
        self._releases = QuotaReleases(context, blocked=self._pod_conditions.write_lack)
        self._enforcement = QuotaEnforcement(
            context, acknowledgement=self._acknowledgement, guards=self._guards, releases=self._releases
        )
        self._reconciler = QueueReconciler(
            context,
            records=self._queue_records,
            acknowledgement=self._acknowledgement,
            member_labels=self._member_labels,
            draining=self._draining,
            recreation=self._recreation,
            policy_changes=self._policy_changes,
            enforcement=self._enforcement,
            claimant_of=self._releases.claimant_of,
            given_back=self._releases.given_back,
        )
        self._commands = CommandHandler(context)
        self._ungating = Ungating(context, events=self._retry_events)
        self._podgroup_statuses = PodGroupStatuses(context, standing=self._releases.standing)
        self._draining.hold(self._releases.is_held)
        self._parent_cycles = ParentCycleEvents(context)
        self._nominations = Nominations(context)
        self._unreadable = UnreadableEvents(context)
        self._thread = BackgroundThread(self._run, name="queue-controller")
        context.store.add_listener(self._work_queue.add_change)
        context.store.watch_progress.listen(lambda _kind: self._queue_records.wake())

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
            except Exception as exc:  # a fault of this module: each step handles its own
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
        times = [now + (IDLE_SECONDS if self._led else OBSERVE_SECONDS), self._backoff.next_requeue]
        if self._led:
            times.append(self._guards.next_retry_at)
            times.append(self._not_before("drains", self._draining.due))
            times.append(self._not_before("recreation", self._recreation.due))
            times.append(self._not_before("podgroups", self._podgroup_statuses.due))
            times.append(self._not_before("member_labels", self._member_labels.due))
            times.append(self._not_before("policies", self._policy_changes.due))
            times.append(self._not_before("quota", self._releases.due))
            times.append(self._not_before("windows", self._windows.due))
            times.append(self._edge_hold.due)
        valid_until = self._store.snapshot.valid_until
        if valid_until is not None:
            left = (valid_until - self._store.clock.now()).total_seconds()
            times.append(self._not_before("snapshot", now + max(0.0, left)))
        return times

    def _not_before(self, step: str, at: float) -> float:
        """When a step is due, if it does not back off until later."""
        return max(at, self._store.clock.monotonic() + self._backoff.seconds_left(step, NO_QUEUE))

    def _sync(self, changes: Changes) -> None:
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
        self._windows.record(changes)
        self._edge_hold.record(changes)
        self._step("retry_passes", self._bind_pass_retry.retry_old_passes)
        if not self._follow_leadership(changes):
            return
        self._sync_cluster(changes)
        self._step("windows", lambda: self._windows.step(leads=True))
        for queue in self._edge_hold.take():
            changes.setdefault(queue, set()).add(QueueChange.STATUS)
        self._step("policies", lambda: self._add_policy_changes(changes))
        self._forget_deleted_queues(changes)
        self._step("guard", lambda: self._guards.reconcile(self._store.snapshot))
        ungated = self._ungate_resumed_queues(changes)
        self._releases.record(changes)
        self._reconciler.record(changes)
        self._step("quota", self._releases.step)
        self._step("podgroups", self._follow_quotas)
        # Status comes before members: a user who stopped a queue waits for it, and it may have many members.
        # The status of a queue that drains comes after the step of its drain.
        queues = self._to_reconcile({*changes, *self._queue_records.outdated_stops(self._store.snapshot)})
        draining = {queue for queue in queues if self._draining.is_draining(queue)}
        self._reconcile_each([queue for queue in queues if queue not in draining], changes)
        for queue, changes_of_queue in changes.items():
            self._sync_commands_and_members(queue, changes_of_queue, is_ungated=queue in ungated)
        self._step("podgroups", self._podgroup_statuses.reconcile_due)
        self._step("recreation", self._recreation.step)
        progressed = self._step_drains()
        self._reconcile_each(self._to_reconcile({*draining, *progressed}), changes)
        self._step("closing", self._reconciler.send_questions)
        self._step("unreadable", self._unreadable.report)
        self._step("failures", self._report_failures)

    def _follow_quotas(self) -> None:
        """The statuses of PodGroups say how they stand with the quotas."""
        self._podgroup_statuses.reconcile(self._releases.take_changed_groups())

    def _resync_if_due(self, changes: Changes) -> None:
        """Add all queues when the resync is due, or when an expired snapshot was replaced."""
        snapshot, now = self._store.snapshot, self._store.clock.monotonic()
        expired = snapshot.valid_until is not None and snapshot.valid_until <= self._store.clock.now()
        renewed = expired and self._step("snapshot", self._store.queue_cache.publish)
        if renewed or now >= self._resync_at:
            self._resync_at = now + RESYNC_SECONDS
            self._add_everything(changes)
            self._step("forget", self._forget_absent)
            self._step("metrics", self._set_gauges)

    def _set_gauges(self) -> None:
        metrics = self._context.metrics
        set_gauges(self._store, metrics, schedulers_ask=self._context.schedulers_ask)
        metrics.windows_overdue.set(self._windows.overdue())
        metrics.oldest_unacknowledged_stop.set(self._unacknowledged_stops.oldest(self._store))

    def _follow_leadership(self, changes: Changes) -> bool:
        """Whether this replica leads. When that begins, all queues are added."""
        was, self._led = (self._led, self._term), self._context.leading()
        self._term = self._context.term()
        if (self._led, self._term) != was:
            self._draining.forget()
            self._podgroup_statuses.forget_due()
            self._recreation.forget()
            self._guards.forget()
            self._member_labels.forget()
            self._releases.forget()
            self._enforcement.forget_all()
            self._reconciler.forget_all()
            self._windows.follow_leadership()
            if self._led:
                self._add_everything(changes)
        if not self._led:
            self._member_labels.drop_changes()
            self._step("windows", lambda: self._windows.step(leads=False))
            self._observe()
        return self._led

    def _observe(self) -> None:
        """Read the Leases of the other replicas before we lead, so that lost replicas are known by then."""
        now = self._store.clock.monotonic()
        if now >= self._observe_at:
            self._observe_at = now + OBSERVE_SECONDS
            self._acknowledgement.observe()

    def _sync_cluster(self, changes: Changes) -> None:
        """Do what does not concern a single queue."""
        self._step("default queues", lambda: create_default_queues(self._context))
        if not _OF_NAMESPACES.isdisjoint(changes.get(NO_QUEUE, ())):
            self._step("namespaces", lambda: label_namespaces(self._context))
        self._step("cycles", self._parent_cycles.record_events)
        self._step("member_labels", self._member_labels.step)
        self._acknowledgement.start_sync()

    def _is_acknowledged(self, queue: str) -> bool:
        return self._queue_records.holds(queue, self._store.snapshot)

    def _add_policy_changes(self, changes: Changes) -> None:
        for queue in self._policy_changes.take():
            changes.setdefault(queue, set()).add(QueueChange.STATUS)

    def _forget_deleted_queues(self, changes: Changes) -> None:
        for queue in changes:
            if queue not in self._store.snapshot.tree:
                self._reconciler.forget(queue)
                self._postponed.discard(queue)

    def _ungate_resumed_queues(self, changes: Changes) -> set[str]:
        """Ungate and retry the pods of resumed queues before all else. Returns these queues.

        Gates are removed at once; a retry may wait for a reading of the Leases, which is requested here.

        An edit of a queue resumes queues below it, too. Their changes may come with the next sync, but their
        pods are ungated in this one, all in one order.
        """
        queues = {
            queue
            for queue, changes_of_queue in changes.items()
            if queue != NO_QUEUE
            and _concern_all_members(changes_of_queue)
            and (self._ungating.is_resumed(queue) or queue in self._postponed)
        }
        if queues:
            queues.update(filter(self._ungating.is_resumed, self._store.members.queues()))
        with self._ungating.resume_together() if len(queues) > 1 else nullcontext():
            for queue in queues:
                changes_of_queue = changes.get(queue, {QueueChange.MEMBERS})
                self._step("ungate", partial(self._ungate, queue, changes_of_queue), queue=queue)
        return queues

    def _ungate(self, queue: str, changes_of_queue: set[Change]) -> None:
        """Ungate or retry the members. A pod is retried only once every replica lets it pass: else one might
        refuse it again.
        """
        members, may_retry = self._members(queue, changes_of_queue), partial(self._may_retry, queue)
        if self._ungating.ungate(queue, members, may_retry=may_retry):
            self._postponed.add(queue)
            self._work_queue.add_after(queue, QueueChange.MEMBERS, seconds=ACKNOWLEDGE_SECONDS)
        elif _concern_all_members(changes_of_queue):
            self._postponed.discard(queue)

    def _may_retry(self, queue: str) -> bool:
        return self._acknowledgement.demand_seen_by_all(queue, change=QueueChange.MEMBERS)

    def _to_reconcile(self, changes: Iterable[str]) -> list[str]:
        """These queues, and those above them whose status follows from their members; ancestors first.
        Without those that give way to edges of change windows.
        """
        snapshot, is_pending = self._store.snapshot, self._queue_records.is_pending
        queues = set()
        for queue in changes:
            if queue not in snapshot.tree:
                continue
            queues.add(queue)
            for above in snapshot.tree.chain(queue).queues[1:]:
                decision = snapshot.decision(above.name)
                if not decision.accepts or decision.drains or is_pending(above.name):
                    queues.add(above.name)
                elif decision.has_quota and above.name not in queues:
                    if (seconds := self._reconciler.seconds_until_counted(above.name)) > 0:
                        self._work_queue.add_after(above.name, QueueChange.STATUS, seconds=seconds)
                    else:
                        queues.add(above.name)
        now = itertools.filterfalse(self._edge_hold.holds, queues)
        return sorted(now, key=lambda name: (snapshot.tree.depth(name), name))

    def _reconcile_each(self, queues: Iterable[str], changes: Changes) -> None:
        for queue in queues:
            self._reconcile(queue, spec_changed=QueueChange.SPEC in changes.get(queue, ()))

    def _reconcile(self, queue: str, *, spec_changed: bool) -> None:
        obj = self._store.queues.get(queue)

        def reconcile() -> None:
            again = self._reconciler.reconcile(queue, spec_changed=spec_changed)
            if again is not None:
                self._work_queue.add_after(queue, QueueChange.STATUS, seconds=again)

        self._backoff.attempt(
            "status",
            queue,
            reconcile,
            version=self._specs(queue),
            queue=queue,
            subject=queue_subject(obj) if obj is not None else None,
        )

    def _sync_commands_and_members(
        self, queue: str, changes_of_queue: set[Change], *, is_ungated: bool
    ) -> None:
        if queue != NO_QUEUE:
            self._step("commands", lambda: self._commands.execute(queue), queue=queue)
            if not is_ungated:
                self._step("ungate", lambda: self._ungate(queue, changes_of_queue), queue=queue)
        self._step("members", lambda: self._sync_members(queue, changes_of_queue), queue=queue)

    def _sync_members(self, queue: str, changes_of_queue: set[Change]) -> None:
        members = self._members(queue, changes_of_queue)
        if queue != NO_QUEUE:
            self._retry_preemptions(queue, members)
        else:
            self._ungating.assign_queues(members)
        if self._pod_conditions.write_conditions(queue, members):
            self._work_queue.add_after(queue, QueueChange.STATUS, seconds=RETRY_SECONDS)
        self._recreation.consider(queue, members)
        self._nominations.cancel(queue, members)
        self._draining.queue_changed(queue)
        self._draining.resume_workloads(queue)
        if not _OF_ALL.isdisjoint(changes_of_queue):
            self._podgroup_statuses.reconcile_queue(queue)
        else:
            self._podgroup_statuses.reconcile(_groups(changes_of_queue))

    def _retry_preemptions(self, queue: str, members: list[Member]) -> None:
        if self._preemption_retry.retry_if_refused(
            queue,
            members,
            may_retry=partial(self._may_retry, queue),
            demand_alike_answers=partial(self._acknowledgement.demand_alike_answers, queue),
        ):
            self._work_queue.add_after(queue, QueueChange.MEMBERS, seconds=RETRY_SECONDS)

    def _members(self, queue: str, changes_of_queue: set[Change]) -> list[Member]:
        members = []
        for uid in _uids(changes_of_queue):
            member = self._store.members.by_uid(uid)
            if member is None:
                self._ungating.forget(uid)
                self._pod_conditions.forget(uid)
            elif member.queue == queue:
                members.append(member)
        if _concern_all_members(changes_of_queue):
            # Pods that run need something only while their queue is not written on them yet.
            is_written = queue != NO_QUEUE
            members_in = self._store.members.waiting_in if is_written else self._store.members.in_queue
            members = members_in(queue)
        return [member for member in members if not self._member_labels.is_restoring(member.uid)]

    def _step_drains(self) -> set[str]:
        """Take the next step of each drain; returns the queues whose drain status has changed."""
        progressed: set[str] = set()
        demand_version_of_all = self._acknowledgement.demand_version_of_all
        self._step(
            "drains",
            lambda: progressed.update(self._draining.step(demand_version_of_all=demand_version_of_all)),
        )
        return progressed

    def _report_failures(self) -> None:
        """Record an event on each object that something failed for."""
        for failure in self._backoff.take_failures():
            if failure.subject is not None:
                record_failure(self._context.recorder, failure, failure.subject)

    def _step(self, name: str, work: Callable[[], object], *, queue: str = NO_QUEUE) -> bool:
        """Do a step, of a queue or of none, unless it backs off; whether it succeeded."""
        return self._backoff.attempt(name, queue, work, version=self._specs(queue), queue=queue)

    def _specs(self, queue: str) -> str:
        """The specs that a back-off of the queue is for: when they change, the step is tried at once."""
        snapshot = self._store.snapshot
        return snapshot.decision(queue).revision if queue in snapshot.tree else ""

    def _add_everything(self, changes: Changes) -> None:
        store = self._store
        for queue in (*store.snapshot.tree, *store.members.queues(), *store.commands.queues(), NO_QUEUE):
            changes.setdefault(queue, set()).add(QueueChange.RESYNC)

    def _forget_absent(self) -> None:
        """Drop what is remembered of objects that do not exist any more."""
        self._store.bind_passes.drop_expired(self._store.members.get)
        self._podgroup_statuses.forget_absent()
        self._ungating.forget_absent_queues()
        self._acknowledgement.forget_absent_queues()
        if self._led:
            self._member_labels.mend_all()


def _concern_all_members(changes_of_queue: set[Change]) -> bool:
    """Whether all waiting members of the queue are looked at, not only those that changed."""
    return QueueChange.MEMBERS in changes_of_queue or not _OF_ALL.isdisjoint(changes_of_queue)


def _uids(changes_of_queue: Iterable[Change]) -> list[str]:
    """The members that changed."""
    return [change.uid for change in changes_of_queue if isinstance(change, PodChange)]


def _groups(changes_of_queue: Iterable[Change]) -> list[PodGroupKey]:
    """The PodGroups that changed."""
    return [change.key for change in changes_of_queue if isinstance(change, PodGroupChange)]
