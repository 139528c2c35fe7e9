"""Decides what of a queue's status is written, and when.

Invariants
- What is written follows from the Queue, the snapshot and the members; what is remembered (`queue_records`)
  only says when.
- Conditions, state and history are written in the first sync after a change, or together with what all
  replicas have to see first if that comes within `YOUNG_SECONDS`. Counts are written when `count_slots` says.
  Nothing is written where nothing differs.
- A member that changes has the queues above looked at for their quota alone when that is counted next
  (`seconds_until_counted`): to derive a status takes as long as there are queues below.
- After a resume that removes gates the status waits for `FIRST_PODS_SECONDS`, so that its requests do not
  compete with the patches and binds of the first pods.
- Nothing whose size is up to users delays an acknowledgement: counts are written apart where they are large,
  or were refused (`status_writer`).
- While the store has an older object than the one that was written last, the queue waits for its event.
- No status of a queue that Volcano had closed is written before its spec says so (`stops.adopted_close`).
- `Closed` is written only after the API server has said that there is no live member (`closing`), by their
  label, and no member without the label is left: a list of all pods begun after the close says so
  (`controller.pods.member_labels`). A stored `Closed` is not trusted: anybody with rights on
  `status` can write it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from cluster.cache.members import Member
from cluster.cache.podgroups import PodGroupKey
from cluster.objects import ChainLink, QueueObject, StopStatus
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext
from controller.drain.controller import DrainController
from controller.pods.member_labels import MemberLabels
from controller.pods.recreation import ParkedPodRecreation
from controller.status.closing import Close, ClosingChecks, closing_status
from controller.status.count_slots import COUNT_SECONDS
from controller.status.exceeded_guarantees import ExceededGuarantees
from controller.status.policy_changes import PolicyChanges
from controller.status.queue_records import PendingStop, QueueRecords, QueueStatusRecord
from controller.status.queue_status import (
    Confirmed,
    Counted,
    DrainReport,
    StopReport,
    current_status,
    desired_status,
    is_policy_alone,
    is_urgent,
    status_patch,
)
from controller.status.quota_enforcement import QuotaEnforcement
from controller.status.quota_status import QuotaUseByQueue, quota_fields
from controller.status.status_conflicts import StatusConflicts
from controller.status.status_writer import Nothing, StatusWrite, StatusWriter, Wait
from controller.stops.acknowledgement import SpecsSeen, StopAcknowledgement
from controller.stops.adopted_close import adopt_close
from controller.stops.registration_lapses import RegistrationLapses
from controller.stops.resume_at import resume_if_due
from queues.apimachinery.pod_requests import Requests
from queues.apimachinery.timestamps import rfc3339
from queues.drain.progress import drain_status, drained_condition
from queues.quota.given_back import GivenBack
from queues.quota.report import CountedBeside
from queues.states import State
from queues.status.acknowledgement import Obstacle, ObstacleReason
from queues.status.conditions import ACTIVE
from queues.status.policy_condition import policy_condition
from queues.text import truncated
from queues.verdict import Verdict

#: How soon a queue is reconciled again while a stop of it is not acknowledged, or not seen by all replicas.
ACKNOWLEDGE_SECONDS = 0.02
#: While specs are this young the queue is reconciled more often, and that not all replicas have seen them is
#: not worth a write: soon all have, and the guards are on.
YOUNG_SECONDS, SOON_SECONDS = 0.2, 0.005
#: Where several stops are pending, each is looked at as many times less often, though once in this time: what
#: brings evidence wakes all of them anyway. And it is young for longer, up to `WAITING_SECONDS`.
SELDOM_SECONDS = 1.0
#: The first pod of a resume is bound in less.
FIRST_PODS_SECONDS = 0.05
#: A stop that waits for longer says for what, in so many characters.
WAITING_SECONDS, WAITING_LIMIT = 2.0, 300
#: How soon a queue that is not empty yet is reconciled again.
EMPTY_SECONDS = 0.5

log = logging.getLogger(__name__)


class QueueReconciler:
    """Owner: the controller's thread."""

    def __init__(  # noqa: PLR0913 - each decides a part of the status
        self,
        context: ControllerContext,
        *,
        records: QueueRecords,
        acknowledgement: StopAcknowledgement,
        member_labels: MemberLabels,
        draining: DrainController,
        recreation: ParkedPodRecreation,
        policy_changes: PolicyChanges,
        enforcement: QuotaEnforcement,
        lapses: RegistrationLapses,
        claimant_of: Callable[[str], Member | None],
        given_back: Callable[[str], Sequence[GivenBack]],
        kept_below: Callable[[str], Mapping[PodGroupKey, Requests]],
        counted_beside: Callable[[str], CountedBeside],
    ) -> None:
        """`claimant_of`: the pod for which others leave room in a queue. `given_back`: what the status of a
        queue says was given back. `kept_below`: what is kept for gangs of a queue and of those below it.
        `counted_beside`: what else counts of them that no pod uses.
        """
        self._kept_below = kept_below
        self._counted_beside = counted_beside
        self._context = context
        self._store = context.store
        self._records = records
        self._acknowledgement = acknowledgement
        self._member_labels = member_labels
        self._draining = draining
        self._recreation = recreation
        self._policy_changes = policy_changes
        self._enforcement = enforcement
        self._lapses = lapses
        self._claimant_of = claimant_of
        self._given_back = given_back
        self._quota_use = QuotaUseByQueue(context.store)
        self._guarantees = ExceededGuarantees(context.store)
        self._conflicts = StatusConflicts(context)
        #: A part that runs after all statuses: one question for all of a sync.
        self.closing = ClosingChecks(context)
        self._writer = StatusWriter(context, records=records, conflicts=self._conflicts)

    def reconcile(self, queue: str, *, spec_changed: bool = False) -> float | None:
        """Bring the stored status up to date. Returns the seconds after which the queue is reconciled again;
        None if only a change makes that necessary.

        `spec_changed`: the spec of the queue, or of one above or below it, may have changed.
        """
        obj = self._store.queues.get(queue)
        if obj is None:
            self.forget(queue)
            return None
        if adopt_close(obj, context=self._context):
            return None
        record = self._records.record_of(obj)
        answer = self._decide(obj, record, spec_changed=spec_changed)
        if isinstance(answer, StatusWrite):
            answer = self._writer.write(obj, record, answer)
        return answer.seconds if isinstance(answer, Wait) else answer.again

    def seconds_until_counted(self, queue: str) -> float:
        """In how many seconds its quota is counted, if a member of it or of a queue below changes now."""
        record = self._records.get(queue)
        if record is None or record.quota_scope != self._store.snapshot.scope(queue):
            return 0.0
        return max(0.0, record.quota_at + COUNT_SECONDS - self._store.clock.monotonic())

    def record(self, queues: Iterable[str]) -> None:
        """Something of these queues has changed."""
        self._quota_use.record(queues)

    def forget(self, queue: str) -> None:
        """Forget a queue that does not exist any more."""
        self._acknowledgement.forget(queue)
        self._conflicts.forget(queue)
        self.closing.forget(queue)
        self._records.forget(queue)
        self._enforcement.forget_queue(queue)

    def _decide(
        self, obj: QueueObject, record: QueueStatusRecord, *, spec_changed: bool
    ) -> StatusWrite | Wait | Nothing:
        """Compare the status that there should be with the stored one."""
        queue, version = obj.metadata.name, obj.metadata.version
        retry_in = record.retry_at - self._store.clock.monotonic()
        if version == record.failed_version and retry_in > 0:
            return Wait(retry_in)
        is_last_word = record.write_under_way and record.write_rank <= WriteRank.STATUS
        if is_last_word or version < record.written_version:
            if spec_changed:
                self._records.set_changed_during_write(queue, True)
            return Nothing()
        self._records.set_changed_during_write(queue, False)
        resume_if_due(obj, context=self._context)
        specs = self._acknowledgement.specs_seen(queue)
        verdict, again = self._advance_close(obj, record)
        acknowledged = self._advance_stop(queue, record, verdict)
        if (left := self._seconds_for_first_pods(queue, verdict, specs)) > 0:
            return Wait(left)
        seen_by_all = self._acknowledgement.demand_seen_by_all(queue)
        if not (acknowledged and seen_by_all) and self._is_young(record, specs):
            return Wait(self._stretched(SOON_SECONDS))
        closed_verified = verdict.accepts or self._closed_is_verified(queue)
        if not (acknowledged and seen_by_all and closed_verified):
            again = self._stretched(ACKNOWLEDGE_SECONDS)
        unlabelled = ""
        if verdict.drains:
            subtree = self._store.snapshot.tree.subtree(queue)
            unlabelled = self._member_labels.look_for_all(subtree, since=specs.at)
        if unlabelled:
            again = min(again, EMPTY_SECONDS) if again else EMPTY_SECONDS
        if (quota_due := self._count_quota(queue, record)) is not None:
            again = min(again, quota_due) if again else quota_due
        status = desired_status(
            obj,
            verdict,
            self._counted(queue, record),
            confirmed=Confirmed(
                acknowledged=acknowledged,
                seen_by_all=seen_by_all,
                closed_verified=closed_verified,
                unlabelled=unlabelled,
                not_asked="" if record.stop is None else record.stop.not_asked,
            ),
            now=self._store.clock.now(),
            stop=None if verdict.schedules else self._stop_report(obj, record.stop),
            drain=self._drain_report(queue),
            policy=policy_condition(queue, self._store.pod_policies.of_queue(queue)),
            quota=record.quota_conditions,
            closing=closing_status(self._store, verdict),
        )
        before = current_status(obj.status)
        difference = status_patch(status, before)
        urgent = is_urgent(difference, before)
        if urgent and (conflict := self._conflicts.seconds_to_wait(obj, status)):
            return Wait(min(conflict, again) if again else conflict)
        write = StatusWrite(
            difference=difference,
            urgent=urgent,
            again=again,
            is_policy_alone=is_policy_alone(difference, before),
        )
        is_write = difference and (
            write.rank is not WriteRank.POLICY or self._policy_changes.may_write(queue)
        )
        return write if is_write else Nothing(again)

    def _count_quota(self, queue: str, record: QueueStatusRecord) -> float | None:
        """Count what its quota says, at most once in `COUNT_SECONDS`: the queues below it are counted, too.
        At once where specs have changed. Returns in how many seconds it is to be counted again; None where it
        was, and its capability waits for nothing.
        """
        snapshot = self._store.snapshot
        if not snapshot.decision(queue).has_quota:
            record.quota, record.quota_conditions = None, ()
            self._enforcement.forget_queue(queue)
            return None
        now, scope = self._store.clock.monotonic(), snapshot.scope(queue)
        if record.quota_scope == scope and (left := record.quota_at + COUNT_SECONDS - now) > 0:
            return left
        use = self._quota_use.below(queue)
        claimant, given_back = self._claimant_of(queue), self._given_back(queue)
        record.quota = quota_fields(
            queue,
            self._store,
            use,
            claimant=claimant,
            given_back=given_back,
            kept=self._kept_below(queue),
            beside=self._counted_beside(queue),
        )
        record.quota_at, record.quota_scope = now, scope
        is_stopped = self._records.holds(queue, snapshot)
        found = (
            self._enforcement.condition(queue, used=use.used, is_stopped=is_stopped),
            self._guarantees.condition(queue),
        )
        record.quota_conditions = tuple(each for each in found if each is not None)
        return COUNT_SECONDS if self._enforcement.is_waiting(queue) else None

    def _counted(self, queue: str, record: QueueStatusRecord) -> Counted:
        return Counted(
            pods=self._store.members.counts(queue),
            groups=self._store.podgroups.counts(queue).by_phase(),
            not_selected=self._store.live_members.pods_not_selected_of(queue),
            recreating=self._recreation.remaining(queue),
            quota=record.quota,
        )

    def _drain_report(self, queue: str) -> DrainReport | None:
        """How far the drain is; None where the queue does not drain, or a queue below took no step yet."""
        own = self._draining.progress(queue)
        if own is None:
            return None
        subtree = [self._draining.progress(name) for name in self._store.snapshot.tree.subtree(queue)]
        progress = [part[1] for part in subtree if part is not None]
        if len(progress) < len(subtree):
            return None
        counts, own_progress = own
        return DrainReport(
            condition=drained_condition(queue, progress),
            status=drain_status(counts, own_progress, since=rfc3339(counts.since)),
        )

    # Closing

    def _advance_close(self, obj: QueueObject, record: QueueStatusRecord) -> tuple[Verdict, float | None]:
        """Take the next steps towards Closed. Return the verdict, and the seconds after which a closing queue
        is reconciled again.

        It says Closed only where the API server has said that the queue is empty, or where the status says so
        already and the API server has not answered yet.
        """
        store, queue = self._store, obj.metadata.name
        verdict = store.snapshot.verdict(queue, live=store.live_members.below(queue) > 0)
        if verdict.state is not State.CLOSED:
            self.closing.forget(queue)
            return verdict, None
        close = self._close(obj)
        empty = self.closing.is_empty(close)
        if empty:
            return verdict, None
        nothing_pending = None
        closed_at = self._acknowledgement.specs_seen(queue).at
        if not self._member_labels.look_for_all(close.below, since=closed_at):
            nothing_pending = self._acknowledgement.demand_nothing_pending(queue)
        if nothing_pending is not False:
            if nothing_pending and self._is_seen_by_all(queue):
                self.closing.request(close)
            if empty is None and _says_closed(obj, record):
                return verdict, EMPTY_SECONDS
        again = max(EMPTY_SECONDS, self.closing.seconds_left(close))
        return store.snapshot.verdict(queue, live=True), again

    def _is_seen_by_all(self, queue: str) -> bool:
        """Whether each replica that may answer has the specs of its chain."""
        version = self._acknowledgement.specs_seen(queue).version
        return self._acknowledgement.demand_all_known(version) and self._acknowledgement.demand_seen_by_all(
            queue
        )

    def _close(self, obj: QueueObject) -> Close:
        queue, snapshot = obj.metadata.name, self._store.snapshot
        subtree = snapshot.tree.subtree(queue)
        return Close(queue, obj.metadata.uid, snapshot.decision(queue).revision, subtree)

    def _closed_is_verified(self, queue: str) -> bool:
        """Whether the API server was asked about each queue of the subtree whose status says Closed."""
        subtree = [self._store.queues.get(name) for name in self._store.snapshot.tree.subtree(queue)]
        closed = [obj for obj in subtree if obj is not None and obj.status.state == State.CLOSED]
        return all(self.closing.is_empty(self._close(obj)) is not None for obj in closed)

    # Stops

    def _advance_stop(self, queue: str, record: QueueStatusRecord, verdict: Verdict) -> bool:
        """Take the next steps of its stop, if any. Return whether it is acknowledged, or there is none."""
        if verdict.schedules:
            self._acknowledgement.forget(queue)
            self._records.end_stop(queue)
            return True
        snapshot = self._store.snapshot
        scope = snapshot.scope(queue)
        stop = record.stop
        if stop is None or stop.scope != scope:
            places = snapshot.places(queue)
            if stop is not None and stop.places == places:
                stop.scope = scope
            else:
                version = snapshot.resource_version
                at = self._acknowledgement.known_at(version)
                pending = PendingStop(scope=scope, places=places, version=version, at=at)
                stop = self._records.begin_stop(queue, pending)
        if stop.acknowledged and self._must_withdraw(queue, stop):
            stop = self._records.begin_stop(queue, self._withdrawn(stop))
        if stop.acknowledged:
            return True
        now = self._store.clock.monotonic()
        obstacle = self._acknowledgement.advance(queue, since=stop.version, at=stop.at)
        stop.not_asked = ""
        if obstacle is not None:
            if obstacle.reason is ObstacleReason.NOT_ASKED and self._lapses.is_lapsed:
                stop.version, stop.at = snapshot.resource_version, now  # evidence counts from the end on
                stop.withdrawn, stop.not_asked = True, obstacle.text
            if stop.not_asked or now >= stop.pending_since + WAITING_SECONDS:
                _report_obstacle(queue, stop, obstacle)
            return False
        stop.asked_at = self._lapses.version
        self._records.acknowledge_stop(queue)
        self._context.metrics.acknowledgement_duration.observe(now - stop.at)
        return True

    def _must_withdraw(self, queue: str, stop: PendingStop) -> bool:
        """Whether its acknowledgement holds no more: a replica has come that does not know what stops the
        queue, or the API server may not have asked us about all pods and binds since.
        """
        return stop.asked_at != self._lapses.version or self._acknowledgement.is_unknown_to_some(queue)

    def _withdrawn(self, stop: PendingStop) -> PendingStop:
        """The same stop, pending again."""
        version = self._store.snapshot.resource_version
        at = self._store.clock.monotonic()
        return PendingStop(scope=stop.scope, places=stop.places, version=version, at=at, withdrawn=True)

    def _seconds_for_first_pods(self, queue: str, verdict: Verdict, specs: SpecsSeen) -> float:
        """For how long the status of a queue whose gates are being removed waits."""
        if not verdict.schedules or not self._store.members.counts(queue).gated:
            return 0.0
        return specs.at + FIRST_PODS_SECONDS - self._store.clock.monotonic()

    def _is_young(self, record: QueueStatusRecord, specs: SpecsSeen) -> bool:
        """Whether the specs, or the pending stop, were noticed within the last `YOUNG_SECONDS`; more, where
        several stops are pending."""
        stop = record.stop
        at = specs.at if stop is None or stop.acknowledged else max(specs.at, stop.pending_since)
        young = min(YOUNG_SECONDS / 2 * self._records.pending_stops, WAITING_SECONDS)
        return self._store.clock.monotonic() < at + max(YOUNG_SECONDS, young)

    def _stretched(self, seconds: float) -> float:
        """As many times as long as stops are pending."""
        return min(seconds * max(1, self._records.pending_stops), SELDOM_SECONDS)

    def _stop_report(self, obj: QueueObject, stop: PendingStop | None) -> StopReport:
        """The stop of a queue that does not schedule.

        The refusal of a status for the same specs is kept, so that replicas of two versions show one text.
        While the former leader's acknowledgement stands, the status does not say what ours waits for.
        """
        snapshot, queue = self._store.snapshot, obj.metadata.name
        decision, scope = snapshot.decision(queue), snapshot.scope(queue)
        is_withdrawn = stop is not None and stop.withdrawn
        acknowledged = scope if _says_acknowledged(obj, scope) and not is_withdrawn else ""
        if stop is not None and stop.acknowledged:
            acknowledged = stop.scope  # the queues may have changed since: no evidence is for that
        chain = snapshot.tree.chain(queue).queues
        return StopReport(
            scope=scope,
            status=StopStatus(
                revision=decision.revision,
                scope=acknowledged,
                queues=len(snapshot.tree.subtree(queue)),
                chain=[ChainLink(name=one.name, generation=one.generation) for one in chain],
                refusal=self._store.queue_cache.refusal_text(decision),
                contact=decision.stop.contact if decision.stop is not None else "",
                waiting_for="" if stop is None or acknowledged == scope else stop.waiting_for,
            ),
        )


def _says_closed(obj: QueueObject, record: QueueStatusRecord) -> bool:
    """Whether the status says Closed by our word, or the former leader's. It stays until it is checked."""
    return obj.status.state == State.CLOSED and record.written_state in (None, State.CLOSED)


def _says_acknowledged(obj: QueueObject, scope: str) -> bool:
    """Whether the status says that the stop is acknowledged for this scope, by the former leader's word."""
    active, stop = obj.status.condition(ACTIVE), obj.status.stop
    return active is not None and active.status == "False" and stop is not None and stop.scope == scope


def _report_obstacle(queue: str, stop: PendingStop, obstacle: Obstacle) -> None:
    """Note what a stop waits for, and log it where that differs from before."""
    text = truncated(f"{obstacle.reason}: {obstacle.text}", limit=WAITING_LIMIT)
    if stop.waiting_for != text:
        stop.waiting_for = text
        log.warning("the stop of queue %s waits: %s", queue, text)
