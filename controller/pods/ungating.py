"""Removes our scheduling gate from pods, and makes kube-scheduler retry pods that filter refused, once their
queue schedules.

| the pod                                          | what is written                                   |
|--------------------------------------------------|---------------------------------------------------|
| has our gate                                     | the gate is removed                               |
| was refused by filter (its condition says so)    | nothing: one event makes kube-scheduler retry all |
| the same, and few are or the event did not help  | annotation `sluice.dev/woken`, so it is retried   |
| may not start (`queues.start_decision`)          | nothing: it waits; the gate goes where that says  |
|                                                  | that it does not stay                             |
| waited for its PodGroup, which exists now        | its queue, with node affinity to that's groups;   |
|                                                  | the gate is removed if it schedules               |
| is of a queue with a quota                       | no gate is removed here (`controller.quota`)      |

The order is by priority, then age, among all queues that one edit resumes (`resume_together`). Each write
reads the queue's decision again just before it is sent, so a stop in the middle of a resume takes effect at
once. Which pods wait is read from the pods, so a crash loses nothing.

After a resume the writers get the first gates at once, and the others as they send them (`_Backlog`). To
submit thousands takes the interpreter for as long as the first pod needs from its patch to its bind, and a
stop of another queue would wait for all of them.

A pod whose namespace has come to be selected, or whose scheduling policy has got the action for it, is
retried several times, with growing pauses, while its condition still says the opposite: another replica may
have answered kube-scheduler before it saw the new labels or policies.

Without the event (`controller.pods.retry_event`) or the annotation kube-scheduler would retry a pod that an
extender refused only when another pod or a node changes, or after five minutes.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import Enum, auto
from functools import partial
from typing import Any

import msgspec

from cluster.api.client import MERGE_PATCH, STRATEGIC_MERGE_PATCH, decode_response
from cluster.backoff import Backoff
from cluster.cache.changes import NO_QUEUE, QueueChange
from cluster.cache.members import Member
from cluster.cache.store import Store
from cluster.objects import Pod
from cluster.write_ranks import WriteRank
from controller.context import (
    RETRY_SECONDS,
    ControllerContext,
    each_member,
    pod_path,
    pod_subject,
)
from controller.pods.refused_pods import RefusedPods
from controller.pods.retry_event import RetryEvents
from controller.pods.workload_podgroups import WorkloadPodGroups
from controller.requests import RequestState, RequestTable
from queues import well_known
from queues.causes import StartReason
from queues.membership import label_value
from queues.node_groups import NodeGroups, with_node_groups
from queues.snapshot import QueueDecision
from queues.start_decision import StartDecision

#: The number of retries of a pod whose condition still says that its namespace is not selected, or what its
#: policy lacks, and the pauses between them.
TIMES, RETRY = 8, Backoff(1.0)

#: The gates that a resume submits before all else; and how many wait for each writer: at most, and at least
#: while there are more.
FIRST_GATES, MOST_PER_WRITER, LEAST_PER_WRITER = 16, 32, 16

#: What changes with each resume of a queue: its revision, and the number of changes of what it selects and of
#: the scheduling policies.
Resume = tuple[str, int]


def current_resume(store: Store, decision: QueueDecision) -> Resume:
    """The resume that the queue's pods were let go by last."""
    selection = store.namespaces.selection_changes.get(decision.queue, 0)
    return decision.revision, selection + store.policies.changes + store.system_pods.first_lists


class PodAction(Enum):
    """What is to be done about a member once its queue schedules."""

    NOTHING = auto()
    UNGATE = auto()
    RETRY = auto()


def pod_action(member: Member, start: StartDecision, decision: QueueDecision) -> PodAction:
    """All rows of the table but the last. `start`: whether the member may start."""
    if start.keeps_gate or not member.waiting or member.leaving:
        return PodAction.NOTHING
    if member.gated:
        return PodAction.NOTHING if decision.has_quota else PodAction.UNGATE
    if start.reason is StartReason.NO_ROOM and member.refusal is StartReason.NO_ROOM:
        return PodAction.NOTHING  # the leader's release has it retried (`controller.quota`)
    if start.reason is StartReason.NO_ACTION or member.refusal is None:
        return PodAction.NOTHING
    is_retried = member.retried_for == decision.revision and not _retried_repeatedly(member, decision)
    return PodAction.NOTHING if is_retried else PodAction.RETRY


def _retried_repeatedly(member: Member, decision: QueueDecision) -> bool:
    """Whether a refused member is retried until its condition changes; else once for each revision."""
    return bool(decision.restricted) or member.refusal is StartReason.NO_ACTION


def next_retry_at(before: RequestState | None, resume: Resume) -> float:
    """When a pod of a queue with a selector may be retried, in monotonic seconds; infinity: no more.

    `before`: its retries, of which each counts as a failure, since its condition says the opposite still.
    """
    if before is None or before.version != resume:
        return -math.inf
    return math.inf if before.failures >= TIMES else before.not_before


def record_retry(retries: RequestTable[RequestState], uid: str, resume: Resume, *, now: float) -> None:
    """One more retry was sent."""
    if not retries.is_asked(uid, resume):
        retries.forget(uid)
    retries.send(uid, version=resume)
    retries.refuse(uid, now=now)


def awaits_assignment(member: Member) -> bool:
    """Whether the pod waits with one of our gates, and has no queue on it: its PodGroup was not known when it
    was created. The cache may have heard of the PodGroup first, so that it knows the queue.
    """
    is_gated = member.waiting and (member.gated or member.quota_gated)
    has_waited = bool(member.podgroup) and member.labels.get(well_known.QUEUE) == ""
    return is_gated and has_waited and not member.written


def assignment(member: Member, queue: str, *, keeps_gate: bool) -> dict[str, Any]:
    """The last row of the table: the patch of a pod whose PodGroup exists now."""
    body: dict[str, Any] = {
        "metadata": {
            "uid": member.uid,
            "annotations": {well_known.QUEUE: queue},
            "labels": {well_known.QUEUE: label_value(queue)},
        }
    }
    if not keeps_gate:
        body["spec"] = {"schedulingGates": [_DELETE_GATE]}
    return body


def gate_removal(member: Member, *, of_quota: bool = False) -> tuple[dict[str, Any], str]:
    """What is patched in the spec to remove our gate, and the type of the patch. `of_quota`: both of ours.

    Gates are never added to a pod that exists. So where none is known but what goes, there is no other, and a
    merge patch removes it. The API server allocates 255 KiB for it, and 318 for a strategic merge patch.
    """
    if not (member.others_gated or (member.quota_gated and not of_quota)):
        return {"schedulingGates": None}, MERGE_PATCH
    gates = [well_known.GATE, well_known.QUOTA_GATE] if of_quota else [well_known.GATE]
    return {"schedulingGates": [{"name": gate, "$patch": "delete"} for gate in gates]}, STRATEGIC_MERGE_PATCH


class _Backlog:
    """The gated members of resumes that are not submitted to the writers yet; by priority, then age."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, datetime, str], str]] = []
        self._uids: set[str] = set()

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, member: Member) -> bool:
        return member.uid in self._uids

    def add(self, member: Member) -> None:
        if member.uid not in self._uids:
            self._uids.add(member.uid)
            heapq.heappush(self._heap, (_rank(member), member.uid))

    def pop(self) -> str:
        """Remove the first one; return its UID."""
        _, uid = heapq.heappop(self._heap)
        self._uids.discard(uid)
        return uid


class Ungating:
    """Owner: the controller's thread; the writes run in the writers' threads."""

    def __init__(self, context: ControllerContext, *, events: RetryEvents) -> None:
        self._context = context
        self._refused_pods = RefusedPods(context, events=events)
        self._workload_podgroups = WorkloadPodGroups(context)
        #: For which revision all waiting members of a queue were ungated or retried.
        self._resumed: dict[str, str] = {}
        #: The writes that were sent for pods: not again for the same version of a pod.
        self._sent = context.requests.table("Pod", "ungate", RequestState)
        #: The retries of pods of queues with a selector; the version is the resume.
        self._retries = context.requests.table("Pod", "retry", RequestState, backoff=RETRY)
        self._backlog = _Backlog()
        #: Whether more of the backlog will be submitted soon.
        self._continues = False
        #: Whether several queues are being resumed: all their gates go to the backlog, which sorts them.
        self._together = False
        #: The UIDs of the members whose gate was submitted, and which no writer has tried yet.
        self._gates: set[str] = set()

    def ungate(self, queue: str, members: Iterable[Member], *, may_retry: Callable[[], bool]) -> int:
        """Ungate or retry the members that the queue's stop had parked.

        `may_retry`: whether pods that filter refused may be retried; called only where there is one.
        Returns the number of pods whose retry it postponed.
        """
        decision = self._context.store.snapshot.decision(queue)
        if not decision.schedules:
            return 0
        gates_left: float = math.inf
        if self._resumed.get(queue) != decision.revision:
            # After a resume all waiting members are ungated in order of priority, not only the changed ones.
            self._resumed[queue] = decision.revision
            members = self._context.store.members.waiting_in(queue)
            gates_left = 0 if self._together else FIRST_GATES
        postponed, refused = 0, list[Member]()

        def ungate(member: Member) -> None:
            nonlocal postponed, gates_left
            if awaits_assignment(member):
                return  # its gate goes with the write of its queue
            action = self._action(member, decision)
            if action is PodAction.UNGATE and member in self._backlog:
                return
            if action is PodAction.UNGATE and gates_left > 0:
                gates_left -= 1
                self._submit_gate(member)
            elif action is PodAction.UNGATE:
                self._backlog.add(member)
            elif action is PodAction.RETRY:
                postponed += not self._retry_or_postpone(
                    member, decision, may_retry=may_retry, refused=refused
                )

        # In order, so that the writers begin with the first ones while the rest is still being looked at.
        each_member(self._context, "ungate", sorted(members, key=_rank), ungate, queue=queue)
        self._continue(at_most=FIRST_GATES)
        for member in self._refused_pods.retry(queue, refused, revision=decision.revision):
            self._send(member, "retry", partial(self._retry, member, decision.revision))
        return postponed

    @contextmanager
    def resume_together(self) -> Iterator[None]:
        """Submit the gates of the queues that are resumed in this block in one order, at its end."""
        self._together = True
        try:
            yield
        finally:
            self._together = False
            self._submit_from_backlog(FIRST_GATES)
            self._continue(at_most=FIRST_GATES)

    def is_resumed(self, queue: str) -> bool:
        """Whether it was resumed, and none of its members was ungated since."""
        decision = self._context.store.snapshot.decision(queue)
        return decision.schedules and self._resumed.get(queue) != decision.revision

    def assign_queues(self, members: Iterable[Member], *, queue: str = NO_QUEUE) -> None:
        """Write the queue of pods whose PodGroup did not exist when they were created. `queue`: that of all
        of them, if the cache knows it; those that have it on them are left alone.
        """
        waiting = members if queue == NO_QUEUE else filter(awaits_assignment, members)
        each_member(self._context, "assign_queue", waiting, self._assign_queue, queue=queue)

    def _assign_queue(self, member: Member) -> None:
        queue = self._context.store.podgroups.queue_of(member.namespace, member.podgroup)
        if queue is not None:
            self._send(member, "assign_queue", partial(self._write_assignment, member, queue))
        else:
            self._workload_podgroups.make(member)

    def forget_absent_queues(self) -> None:
        """Forget the queues without members."""
        queues = set(self._context.store.members.queues())
        self._refused_pods.forget_absent_queues(queues)
        for queue in self._resumed.keys() - queues:
            del self._resumed[queue]

    def _action(self, member: Member, decision: QueueDecision) -> PodAction:
        action = pod_action(member, self._start(member), decision)
        if action is not PodAction.RETRY:
            self._retries.forget(member.uid)
        return action

    def _submit_gate(self, member: Member) -> None:
        def write() -> bool:
            try:
                return self._remove_gate(member)
            finally:
                self._gates.discard(member.uid)
                self._continue(at_most=LEAST_PER_WRITER * self._context.writers.width)

        self._gates.add(member.uid)
        if not self._send(member, "ungate", write):
            self._gates.discard(member.uid)

    def _continue(self, *, at_most: int) -> None:
        """Have more of the backlog submitted if no more than so many gates wait; from any thread."""
        if len(self._backlog) and len(self._gates) <= at_most and not self._continues:
            self._continues = True
            self._context.work_queue.deliver(self._submit_backlog)

    def _submit_backlog(self) -> None:
        """Submit gates of members that wait as before, so many that the writers are busy for a while."""
        self._continues = False
        if not self._context.leading():
            self._backlog = _Backlog()
        self._submit_from_backlog(MOST_PER_WRITER * self._context.writers.width)

    def _submit_from_backlog(self, most: int) -> None:
        """Submit the first gates of the backlog until so many wait for a writer."""
        while len(self._backlog) and len(self._gates) < most:
            member = self._context.store.members.by_uid(self._backlog.pop())
            if member is not None:
                each_member(self._context, "ungate", [member], self._ungate_again, queue=member.queue)

    def _ungate_again(self, member: Member) -> None:
        """Ungate it if that is still to be done: its queue may have been stopped meanwhile."""
        decision = self._context.store.snapshot.decision(member.queue)
        if self._action(member, decision) is PodAction.UNGATE and not awaits_assignment(member):
            self._submit_gate(member)

    def _retry_or_postpone(
        self,
        member: Member,
        decision: QueueDecision,
        *,
        may_retry: Callable[[], bool],
        refused: list[Member],
    ) -> bool:
        """Returns False if `may_retry` says no. Adds it to `refused` if it is to be retried once."""
        if not may_retry():
            return False
        if _retried_repeatedly(member, decision):
            self._retry_until_it_changes(member, decision)
        else:
            refused.append(member)
        return True

    def _retry_until_it_changes(self, member: Member, decision: QueueDecision) -> None:
        """Retry it several times, until its condition says something else."""
        now = self._context.store.clock.monotonic()
        resume = current_resume(self._context.store, decision)
        due = next_retry_at(self._retries.get(member.uid), resume)
        if due == math.inf:
            return
        self._requeue(member.queue)
        if now >= due:
            record_retry(self._retries, member.uid, resume, now=now)
            self._send(member, "retry", partial(self._retry, member, f"{decision.revision}-{now:.3f}"))

    def _requeue(self, queue: str) -> None:
        self._context.work_queue.add_after(queue, QueueChange.MEMBERS, seconds=RETRY_SECONDS)

    def _send(self, member: Member, what: str, write: Callable[[], bool]) -> bool:
        """Returns False if it was sent already, or is not taken now."""
        if self._sent.is_asked(member.uid, member.version):
            return False
        self._sent.send(member.uid, version=member.version)
        key, not_written = (what, member.uid), partial(self._not_written, member)
        subject = pod_subject(member)
        if self._context.submit_write(
            key,
            write,
            self._context.requests.of_term(not_written),
            rank=WriteRank.RELEASE,
            order=_rank(member),
            queue=member.queue,
            subject=subject,
        ):
            return True
        self._sent.forget(member.uid)  # an earlier write for it is still under way, or it backs off
        if not self._context.writers.wait(key):
            self._requeue(member.queue)
        return False

    def _not_written(self, member: Member, failed: bool) -> None:
        self._sent.forget(member.uid, version=member.version)
        if failed:
            self._requeue(member.queue)

    def _remove_gate(self, member: Member) -> bool:
        if self._start(member).keeps_gate or self._has_quota(member.queue):
            return False
        spec, content_type = gate_removal(member)
        body = {"metadata": {"uid": member.uid}, "spec": spec}
        self._context.client.patch(pod_path(member), body, content_type=content_type)
        return True

    def _retry(self, member: Member, token: str) -> bool:
        """Change the annotation, which makes kube-scheduler retry the pod."""
        if not self._start(member).may_start:
            return False
        body = {"metadata": {"uid": member.uid, "annotations": {well_known.RETRIED_FOR: token}}}
        self._context.client.patch(pod_path(member), body)
        return True

    def _write_assignment(self, member: Member, queue: str) -> bool:
        keeps_gate = self._start(member, queue).keeps_gate or self._has_quota(queue)
        body = assignment(member, queue, keeps_gate=keeps_gate)
        groups = self._context.store.snapshot.decision(queue).node_groups
        if groups is not None:
            self._add_node_groups(body, member, groups)
        self._context.client.patch(pod_path(member), body, content_type=STRATEGIC_MERGE_PATCH)
        return True

    def _add_node_groups(self, body: dict[str, Any], member: Member, groups: NodeGroups) -> None:
        """The API server lets the affinity of a gated pod become narrower."""
        pod = decode_response(self._context.client.get(pod_path(member)), _pods)
        body["metadata"]["resourceVersion"] = pod.metadata.resource_version
        affinity = with_node_groups(pod.spec.affinity, groups)
        if affinity:
            body.setdefault("spec", {})["affinity"] = affinity

    def _has_quota(self, queue: str) -> bool:
        return self._context.store.snapshot.decision(queue).has_quota

    def _start(self, member: Member, queue: str = "") -> StartDecision:
        return self._context.store.decisions.of_member(member, queue)


def _rank(member: Member) -> tuple[int, datetime, str]:
    """By priority, then age in seconds. Of one second those of one owner go together: a controller that hears
    of several pods at once writes one status for them.
    """
    return -member.priority, member.created, member.owner_uid


_pods = msgspec.json.Decoder(Pod)
_DELETE_GATE = {"name": well_known.GATE, "$patch": "delete"}
