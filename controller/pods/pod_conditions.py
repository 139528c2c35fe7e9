"""Why a pod waits, on the pod: its PodScheduled condition and an event name the queue, the cause
and the way out.

kube-scheduler says so itself for the pods that filter refused. A gated pod never gets that far, and
the API server's text for it is the same whatever the gate; so the condition's message is replaced.
When the gate is lifted kube-scheduler writes the condition anew, so nothing is left to be undone.

While evictions of its drain are waiting to be sent, whoever has come to a queue is told a little later: each
telling costs the API server as much as an eviction, and of those that are drained many replacements come.

The workload that the user made, the topmost owner, is told by an event too, once a stop: who looks at a
Deployment that has no pods running finds the reason there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import takewhile

from cluster.api.client import STRATEGIC_MERGE_PATCH
from cluster.cache.members import Member
from controller.context import (
    ControllerContext,
    each_member,
    pod_path,
    pod_subject,
    workload_subject,
)
from queues.messages import stop_text
from queues.snapshot import QueueDecision
from queues.verdict import Cause, CauseKind

EVENT_REASONS = {
    CauseKind.SUSPENDED: "QueueSuspended",
    CauseKind.STOPPED: "QueueStopped",
    CauseKind.BROKEN: "QueueChainBroken",
    CauseKind.NOT_FOUND: "QueueNotFound",
    CauseKind.NO_PODGROUP: "PodGroupNotFound",
    CauseKind.CLOSED: "QueueClosed",
    CauseKind.NOT_SELECTED: "NamespaceNotSelected",
}


#: Workloads whose being told is remembered; beyond, all are told once more.
REMEMBERED = 10_000
#: How old a pod gets at most before it is told, while evictions of its queue wait to be sent.
LATER = timedelta(seconds=30)


class PodConditions:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._texts: dict[str, tuple[int, str]] = {}
        #: Of which stop (a decision's revision) a workload was told, by UID.
        self._owner_stops: dict[str, str] = {}
        #: Members to be told later, in the order in which they came, by queue and UID.
        self._deferred: dict[str, dict[str, datetime]] = {}

    def explain(self, queue: str, members: Iterable[Member]) -> bool:
        """Have each gated one of these members say why, and whoever was left before and is due.

        Returns whether some are left for later: ask again in a while.
        """
        decision = self._context.store.snapshot.decision(queue) if queue else None
        evictions_wait = decision is not None and decision.drains and len(self._context.drain_writers) > 0
        since = self._context.store.clock.now() - LATER
        left = self._deferred.get(queue, {})
        members = [*self._due(left, since=since if evictions_wait else None), *members]

        def explain(member: Member) -> None:
            if member.leaving or not member.waiting:
                return
            own = decision
            if decision is not None and decision.restricted:
                own = self._context.store.decision_for(queue, namespace=member.namespace)
            if own is not None and own.stop is not None:
                self._record_on_owner(member, own, own.stop)
            if not member.gated:
                return
            if evictions_wait and member.created > since:
                left[member.uid] = member.created
            elif own is None:
                self._write(member, Cause(kind=CauseKind.NO_PODGROUP, queue="", by=member.group))
            elif own.stop is not None:
                self._write(member, own.stop, text=own.text)

        each_member(self._context, "pod_condition", members, explain, queue=queue)
        if left:
            self._deferred[queue] = left
        else:
            self._deferred.pop(queue, None)
        return bool(left)

    def _due(self, left: dict[str, datetime], *, since: datetime | None) -> list[Member]:
        """Take those out that came by `since`, or all; whoever is not there any more is nobody."""
        due = list(takewhile(lambda uid: since is None or left[uid] <= since, left))
        for uid in due:
            del left[uid]
        members = map(self._context.store.members.by_uid, due)
        return [member for member in members if member is not None]

    def _record_on_owner(self, member: Member, decision: QueueDecision, stop: Cause) -> None:
        work = self._context.store.workloads.top_of(member.owner_uid, namespace=member.namespace)
        if work is None or self._owner_stops.get(work.uid) == decision.revision:
            return
        if len(self._owner_stops) >= REMEMBERED:
            self._owner_stops.clear()
        self._owner_stops[work.uid] = decision.revision
        self._context.recorder.record(
            workload_subject(work),
            reason=EVENT_REASONS[stop.kind],
            message=f"its pods wait: {decision.text}",
            budget=f"workloads/{decision.queue}",
        )

    def _schedules(self, member: Member) -> bool:
        return self._context.store.decision_for(member.queue, namespace=member.namespace).schedules

    def forget(self, uid: str) -> None:
        self._texts.pop(uid, None)

    def _write(self, member: Member, cause: Cause, *, text: str = "") -> None:
        text = text or stop_text(cause)
        if member.condition == text or self._texts.get(member.uid) == (member.version, text):
            return
        self._texts[member.uid] = (member.version, text)
        body = {
            "metadata": {"uid": member.uid},
            "status": {"conditions": [{"type": "PodScheduled", "message": text}]},
        }
        path = f"{pod_path(member)}/status"

        def write() -> bool:
            """Unless its gate has gone, or is about to: then the scheduler says why."""
            now = self._context.store.members.by_uid(member.uid)
            if now is None or not now.gated or (now.queue and self._schedules(now)):
                return False
            self._context.client.patch(path, body, content_type=STRATEGIC_MERGE_PATCH)
            return True

        submitted = self._context.submit_write(
            ("pod_condition", member.uid),
            write,
            lambda _failed: self.forget(member.uid),
            rank=(7, member.created),
            subject=pod_subject(member),
        )
        if not submitted:
            self.forget(member.uid)
            return
        self._context.recorder.record(
            pod_subject(member),
            reason=EVENT_REASONS[cause.kind],
            message=text,
            budget=member.queue or "-",
        )
