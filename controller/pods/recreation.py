"""Has pods that are parked by filter created again, with our gate, where `spec.parked` of their queue is
Recreate: they are deleted, or their Job is suspended until the queue schedules.

kube-scheduler retries each pod that an extender refuses whenever any pod is bound or deleted, and looks at
each pod that waits without a gate at every change of any pod. A gated pod costs it next to nothing. The API
server lets nobody add a gate to a pod (docs/contributing/decisions/parked-by-filter.md).

A pod is deleted only if

- its queue is suspended or held, that stop is acknowledged, and the queue accepts pods: the new pod is gated
  by every replica, and refused by none;
- filter has refused it, and it is bound nowhere. The version of the pod that says so is a precondition of the
  deletion;
- it was created no later than in the second in which the stop was acknowledged: a time of creation has no
  more than seconds. So what is created again is not deleted again for longer than that second, even if it
  should come without the gate;
- its controller is a ReplicaSet or StatefulSet that is known here, is of the same queue, wants replicas and
  is not being deleted. Nobody creates a bare pod again; what other controllers do is not known;
- few of those that were deleted before are missing, of its controller and in all
  (`controller.pods.missing_pods`). So deletions are as slow as the creations that follow them, and end where
  those are refused;
- it names no PodGroup, whose controller may count it, and has no finalizer, by which somebody waits for it.

A Job counts a deleted pod as failed, so it is suspended instead, on the same conditions, if none of its pods
is on a node, and nobody but a CronJob owns it. It is resumed as after a drain.

A pod of a queue with a quota comes back with the gate of quotas, too: it has given back what it was released
for, and waits for room after the resume.

Disruption budgets do not matter: the eviction API does not ask them for a pending pod either.

Invariants
- At most `RECREATIONS` requests are sent in a step, for the oldest pods first; queues take turns.
- The decision and the leadership are read again just before each request.
- What is left is read from the pods, so a crash loses nothing and repeats nothing. What is missing is
  forgotten with the leadership: the next leader deletes a few more at most.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from itertools import zip_longest

from cluster.cache.changes import QueueChange
from cluster.cache.members import Member
from cluster.cache.workloads import Workload
from cluster.exceptions import Conflict, NotFound
from cluster.objects import Condition
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext, pod_subject, queue_subject, workload_subject
from controller.evictions.pods import delete_pod
from controller.parts import Part
from controller.pods.missing_pods import MissingPods
from controller.requests import RequestState
from queues.apimachinery.timestamps import parse_timestamp
from queues.causes import CauseKind
from queues.snapshot import QueueDecision
from queues.status.conditions import ACTIVE

#: Requests in a step, and the seconds between two steps.
RECREATIONS, STEP_SECONDS = 25, 0.5
#: Seconds until the missing pods are counted again while they keep others from being deleted.
MISSING_SECONDS = 2.0
#: Writers that the requests of one namespace take at most.
LANES_PER_NAMESPACE = 3
#: Seconds until what could not be done is tried again, though nothing has changed.
IDLE_SECONDS = 30.0
EVENT_REASON, SUSPENDED_REASON = "ParkedPodsRecreated", "SuspendedByQueue"
#: The kinds of `apps` that create a pod again for each that is deleted, and count none as failed.
_KINDS = frozenset({"replicasets", "statefulsets"})
_JOB, _CRON_JOB = "jobs", "cronjobs"
#: Suspends a Job if none of its pods is on a node and the function that it is given says yes at last; returns
#: whether it did.
SuspendJob = Callable[[Workload, Callable[[], bool]], bool]
#: Label `outcome` of metric `sluice_recreations`.
_OUTCOMES: Mapping[bool | None, str] = {True: "done", False: "skipped", None: "failed"}
_STOPS = frozenset({CauseKind.SUSPENDED, CauseKind.STOPPED})


def recreates(decision: QueueDecision) -> bool:
    """Whether parked pods of the queue are to be created again, and would be gated then."""
    stop = decision.stop
    return decision.recreates_parked and decision.accepts and stop is not None and stop.kind in _STOPS


def may_be_recreated(member: Member, owner: Workload | None) -> bool:
    """Whether the pod is parked by filter and its controller creates it again once it is deleted, or a Job
    once it is resumed. `owner`: its controller.
    """
    if member.refusal is None or member.podgroup or owner is None or not owner.live:
        return False
    if owner.namespace != member.namespace or owner.queue != member.queue or owner.leaving:
        return False
    if owner.paused:  # suspended, or kept at zero: it creates no pod
        return False
    if owner.kind.key == _JOB:  # its pods have a finalizer, of the Job's own controller
        return not owner.delegated
    return owner.kind.key in _KINDS and not member.finalizers


def stopped_since(active: Condition | None, *, generation: int) -> datetime | None:
    """When the stop was acknowledged, to the second, as the queue's condition says; None if it does not."""
    if active is None or active.status != "False" or active.observed_generation != generation:
        return None
    return parse_timestamp(active.last_transition_time) if active.last_transition_time else None


class ParkedPodRecreation(Part):
    """Owner: the controller's thread; the deletions run in the threads of the drains' writers."""

    name = "recreation"

    def __init__(
        self, context: ControllerContext, *, is_acknowledged: Callable[[str], bool], suspend_job: SuspendJob
    ) -> None:
        """`is_acknowledged`: whether the stop of a queue is, for the specs that there are now."""
        self._context = context
        self._store = context.store
        self._is_acknowledged = is_acknowledged
        self._suspend_job = suspend_job
        #: The queues that may have such pods, and how many were left in each at the last step.
        self._queues: set[str] = set()
        self._remaining: dict[str, int] = {}
        #: The pods and Jobs that are deleted and suspended.
        self._requests = context.requests.table("PodOrJob", "recreate", RequestState)
        self._missing = MissingPods()
        self._stepped_at = -math.inf
        self._next_step_at = math.inf

    @property
    def due(self) -> float:
        return self._next_step_at

    def consider(self, queue: str, members: Iterable[Member]) -> None:
        """Take note of a queue whose members have changed."""
        if recreates(self._store.snapshot.decision(queue)) and any(map(self._may_be_recreated, members)):
            self._queues.add(queue)
            self._next_step_at = min(
                self.due, max(self._store.clock.monotonic(), self._stepped_at + STEP_SECONDS)
            )

    def step(self) -> None:
        """Send the next requests, if that is due."""
        now = self._store.clock.monotonic()
        if now < self.due:
            return
        self._stepped_at = now
        self._forget_ended(now)
        parked = {queue: self._parked_in(queue) for queue in sorted(self._queues)}
        self._queues = {queue for queue, members in parked.items() if members is None or members}
        self._set_remaining({queue: len(members) for queue, members in parked.items() if members})
        self._count_missing(parked, now=now)
        under_way = self._requests.sent
        free = most = RECREATIONS - len(under_way)
        is_kept = False
        for member in _in_turns(members for members in parked.values() if members):
            if free <= 0:
                break
            is_job = self._job_of(member) is not None
            if not is_job and not self._missing.may_delete(member.owner_uid):
                is_kept = True
            elif self._submit(member):
                free -= 1
                if not is_job:
                    self._missing.delete(member.owner_uid, now=now)
        waits = free < most or bool(under_way) or None in parked.values()
        pause = STEP_SECONDS if waits else MISSING_SECONDS if is_kept else IDLE_SECONDS
        self._next_step_at = now + pause if self._queues else math.inf

    def remaining(self, queue: str) -> int:
        """How many pods of the queue were left to be created again at the last step."""
        return self._remaining.get(queue, 0) if recreates(self._store.snapshot.decision(queue)) else 0

    def _set_remaining(self, remaining: dict[str, int]) -> None:
        """Note how many pods are left by queue. The status of each queue that has another number is due."""
        changed = {queue for queue, _ in remaining.items() ^ self._remaining.items()}
        self._remaining = remaining
        for queue in changed:
            self._context.work_queue.add_batched(queue, QueueChange.STATUS)

    def begin_term(self) -> None:
        self._queues.clear()
        self._remaining = {}
        self._missing.clear()
        self._next_step_at = math.inf

    def _count_missing(self, parked: Mapping[str, list[Member] | None], *, now: float) -> None:
        owners = {
            member.owner_uid: owner
            for members in parked.values()
            for member in members or ()
            if (owner := self._store.workloads.by_uid(member.owner_uid)) is not None
        }
        queues = self._missing.queues | {queue for queue, members in parked.items() if members}
        seen = (member for queue in queues for member in self._store.members.in_queue(queue))
        self._missing.count(seen, under_way=self._requests.sent, parked=owners, now=now)

    def _parked_in(self, queue: str) -> list[Member] | None:
        """The pods that are left to be deleted, the oldest first; None if that is to be asked again later."""
        snapshot, obj = self._store.snapshot, self._store.queues.get(queue)
        if obj is None or not recreates(snapshot.decision(queue)):
            return []
        since = stopped_since(obj.status.condition(ACTIVE), generation=obj.metadata.generation)
        if since is None or not self._is_acknowledged(queue):
            return None
        parked = [
            member
            for member in self._store.members.waiting_in(queue)
            if member.created <= since and self._may_be_recreated(member)
        ]
        if any(self._job_of(member) is not None for member in parked):
            members = self._store.members.in_queue(queue)
            running = {member.owner_uid for member in members if member.node and member.live}
            parked = [
                member for member in parked if member.owner_uid not in running or self._job_of(member) is None
            ]
        return sorted(parked, key=lambda member: member.created)

    def _may_be_recreated(self, member: Member) -> bool:
        if not member.owner_uid or not recreates(self._decision(member)):
            return False
        owner = self._store.workloads.by_uid(member.owner_uid)
        if owner is not None and owner.kind.key == _JOB and owner.owner_uid:
            above = self._store.workloads.by_uid(owner.owner_uid)
            if above is None or above.kind.key != _CRON_JOB:
                return False
        return may_be_recreated(member, owner)

    def _job_of(self, member: Member) -> Workload | None:
        owner = self._store.workloads.by_uid(member.owner_uid)
        return owner if owner is not None and owner.kind.key == _JOB else None

    def _decision(self, member: Member) -> QueueDecision:
        return self._store.decisions.of_queue(member.queue, namespace=member.namespace)

    def _submit(self, member: Member) -> bool:
        """Returns False where a request for it is under way already, or backs off."""
        job = self._job_of(member)
        uid = member.uid if job is None else job.uid
        if not self._requests.may_send(uid, now=self._stepped_at):
            return False
        may_send = partial(self._may_send, member, self._decision(member).revision)
        send = partial(self._delete, member, may_send)
        if job is not None:
            send = partial(self._suspend, job, may_send)
        submitted = self._context.submit(
            self._context.drain_writers,
            ("recreate", uid),
            send,
            self._receiver(member, job),
            rank=WriteRank.RECREATION,
            queue=member.queue,
            subject=pod_subject(member) if job is None else workload_subject(job),
            batched=True,
            lane=("recreate", member.namespace, zlib.crc32(uid.encode()) % LANES_PER_NAMESPACE),
        )
        if submitted:
            self._requests.send(uid)
        return submitted

    def _forget_ended(self, now: float) -> None:
        """Of pods the cache shows what became of them; a Job is left alone for a while."""
        ended = [uid for uid, _ in self._requests.items() if self._requests.may_send(uid, now=now)]
        for uid in ended:
            self._requests.forget(uid)

    def _may_send(self, member: Member, revision: str) -> bool:
        decision = self._decision(member)
        return self._context.leading() and recreates(decision) and decision.revision == revision

    def _delete(self, member: Member, may_send: Callable[[], bool]) -> bool:
        """In a writer's thread. Returns whether the pod was deleted."""
        if not may_send():
            return False
        try:
            delete_pod(self._context.client, member, version=member.version)
        except (NotFound, Conflict):  # it is gone, or has changed: it is looked at again
            return False
        return True

    def _suspend(self, job: Workload, may_send: Callable[[], bool]) -> bool:
        """In a writer's thread. Returns whether the Job was suspended."""
        try:
            return self._suspend_job(job, may_send)
        except (NotFound, Conflict):
            return False

    def _receiver(self, member: Member, job: Workload | None) -> Callable[[bool | None], None]:
        record = self._context.requests.of_term(partial(self._record_result, member, job))

        def receive(done: bool | None) -> None:
            record(done)
            self._say(member, job, done)

        return receive

    def _record_result(self, member: Member, job: Workload | None, done: bool | None) -> None:
        """`done`: whether it was written; None where the request was given up."""
        if job is not None:  # also where it was suspended: somebody else may resume it
            self._requests.drop(job.uid, until=self._store.clock.monotonic() + IDLE_SECONDS)
            return
        self._requests.forget(member.uid)
        if done:
            self._missing.note_deleted(member.uid)

    def _say(self, member: Member, job: Workload | None, done: bool | None) -> None:
        metrics = self._context.metrics
        (metrics.pod_recreations if job is None else metrics.job_recreations).labels(_OUTCOMES[done]).inc()
        if not done:
            return
        decision = self._decision(member)
        text = f"pods that waited without the gate are deleted, and created again with it: {decision.text}"
        record, key = self._context.recorder.record, f"workloads/{member.queue}"
        if job is not None:
            why = f"suspended, since its pods waited without the gate: {decision.text}"
            record(workload_subject(job), reason=SUSPENDED_REASON, message=why, rate_limit_key=key)
            return
        work = self._store.workloads.top_of(member.owner_uid, namespace=member.namespace)
        if work is not None:
            record(workload_subject(work), reason=EVENT_REASON, message=text, rate_limit_key=key)
        obj = self._store.queues.get(member.queue)
        if obj is not None:
            record(queue_subject(obj), reason=EVENT_REASON, message=text)


def _in_turns(queues: Iterable[list[Member]]) -> Iterator[Member]:
    """The first of each queue, then the second of each, and so on."""
    return (member for turn in zip_longest(*queues) for member in turn if member is not None)
