"""Makes kube-scheduler retry pods that it would not retry by itself, or only minutes later.

`PreemptionRetry`: makes kube-scheduler retry pods whose preemption was denied: after a resume, after a change
of the scheduling policies, and after one of what a queue lends. While its queue was stopped, or by its
policy, such a pod found no room, and preempt gave it no victims. kube-scheduler then waits for room. No
change of the pod itself makes it retry, only the deletion of a pod that was assigned to a node (observed;
without that it retries after five minutes). So the controller makes such an event
(`controller.pods.retry_event`) if a pod waits for a reason that is not ours. While there are scheduling
policies each retry is made twice, `LATE_SECONDS` apart: another replica may have answered the first time
before it saw the change.

`BindPassRetry`: makes kube-scheduler retry pods whose last filter answer has an unknown outcome. These are
the pods that a replica which is gone may have let through, and the pods that this replica let through long
ago in a queue that is stopped now: the bind may have been refused, or another replica may have answered
filter since.

- kube-scheduler makes one attempt for a pod at a time. So once it has retried, the attempt that was under way
  before has ended: the pod is bound, which its next state shows, or its bind has failed.
- kube-scheduler writes a pod's condition only if that changes, and retries a refused pod only if the pod
  changes. So the condition's text is changed first (`queues.messages.with_retry_mark`), then an annotation.
  The text that replaces ours is from an attempt that ended since (`BindPasses.end_attempt`).
- Where no scheduler answers, the pass ends with the API server's time for a request.

Invariants
- Each replica has the passes that it gave itself retried, also while it does not lead.
- A pod is retried at most once in `AGAIN_SECONDS`, and only while its queue does not schedule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial

from cluster.api.client import STRATEGIC_MERGE_PATCH
from cluster.cache.members import Member
from cluster.inflight.binds import BindPass, Key
from controller.context import RETRY_SECONDS, ControllerContext, pod_path
from controller.pods.retry_event import RetryEvents
from controller.pods.ungating import Resume, current_resume, refused_by_us
from queues import labels as names
from queues.messages import with_retry_mark
from queues.snapshot import QueueDecision, QueueSnapshot

#: Any replica sees a change of the policies sooner.
LATE_SECONDS = 2.0

AGAIN_SECONDS = 5.0
#: The age at which a pass without a bind is of unknown outcome; also how often such passes are looked for.
OLD_PASS_SECONDS = 3.0


def lacks_room(member: Member) -> bool:
    """Whether it waits for a reason that is not ours."""
    return member.bindable and bool(member.condition) and not refused_by_us(member)


def any_lacks_room(
    members: Iterable[Member], *, decision: QueueDecision, selects: Callable[[str], bool]
) -> bool:
    """Whether a member that its queue lets pass now lacks room. `selects`: is given the namespace."""
    return decision.schedules and any(
        lacks_room(member) and (not decision.restricted or selects(member.namespace)) for member in members
    )


class PreemptionRetry:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext, *, events: RetryEvents) -> None:
        self._context = context
        self._events = events
        #: The resume for which a retry was triggered, by queue.
        self._triggered: dict[str, Resume] = {}
        #: When a queue's retry is made for the second time, in monotonic seconds.
        self._second_at: dict[str, float] = {}

    def retry_if_refused(
        self, queue: str, members: Iterable[Member], *, may_retry: Callable[[], bool]
    ) -> bool:
        """Trigger a retry if this queue schedules and one of these members lacks room.

        `may_retry`: whether every replica lets them pass; called only where there is one. Returns whether to
        try again later: they may not yet.
        """
        store = self._context.store
        decision = store.snapshot.decision(queue)
        if not decision.schedules:
            self._triggered.pop(queue, None)
            self._second_at.pop(queue, None)
            return False
        resume, now = self._resume(decision), store.clock.monotonic()
        is_second = self._triggered.get(queue) == resume
        if (is_second and now < self._second_at.get(queue, math.inf)) or not any_lacks_room(
            members, decision=decision, selects=partial(store.selects, queue)
        ):
            return False
        if not may_retry():
            return True
        self._record(queue, resume, is_second=is_second)
        self._events.trigger(partial(self._receive, queue))
        return False

    def _resume(self, decision: QueueDecision) -> Resume:
        """What changes whenever a pod of the queue may get victims that it was denied."""
        store = self._context.store
        revision, changes = current_resume(store, decision)
        if store.policies.policies.entries:
            changes += store.queue_cache.lending_changes
        return revision, changes

    def _record(self, queue: str, resume: Resume, *, is_second: bool) -> None:
        """A retry was triggered that serves the queue."""
        self._triggered[queue] = resume
        self._second_at.pop(queue, None)
        if self._context.store.policies.policies.entries and not is_second:
            self._second_at[queue] = self._context.store.clock.monotonic() + LATE_SECONDS
            self._context.work_queue.add_after(queue, LATE_SECONDS, members=True)

    def _receive(self, queue: str, ok: bool) -> None:
        """If the retry failed the queue is considered again."""
        if not ok:
            self._triggered.pop(queue, None)
            self._context.work_queue.add_after(queue, RETRY_SECONDS, members=True)


def passes_to_retry(passes: Iterable[BindPass], snapshot: QueueSnapshot) -> set[Key]:
    """The pods of these passes whose queue does not schedule."""
    return {bind_pass.key for bind_pass in passes if not snapshot.decision(bind_pass.queue).schedules}


def may_be_retried(member: Member | None, decision: QueueDecision) -> bool:
    """Whether a retry makes sense: the pod could be bound although its queue does not schedule."""
    return member is not None and member.bindable and not decision.schedules


class BindPassRetry:
    """Owner: the controller's thread; the writes run in the writers' threads."""

    def __init__(self, context: ControllerContext, *, events: RetryEvents) -> None:
        """`events`: make kube-scheduler retry pods that lack room; a change of theirs does not."""
        self._context = context
        self._store = context.store
        self._events = events
        #: When each pod was retried, by UID, in monotonic seconds.
        self._retried_at: dict[str, float] = {}
        self._look_at = 0.0

    def retry_pods(self, pods: Iterable[Key]) -> None:
        """Make kube-scheduler retry these pods, unless that was done lately."""
        now = self._store.clock.monotonic()
        self._retried_at = {uid: at for uid, at in self._retried_at.items() if at > now - AGAIN_SECONDS}
        for namespace, name in pods:
            member = self._store.members.get(namespace, name)
            if member is None or not member.bindable or member.uid in self._retried_at:
                continue
            self._retried_at[member.uid] = now
            self._store.bind_passes.record_retry(namespace, name)
            self._context.status_writers.submit(
                ("retry_pass", member.uid), partial(self._retry, member), rank=(1,)
            )
            if lacks_room(member):
                self._events.trigger()

    def retry_old_passes(self) -> None:
        """Have the pods retried that this replica let through long ago in queues that do not schedule."""
        now = self._store.clock.monotonic()
        if now >= self._look_at:
            self._look_at = now + OLD_PASS_SECONDS
            old = self._store.bind_passes.open_longer_than(seconds=OLD_PASS_SECONDS)
            self.retry_pods(passes_to_retry(old, self._store.snapshot))

    def _retry(self, member: Member) -> None:
        """In a writer's thread; the decision and the pod are read again."""
        decision = self._store.snapshot.decision(member.queue)
        if not may_be_retried(self._store.members.by_uid(member.uid), decision):
            return
        path, meta = pod_path(member), {"uid": member.uid}
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": with_retry_mark(decision.text),
        }
        body = {"metadata": meta, "status": {"conditions": [condition]}}
        self._context.client.patch(f"{path}/status", body, content_type=STRATEGIC_MERGE_PATCH)
        annotations = {names.WOKEN: f"{decision.revision}-{self._store.clock.monotonic():.3f}"}
        self._context.client.patch(path, {"metadata": {**meta, "annotations": annotations}})
