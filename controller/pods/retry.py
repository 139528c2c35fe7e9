"""Makes kube-scheduler retry pods that it would not retry by itself, or only minutes later.

`PreemptionRetry`: makes kube-scheduler retry pods whose preemption was denied: after a resume, after a change
of the scheduling policies, and after one of what a queue lends. While its queue was stopped, or by its
policy, such a pod found no room, and preempt gave it no victims. kube-scheduler then waits for room. No
change of the pod itself makes it retry, only the deletion of a pod that was assigned to a node (observed;
without that it retries after five minutes). So the controller makes such an event
(`controller.pods.retry_event`) if a pod waits for a reason that is not ours. It does so once every live
replica reports that it answers by the same policies, and by queues that are no older: one that does not
would deny the victims again. A replica may report that late, or never (one of an older version). Then the
retry is made without it, several times, with growing pauses (`LATE_SECONDS`, `LATE_TIMES`), and once more
when it does. One that had no Lease for a while is not waited for: once it reports, they are retried again.

`BindPassRetry`: makes kube-scheduler retry pods whose last filter answer has an unknown outcome. These are
the pods that a replica which is gone may have let through, and the pods that this replica let through long
ago in a queue that is stopped now: the bind may have been refused, or another replica may have answered
filter since.

- kube-scheduler makes one attempt for a pod at a time. So once it has retried, the attempt that was under way
  before has ended: the pod is bound, which its next state shows, or its bind has failed.
- kube-scheduler writes a pod's condition only if that changes, and retries a refused pod only if the pod
  changes. So the condition's text is changed first (`queues.messages.with_retry_mark`), then an annotation.
  The text that replaces ours is from an attempt that ended since (`BindPasses.end_attempt`).
- A pod that lacks room is retried by an event (`controller.pods.retry_event`), which is made after both: an
  attempt that ended before the text was changed would not show. A pod that still has our text at the next
  look may lack room as well. One that no event retries keeps our text until kube-scheduler retries all pods
  that wait, after five minutes; no more events are made for it after `MARKED_SECONDS`.
- Where no scheduler answers, the pass ends with the API server's time for a request.

Invariants
- Each replica has the passes that it gave itself retried, also while it does not lead.
- A pod is retried at most once in `AGAIN_SECONDS`, and only while its queue does not schedule.
- Each pod that is changed and needs the event has one after its change. One event serves all pods that were
  changed since the last: it is made once no change is under way, and every `EVENT_SECONDS` until then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Protocol

import msgspec

from cluster.api.client import STRATEGIC_MERGE_PATCH
from cluster.cache.changes import QueueChange, StoreChange
from cluster.cache.members import Member
from cluster.inflight.binds import BindPass, PassKey
from cluster.write_ranks import WriteRank
from controller.context import RETRY_SECONDS, ControllerContext, pod_path
from controller.parts import Part
from controller.pods.retry_event import RetryEvents
from controller.pods.ungating import Resume, current_resume
from queues import well_known
from queues.messages import has_retry_mark, with_retry_mark
from queues.snapshot import QueueDecision, QueueSnapshot

#: The first pause before a retry without a replica's report; each pause is twice as long as the one before,
#: and at most so long. Five retries take a minute.
LATE_SECONDS, LONGEST_PAUSE = 2.0, 60.0
LATE_TIMES = 5

AGAIN_SECONDS = 5.0
#: For how long after the first request a pod that still has our text is retried by events as well.
MARKED_SECONDS = 6 * AGAIN_SECONDS
#: After each event kube-scheduler looks at every pod that waits.
EVENT_SECONDS = 1.0
#: The age at which a pass without a bind is of unknown outcome; also how often such passes are looked for.
OLD_PASS_SECONDS = 3.0


def lacks_room(member: Member) -> bool:
    """Whether it waits for a reason that is not ours."""
    return member.bindable and bool(member.condition) and member.refusal is None


def any_lacks_room(members: Iterable[Member], *, is_kept: Callable[[Member], bool]) -> bool:
    """Whether a member that is not kept lacks room. `is_kept`: asked only of those that lack room."""
    return any(lacks_room(member) and not is_kept(member) for member in members)


class DemandAlikeAnswers(Protocol):
    """`StopAcknowledgement.demand_alike_answers` of one queue."""

    def __call__(self, *, queues: int, policies: int, since: float) -> bool: ...


class LateRetries(msgspec.Struct, frozen=True, kw_only=True):
    """The retries after one resume that were made before all replicas were known to answer alike.

    `queues`: the version of the queues at the first look. `since`: when that was; `due`: when the next retry
    is made, both in monotonic seconds. `done`: all replicas answered alike at the last retry.
    """

    resume: Resume
    queues: int
    since: float
    due: float
    times: int = 0
    done: bool = False

    def after_retry(self, *, done: bool, now: float) -> LateRetries:
        times = min(self.times + 1, LATE_TIMES)  # an older version may run beside us for days
        pause = min(LATE_SECONDS * 2**times, LONGEST_PAUSE)
        return msgspec.structs.replace(self, times=times, due=now + pause, done=done)


class PreemptionRetry:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext, *, events: RetryEvents) -> None:
        self._context = context
        self._events = events
        #: The retries after the latest resume, by queue.
        self._retries: dict[str, LateRetries] = {}

    def retry_if_refused(
        self,
        queue: str,
        members: Iterable[Member],
        *,
        may_retry: Callable[[], bool],
        demand_alike_answers: DemandAlikeAnswers,
    ) -> bool:
        """Trigger a retry if this queue schedules and one of these members lacks room.

        `may_retry`: whether every replica lets them pass; called only where there is one. Returns whether to
        try again later: they may not yet.
        """
        store = self._context.store
        decision = store.snapshot.decision(queue)
        if not decision.schedules:
            self._retries.pop(queue, None)
            return False
        retries = self._retries_after(self._resume(decision), queue)
        if retries.done or not any_lacks_room(members, is_kept=self._is_kept):
            return False
        if not may_retry():
            return True
        self._retries[queue] = retries
        self._retry_or_wait(queue, retries, demand_alike_answers)
        return False

    def _is_kept(self, member: Member) -> bool:
        """Whether more than its scheduling policy, which is told of each change itself, stops it."""
        return self._context.store.decisions.of_member(member).keeps_gate

    def _retries_after(self, resume: Resume, queue: str) -> LateRetries:
        retries = self._retries.get(queue)
        if retries is None or retries.resume != resume:
            store = self._context.store
            now = store.clock.monotonic()
            version = store.snapshot.resource_version
            return LateRetries(resume=resume, queues=version, since=now, due=now + LATE_SECONDS)
        return retries

    def _resume(self, decision: QueueDecision) -> Resume:
        """What changes whenever a pod of the queue may get victims that it was denied."""
        store = self._context.store
        revision, changes = current_resume(store, decision)
        if store.policies.policies.entries:
            changes += store.queue_cache.lending_changes + store.policies.reports
        return revision, changes

    def _retry_or_wait(
        self, queue: str, retries: LateRetries, demand_alike_answers: DemandAlikeAnswers
    ) -> None:
        """Trigger a retry if all replicas answer alike, or if that was waited for long enough."""
        store = self._context.store
        now = store.clock.monotonic()
        alike = demand_alike_answers(
            queues=retries.queues, policies=store.policies.version, since=retries.since
        )
        if alike or now >= retries.due:
            is_due = alike or retries.times < LATE_TIMES
            retries = self._retries[queue] = retries.after_retry(done=alike, now=now)
            if is_due:
                self._events.trigger(partial(self._receive, queue))
        if not alike:
            self._context.work_queue.add_after(queue, QueueChange.MEMBERS, seconds=retries.due - now)

    def _receive(self, queue: str, ok: bool) -> None:
        """If the retry failed the queue is considered again."""
        if not ok:
            self._retries.pop(queue, None)
            self._context.work_queue.add_after(queue, QueueChange.MEMBERS, seconds=RETRY_SECONDS)


def passes_to_retry(passes: Iterable[BindPass], snapshot: QueueSnapshot) -> set[PassKey]:
    """The pods of these passes whose queue does not schedule."""
    return {bind_pass.key for bind_pass in passes if not snapshot.decision(bind_pass.queue).schedules}


def may_be_retried(member: Member | None, decision: QueueDecision) -> bool:
    """Whether a retry makes sense: the pod could be bound although its queue does not schedule."""
    return member is not None and member.bindable and not decision.schedules


def needs_event(member: Member, *, requested_for: float) -> bool:
    """Whether a change of the pod may not be enough for a retry: it lacks room, or was changed before.

    `requested_for`: the seconds since its first request that was not answered.
    """
    is_marked = member.bindable and has_retry_mark(member.condition)
    return lacks_room(member) or (is_marked and requested_for < MARKED_SECONDS)


class BindPassRetry(Part):
    """Owner: the controller's thread; the writes run in the writers' threads."""

    name = "retry_passes"

    def __init__(self, context: ControllerContext, *, events: RetryEvents) -> None:
        """`events`: make kube-scheduler retry pods that lack room; a change of theirs does not."""
        self._context = context
        self._store = context.store
        self._events = events
        #: When each pod was retried, by UID, in monotonic seconds.
        self._retried_at: dict[str, float] = {}
        self._look_at = 0.0
        #: How many pods are being changed; whether one that was needs the event; when that was last made.
        self._under_way = 0
        self._is_event_due = False
        self._event_at = -math.inf

    def retry_pods(self, pods: Iterable[PassKey]) -> None:
        """Make kube-scheduler retry these pods, unless that was done lately."""
        now = self._store.clock.monotonic()
        self._retried_at = {uid: at for uid, at in self._retried_at.items() if at > now - AGAIN_SECONDS}
        for namespace, name in pods:
            member = self._store.members.get(namespace, name)
            if member is None or not member.bindable or member.uid in self._retried_at:
                continue
            self._retried_at[member.uid] = now
            first = self._store.bind_passes.record_retry(namespace, name)
            self._under_way += self._context.submit(
                self._context.status_writers,
                ("retry_pass", member.uid),
                partial(self._retry, member),
                partial(self._receive, needs_event=needs_event(member, requested_for=now - first)),
                rank=WriteRank.EVIDENCE,
                batched=True,
            )

    def stand_by(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        """The same as while this replica leads: each replica retries the pods that it let through itself."""
        self.step()

    def resync(self) -> None:
        self._store.bind_passes.drop_expired(self._store.members.get)

    def step(self) -> None:
        """Have the pods retried that this replica let through long ago in queues that do not schedule."""
        now = self._store.clock.monotonic()
        if now >= self._look_at:
            self._look_at = now + OLD_PASS_SECONDS
            old = self._store.bind_passes.open_longer_than(seconds=OLD_PASS_SECONDS)
            self.retry_pods(passes_to_retry(old, self._store.snapshot))

    def _receive(self, is_changed: bool | None, *, needs_event: bool) -> None:
        """`is_changed`: whether the pod was changed; None if that failed."""
        self._under_way -= 1
        if is_changed and needs_event:
            self._is_event_due = True
        now = self._store.clock.monotonic()
        if self._is_event_due and (not self._under_way or now >= self._event_at + EVENT_SECONDS):
            self._is_event_due, self._event_at = False, now
            self._events.trigger()

    def _retry(self, member: Member) -> bool:
        """In a writer's thread: whether the pod was changed; the decision and the pod are read again."""
        decision = self._store.snapshot.decision(member.queue)
        if not may_be_retried(self._store.members.by_uid(member.uid), decision):
            return False
        path, meta = pod_path(member), {"uid": member.uid}
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": with_retry_mark(decision.text),
        }
        body = {"metadata": meta, "status": {"conditions": [condition]}}
        self._context.client.patch(f"{path}/status", body, content_type=STRATEGIC_MERGE_PATCH)
        annotations = {well_known.RETRIED_FOR: f"{decision.revision}-{self._store.clock.monotonic():.3f}"}
        self._context.client.patch(path, {"metadata": {**meta, "annotations": annotations}})
        return True
