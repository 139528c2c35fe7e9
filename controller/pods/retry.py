"""Makes kube-scheduler retry pods that it would not retry by itself, or only minutes later.

`PreemptionRetry`: after a resume, and after a change of the scheduling policies, makes kube-scheduler retry
pods whose preemption was denied. While its queue was stopped, or by its policy, such a pod found no room, and
preempt gave it no victims. kube-scheduler then waits for room. No change of the pod itself makes it retry,
only the deletion of a pod that was assigned to a node (observed; without that it retries after five minutes).
So the controller creates such a pod, on a node that does not exist, and deletes it at once, if a pod waits
for a reason that is not ours. One such pod serves all queues that were resumed before it was created. While
there are scheduling policies each retry is made twice, `LATE_SECONDS` apart: another replica may have
answered the first time before it saw the new policies.

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
import secrets
from collections.abc import Callable, Iterable
from functools import partial

from cluster.api.client import STRATEGIC_MERGE_PATCH
from cluster.cache.marker_pods import idle_pod
from cluster.cache.members import Member
from cluster.inflight.binds import BindPass, Key
from controller.context import RETRY_SECONDS, ControllerContext, pod_path
from controller.pods.ungating import Resume, current_resume, refused_by_us
from queues import labels as names
from queues.messages import with_retry_mark
from queues.snapshot import QueueDecision, QueueSnapshot

PREFIX = "sluice-retry-"
NO_NODE = "sluice-no-such-node"

#: Any replica sees a change of the policies sooner.
LATE_SECONDS = 2.0

AGAIN_SECONDS = 5.0
#: The age at which a pass without a bind is of unknown outcome; also how often such passes are looked for.
OLD_PASS_SECONDS = 3.0

#: One retry serves all queues.
_KEY = ("preemption_retry", "")


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

    def __init__(self, context: ControllerContext, *, namespace: str) -> None:
        self._context = context
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        #: The resume for which a retry was triggered, by queue.
        self._triggered: dict[str, Resume] = {}
        #: The resume for which a queue waits for the retry that is under way, and since when.
        self._waiting: dict[str, tuple[Resume, float]] = {}
        #: When a queue's retry is made for the second time, in monotonic seconds.
        self._second_at: dict[str, float] = {}
        #: When the latest retry was begun, in monotonic seconds.
        self._began = float("-inf")

    def retry_if_refused(
        self, queue: str, members: Iterable[Member], *, may_retry: Callable[[], bool]
    ) -> bool:
        """Trigger a retry if this queue schedules and one of these members lacks room.

        `may_retry`: whether every replica lets them pass; called only where there is one. Returns whether to
        try again later: they may not yet, or a retry is under way that may have begun before these pods.
        """
        store = self._context.store
        decision = store.snapshot.decision(queue)
        if not decision.schedules:
            self._triggered.pop(queue, None)
            self._waiting.pop(queue, None)
            self._second_at.pop(queue, None)
            return False
        resume, now = current_resume(store, decision), store.clock.monotonic()
        is_second = self._triggered.get(queue) == resume
        if (is_second and now < self._second_at.get(queue, math.inf)) or not any_lacks_room(
            members, decision=decision, selects=partial(store.selects, queue)
        ):
            return False
        if not may_retry():
            return True
        waits_for, since = self._waiting.pop(queue, (None, 0.0))
        if waits_for == resume and since < self._began:  # another queue's retry serves this one
            self._record(queue, resume, is_second=is_second)
            return False
        writers, receive = self._context.writers, partial(self._receive, queue)
        if not self._context.submit(writers, _KEY, self._create_and_delete_pod, receive, rank=(3,)):
            self._waiting[queue] = (resume, since if waits_for == resume else now)
            return True
        self._began = now
        self._record(queue, resume, is_second=is_second)
        return False

    def _record(self, queue: str, resume: Resume, *, is_second: bool) -> None:
        """A retry was triggered that serves the queue."""
        self._triggered[queue] = resume
        self._second_at.pop(queue, None)
        if self._context.store.policies.policies.entries and not is_second:
            self._second_at[queue] = self._context.store.clock.monotonic() + LATE_SECONDS
            self._context.work_queue.add_after(queue, LATE_SECONDS, members=True)

    def trigger_retry(self) -> None:
        """Make kube-scheduler retry the pods that lack room, of all queues."""
        self._context.writers.submit(_KEY, self._create_and_delete_pod, rank=(3,))

    def _receive(self, queue: str, done: bool | None) -> None:
        """`done`: None if it failed; then the queues are considered again."""
        if done is None:
            self._triggered.clear()  # other queues may have relied on it
            self._began = float("-inf")
            self._context.work_queue.add_after(queue, RETRY_SECONDS, members=True)

    def _create_and_delete_pod(self) -> bool:
        name = f"{PREFIX}{secrets.token_hex(4)}"
        self._context.client.create(self._path, idle_pod(name, nodeName=NO_NODE))
        self._context.client.delete(f"{self._path}/{name}", {"gracePeriodSeconds": 0})
        return True


def passes_to_retry(passes: Iterable[BindPass], snapshot: QueueSnapshot) -> set[Key]:
    """The pods of these passes whose queue does not schedule."""
    return {bind_pass.key for bind_pass in passes if not snapshot.decision(bind_pass.queue).schedules}


def may_be_retried(member: Member | None, decision: QueueDecision) -> bool:
    """Whether a retry makes sense: the pod could be bound although its queue does not schedule."""
    return member is not None and member.bindable and not decision.schedules


class BindPassRetry:
    """Owner: the controller's thread; the writes run in the writers' threads."""

    def __init__(self, context: ControllerContext, *, trigger_retry: Callable[[], object]) -> None:
        """`trigger_retry`: makes kube-scheduler retry pods that lack room; a change of theirs does not."""
        self._context = context
        self._store = context.store
        self._trigger_retry = trigger_retry
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
                self._trigger_retry()

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
