"""Writes on each gated pod why it waits: its PodScheduled condition and an event name the queue, the cause
and the way out.

kube-scheduler writes the condition of pods that filter refused. It does not try gated pods, and the API
server's text for them is the same for each gate, so the condition's message is replaced. When the gate is
removed kube-scheduler writes the condition again. Another scheduler may not, or nobody runs it: then the
condition is removed (`Member.says_gated`), at the version that has no gate, so that nothing newer is lost.

While evictions of the queue's drain wait in the write queue, the condition of a new pod is written up to
`LATER` later: each such write costs the API server as much as an eviction, and a drain causes many new pods.

The topmost owner, which is the workload that the user created, gets an event, once for each stop, and once
for each reason for which a pod of it has no room: users look for the reason on a Deployment without running
pods. A pod that replaces one that a drain has evicted gets no event of its own then: a drain makes as many as
pods ran, and the condition says the same. Nor does one whose PodGroup the leader is about to create.

A text that comes while another one of the same pod is written is written after it; of several the latest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile

import msgspec

from cluster.api.client import STRATEGIC_MERGE_PATCH
from cluster.cache.changes import NO_QUEUE
from cluster.cache.members import Member
from cluster.exceptions import Conflict, NotFound
from cluster.write_ranks import WriteRank
from controller.context import (
    ControllerContext,
    each_member,
    pod_path,
    pod_subject,
    workload_subject,
)
from controller.requests import RequestState
from queues.causes import Cause, CauseKind, NoRoom
from queues.quota.lack import Lack
from queues.snapshot import QueueDecision
from queues.start_decision import StartDecision
from queues.world.members import is_podgroup_made

EVENT_REASONS = {
    CauseKind.SUSPENDED: "QueueSuspended",
    CauseKind.STOPPED: "QueueStopped",
    CauseKind.BROKEN: "QueueChainBroken",
    CauseKind.NOT_FOUND: "QueueNotFound",
    CauseKind.NO_PODGROUP: "PodGroupNotFound",
    CauseKind.CLOSED: "QueueClosed",
    CauseKind.TERMINATING: "QueueClosed",
    CauseKind.NOT_SELECTED: "NamespaceNotSelected",
}


#: The number of workloads whose event is remembered; when there are more, each gets one more event.
MAX_REMEMBERED = 10_000
#: The age at which the condition of a pod is written at the latest, while evictions of its queue wait.
LATER = timedelta(seconds=30)


class _Later(RequestState, kw_only=True):
    """A text that came while another one was written. `write`: writes it on the member."""

    write: Callable[[Member], object] | None = None


class PodConditions:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        #: The texts that were submitted, each for the version of its pod and that text.
        self._texts = context.requests.table("Pod", "condition", RequestState)
        #: Of each pod the latest text that came while another one was written.
        self._later = context.requests.table("Pod", "later condition", _Later)
        #: The stop (a decision's revision) for which a workload got an event, by UID.
        self._owner_stops: dict[str, str] = {}
        #: What workloads got an event for, since pods of them have no room: UID and text.
        self._owner_lacks: set[tuple[str, str]] = set()
        #: Members whose condition is written later, with their creation time, by queue and UID; in the order
        #: in which they were deferred.
        self._deferred: dict[str, dict[str, datetime]] = {}

    def write_conditions(self, queue: str, members: Iterable[Member]) -> bool:
        """Write the condition of each gated member, and of the deferred members that are due.

        Returns whether members are deferred: call it again in a while.
        """
        decision = self._context.store.snapshot.decision(queue) if queue != NO_QUEUE else None
        evictions_wait = decision is not None and decision.drains and len(self._context.drain_writers) > 0
        since = self._context.store.clock.now() - LATER
        deferred = self._deferred.get(queue, {})
        members = [*self._take_due(deferred, since=since if evictions_wait else None), *members]

        def write_condition(member: Member) -> None:
            if member.leaving or not member.waiting:
                return
            if member.says_gated:
                self._remove(member)
                return
            own = decision
            if decision is not None and decision.restricted:
                own = self._context.store.decisions.of_queue(queue, namespace=member.namespace)
            made = is_podgroup_made(member)
            start = self._context.store.decisions.by_queue(own, podgroup=member.podgroup, made_by_leader=made)
            is_told = own is not None and self._record_on_owner(member, own, start)
            if not (member.gated or member.quota_gated):
                return
            if evictions_wait and member.created > since:
                deferred[member.uid] = member.created
            elif start.keeps_gate:
                with_event = not made if own is None else not (own.drains and is_told)
                self._write(member, start, with_event=with_event)

        each_member(self._context, "pod_condition", members, write_condition, queue=queue)
        if deferred:
            self._deferred[queue] = deferred
        else:
            self._deferred.pop(queue, None)
        return bool(deferred)

    def _take_due(self, deferred: dict[str, datetime], *, since: datetime | None) -> list[Member]:
        """Remove and return the members created by `since`, or all; deleted ones are skipped."""
        due = list(takewhile(lambda uid: since is None or deferred[uid] <= since, deferred))
        for uid in due:
            del deferred[uid]
        members = map(self._context.store.members.by_uid, due)
        return [member for member in members if member is not None]

    def _record_on_owner(self, member: Member, decision: QueueDecision, start: StartDecision) -> bool:
        """Record the event of its stop, if there is one, on the topmost owner, once. Returns whether that is
        recorded.
        """
        if not start.keeps_gate:
            return False
        work = self._context.store.workloads.top_of(member.owner_uid, namespace=member.namespace)
        if work is None or self._owner_stops.get(work.uid) == decision.revision:
            return work is not None
        if len(self._owner_stops) >= MAX_REMEMBERED:
            self._owner_stops.clear()
        self._owner_stops[work.uid] = decision.revision
        self._context.recorder.record(
            workload_subject(work),
            reason=_event_reason(start),
            message=f"its pods wait: {start.text}",
            rate_limit_key=f"workloads/{decision.queue}",
        )
        return True

    def write_lack(self, member: Member, lack: Lack) -> None:
        """Write that the pod waits for room; on its topmost owner too, once for each reason."""
        decisions = self._context.store.decisions
        own = decisions.of_queue(member.queue, namespace=member.namespace)
        cause = NoRoom(
            queue=member.queue,
            by=lack.queue,
            never=lack.never,
            kind=lack.kind,
            why=lack.why,
            together=lack.together,
            contact=self._context.store.snapshot.tree.contact_of(lack.queue or member.queue),
        )
        start = decisions.by_queue(own, lack=cause)
        # How many could go for it changes often: its condition has that, and no event.
        says = (
            decisions.by_queue(own, lack=msgspec.structs.replace(cause, kept=lack.kept))
            if lack.kept
            else start
        )
        self._write(member, says, with_event=not lack.kept, still=lambda now: now.gated or now.quota_gated)
        work = self._context.store.workloads.top_of(member.owner_uid, namespace=member.namespace)
        if work is None or (work.uid, start.text) in self._owner_lacks:
            return
        if len(self._owner_lacks) >= MAX_REMEMBERED:
            self._owner_lacks.clear()
        self._owner_lacks.add((work.uid, start.text))
        self._context.recorder.record(
            workload_subject(work),
            reason=_event_reason(start),
            message=f"a pod of it waits: {start.text}",
            rate_limit_key=f"workloads/{member.queue}",
        )

    def _remove(self, member: Member) -> None:
        """Remove the condition of a pod without a gate."""
        if self._texts.is_asked(member.uid, (member.version, "")):
            return
        self._texts.send(member.uid, version=(member.version, ""))
        body = {
            "metadata": {"uid": member.uid, "resourceVersion": str(member.version)},
            "status": {"conditions": [{"type": "PodScheduled", "$patch": "delete"}]},
        }

        def write() -> bool:
            with suppress(NotFound, Conflict):  # it is gone, or has changed: it is looked at again
                path = f"{pod_path(member)}/status"
                self._context.client.patch(path, body, content_type=STRATEGIC_MERGE_PATCH)
            return True

        self._submit("pod_condition_removal", member, write)

    def _submit(self, what: str, member: Member, write: Callable[[], bool]) -> bool:
        """Whether it was submitted: not while another write for the pod waits or is under way."""
        written, uid, later = [False], member.uid, self._later
        forget = self._context.requests.of_term(self._texts.forget)

        def ended(is_written: bool) -> None:
            """In any term: a text that came since waits for the end of this write."""
            if not is_written:
                forget(uid)
            self._write_later(uid)

        def send() -> None:
            written[0] = write()

        def done(ok: bool) -> None:
            """On the writer's thread; another write may be submitted by now."""
            is_written = ok and written[0]
            if not is_written or uid in later:
                self._context.work_queue.deliver(partial(ended, is_written))

        submitted = self._context.writers.submit(
            (what, member.uid),
            send,
            rank=WriteRank.POD_CONDITION,
            order=(member.created,),
            done=done,
            subject=pod_subject(member),
        )
        if not submitted:
            self._texts.forget(uid)
        return submitted

    def _write_later(self, uid: str) -> None:
        later, member = self._later.get(uid), self._context.store.members.by_uid(uid)
        self._later.forget(uid)
        if later is not None and later.write is not None and member is not None:
            later.write(member)

    def _is_parked(self, member: Member) -> bool:
        """Whether its queue's stop keeps it waiting."""
        is_gated = member.gated or member.quota_gated
        return is_gated and self._context.store.decisions.of_member(member).keeps_gate

    def _write(
        self,
        member: Member,
        start: StartDecision,
        *,
        with_event: bool,
        still: Callable[[Member], bool] | None = None,
    ) -> None:
        """`still`: whether it still waits for that reason."""
        still = still or self._is_parked
        store, text = self._context.store, start.text
        self._later.forget(member.uid)
        if member.condition == text or self._texts.is_asked(member.uid, (member.version, text)):
            return
        self._texts.send(member.uid, version=(member.version, text))
        body = {
            "metadata": {"uid": member.uid},
            "status": {"conditions": [{"type": "PodScheduled", "message": text}]},
        }
        path = f"{pod_path(member)}/status"

        def write() -> bool:
            """Unless its gate is gone, or is about to go: then kube-scheduler writes the condition."""
            now = store.members.by_uid(member.uid)
            if now is None or not still(now):
                return False
            self._context.client.patch(path, body, content_type=STRATEGIC_MERGE_PATCH)
            return True

        if not self._submit("pod_condition", member, write):
            if len(self._later) >= MAX_REMEMBERED:
                self._later.clear()
            self._later.send(member.uid).write = partial(
                self._write, start=start, with_event=with_event, still=still
            )
            # Again: the one that was under way may have ended just before.
            if not self._submit("pod_condition", member, write):
                return
            self._later.forget(member.uid)
        if not with_event:
            return
        self._context.recorder.record(
            pod_subject(member),
            reason=_event_reason(start),
            message=text,
            rate_limit_key=member.queue or "-",
        )


def _event_reason(start: StartDecision) -> str:
    """The reason of the event for a pod that may not start; that of its queue says how that was stopped."""
    if isinstance(start.cause, Cause):
        return EVENT_REASONS[start.cause.kind]
    return start.reason.value if start.reason is not None else ""
