"""Workloads that are suspended while their queue is drained, and resumed afterwards.

The pods of a Job are not evicted one by one, since each would count as failed. The Job is suspended instead,
and its controller *deletes* its pods without asking any budget. Therefore a Job is suspended only if every
budget allows all of its pods, which is read just before (`_check_may_suspend`), and one Job of a budget at a
time (`queues.drain.plan`). The Jobs of one PodGroup are looked at together, and then suspended in one go.

=====================  ==================================  =============================
kind                   suspended by                        resumed by
=====================  ==================================  =============================
Job, JobSet            `spec.suspend`                      `spec.suspend`
`batch.volcano.sh`     Command AbortJob                    Command ResumeJob
Deployment,            `spec.replicas` 0, past the         the recorded `spec.replicas`
StatefulSet,           deadline, if `afterDeadline` is
ReplicaSet             Scale (`scaling`)
=====================  ==================================  =============================

A Job whose pods wait without the gate is suspended the same way (`suspend_waiting`, for
`controller.pods.recreation`), if none of its pods is on a node. `job_commands` has what Commands promise.

Invariants
- What a drain suspends bears annotation `sluice.dev/suspended`, set with the same write (for Volcano's Job,
  before the Command). Only what bears it is resumed: what its user suspended stays suspended.
- It is resumed once its queue schedules again, for whatever reason.
- The mark of Volcano's Job goes when the Job is known not to be aborted any more, nor to be aborted later
  (`job_commands.resume_step`). A Command that was taken says nothing of that.
- Suspending it is conditional on what that depends on: its UID, and that it is not suspended. It is not
  conditional on its resource version: a user who writes it all the time would keep it from being suspended.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import partial

import msgspec

from cluster.api.client import JSON_PATCH, decode_response
from cluster.cache.changes import QueueChange
from cluster.cache.workloads import Workload
from cluster.exceptions import Conflict, NotFound, Refused
from cluster.objects import Pod, WorkloadObject
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext, workload_subject
from controller.drain.eviction import CommandTaken, DrainRequests, NotScalable, SuspendBlocked
from controller.drain.job_commands import ABORT, RESUME, JobResumeStep, create_command, resume_step, withdraw
from controller.drain.request_states import SUSPEND_SECONDS, RequestResult
from controller.drain.scaling import is_drained, put_back, scale_to_zero
from controller.drain.snapshot import MAX_BUDGETS
from controller.evictions import budget_reader as budgets
from controller.evictions.answers import EvictionOutcome
from controller.evictions.suspend_patches import (
    UNPROCESSABLE,
    JsonPatch,
    mark_patch,
    unmark_patch,
    workload_path,
)
from controller.requests import RequestState
from queues import well_known
from queues.drain.disruption_budgets import (
    Budget,
    BudgetIndex,
    BudgetKey,
)
from queues.drain.model import (
    DrainAction,
    RunningPod,
    SuspendableWorkload,
    Unit,
)
from queues.workload_kinds import KINDS, Life, Suspension
from queues.world.workloads import is_live, is_paused

#: Budgets over the pods of one Job that are read before it is suspended.
MAX_BUDGETS_OF_WORKLOAD = 20
#: A resume that another request of the same workload keeps waiting is tried again after so long.
BUSY_SECONDS = 1.0

_pod = msgspec.json.Decoder(Pod)
_workload = msgspec.json.Decoder(WorkloadObject)


class _Resumption(RequestState, kw_only=True):
    """The resumption of a workload that bears the mark, until the cache shows it without.

    `version`: of the workload when the requests were sent; they are sent again for another version, or from
    `not_before` on. `since`: the first of them. `is_resume_sent`: its ResumeJob was.
    """

    queue: str = ""
    since: float = math.inf
    is_resume_sent: bool = False


class JobSuspension:
    """Suspends and resumes workloads. Owner: the controller's thread; writers' threads send the requests."""

    def __init__(self, context: ControllerContext, requests: DrainRequests) -> None:
        self._context = context
        self._requests = requests
        #: Without this the requests would be sent again until the watch shows the first ones.
        self._resumptions = context.requests.table("Workload", "resume", _Resumption)
        #: Whether a workload is not to be resumed yet, though its queue schedules.
        self.is_held: Callable[[str], bool] = lambda _uid: False

    def send(self, drain: str, unit: Unit) -> None:
        """Suspend the unit's workload, or bring it to zero replicas."""
        workload = unit.workload
        if workload is not None:
            act = self._scale if unit.action is DrainAction.SCALE else self._suspend
            self._requests.submit(lambda: act(drain, unit, workload), _unsent(drain, unit))

    def send_together(self, drain: str, unit: Unit) -> None:
        """Suspend all workloads of a gang in one go: all are looked at, and then all are suspended."""
        parts = [(part, part.workload) for part in unit.parts if part.workload is not None]
        objects: dict[str, WorkloadObject] = {}

        def look() -> None:
            for _, workload in parts:
                objects[workload.uid] = self._read_unsuspended(workload)
            self._check_may_suspend([workload for _, workload in parts], unit)

        def write(workload: SuspendableWorkload) -> None:
            self._write_suspension(workload, objects[workload.uid], drain=drain)

        self._requests.submit_together(
            look, [(partial(write, workload), _unsent(drain, part)) for part, workload in parts]
        )

    def withdraw_command(self, drain: str, unit: Unit) -> None:
        """Take back a Command that had no effect.

        The outcome is `EvictionOutcome.COMMAND_WITHDRAWN`, or `EvictionOutcome.COMMAND_TAKEN` where it may
        still have one.
        """
        workload = unit.workload
        if workload is not None:
            self._requests.submit(
                lambda: self._withdraw_command(workload),
                _unsent(drain, unit),
                granted=EvictionOutcome.COMMAND_WITHDRAWN,
            )

    def resume(self, queue: str) -> None:
        """Resume the workloads of this queue that drains have suspended or brought to zero, if it schedules.

        A record that somebody has made void by another scale goes at any time.
        """
        store = self._context.store
        marked = store.workloads.suspended_by_drain(queue)
        if not self._may_resume(queue):
            marked = filter(_is_void, marked)
        suspended = sorted(marked, key=lambda each: each.created)
        self._settle(queue, {each.uid for each in suspended})
        store.backoff.attempt_each(
            "resume",
            filter(self._is_due, suspended),
            self._send_resume,
            key=str,
            version=lambda workload: workload.version,
            queue=queue,
            subject=workload_subject,
        )

    def suspend_waiting(self, workload: Workload, *, may_suspend: Callable[[], bool]) -> bool:
        """In a writer's thread: suspend a Job none of whose pods is on a node, as the API server says now.

        `may_suspend`: called just before the request. Returns whether it was suspended. No pod may be bound
        meanwhile: the stop of its queue is acknowledged.
        """
        kind = workload.kind
        path = workload_path(kind, workload.namespace, workload.name)
        obj = decode_response(self._context.client.get(path), _workload)
        if obj.metadata.uid != workload.uid or not is_live(kind, obj) or is_paused(kind, obj):
            return False
        selector = kind.pod_selector(name=workload.name, uid=workload.uid)
        pods = budgets.list_pods(self._context.client, namespace=workload.namespace, selector=selector)
        if any(pod.spec.node_name and pod.status.phase not in budgets.FINISHED for pod in pods):
            return False
        suspendable = SuspendableWorkload(
            kind=kind.key, namespace=workload.namespace, name=workload.name, uid=workload.uid
        )
        if not may_suspend():
            return False
        patch = _suspend_patch(suspendable, obj, drain=workload.queue)
        try:
            self._context.client.patch(path, patch, content_type=JSON_PATCH)
        except Refused as exc:
            if exc.status != UNPROCESSABLE:
                raise
            return False  # it was changed meanwhile
        return True

    def _settle(self, queue: str, marked: Collection[str]) -> None:
        """Forget the resumptions of this queue whose workloads bear the mark no more."""
        done = [uid for uid, each in self._resumptions.items() if each.queue == queue and uid not in marked]
        for uid in done:
            self._resumptions.forget(uid)

    def _is_due(self, workload: Workload) -> bool:
        if self.is_held(workload.uid):
            return False
        is_asked = self._resumptions.is_asked(workload.uid, workload.version)
        return not is_asked or self._resumptions.may_send(workload.uid, now=self._now())

    def _now(self) -> float:
        return self._context.store.clock.monotonic()

    def _send_resume(self, workload: Workload) -> None:
        if not workload.live and not _is_void(workload):
            return
        before = self._resumptions.get(workload.uid) or _Resumption()
        is_sent, since = before.is_resume_sent, min(before.since, self._now())
        waited = self._now() - since
        record = self._context.requests.of_term(partial(self._record_step, workload))

        def receive(step: JobResumeStep | None) -> None:
            record(step or JobResumeStep.LEAVE)
            if step is JobResumeStep.GIVE_BACK:
                self._record_resumed(workload)

        if self._context.submit(
            self._context.writers,
            ("resume_job", workload.uid),
            lambda: self._resume(workload, is_sent=is_sent, waited=waited),
            receive,
            rank=WriteRank.RELEASE,
            order=(0, workload.created),
            subject=workload_subject(workload),
            batched=True,
        ):
            resumption = self._resumptions.send(workload.uid, version=workload.version)
            resumption.queue, resumption.since = workload.queue, since
        else:  # a request of a former term is under way, of which the answer counts no more
            self._context.work_queue.add_after(workload.queue, QueueChange.MEMBERS, seconds=BUSY_SECONDS)

    def _record_step(self, workload: Workload, step: JobResumeStep) -> None:
        """On the controller's thread, in the term that asked."""
        uid = workload.uid
        if uid not in self._resumptions:
            return  # it bears the mark no more
        if step is JobResumeStep.LEAVE:
            self._resumptions.forget(uid)
        elif step in {JobResumeStep.SEND, JobResumeStep.WAIT}:
            until = self._now() + SUSPEND_SECONDS
            self._resumptions.drop(uid, until=until).is_resume_sent |= step is JobResumeStep.SEND
            self._context.work_queue.add_after(workload.queue, QueueChange.MEMBERS, seconds=SUSPEND_SECONDS)
        else:
            self._resumptions.grant(uid, now=self._now())

    def _record_resumed(self, workload: Workload) -> None:
        self._context.metrics.given_back.inc()
        self._context.recorder.record(
            workload_subject(workload),
            reason="GivenBack",
            message=f'{_resumed_text(workload)}: queue "{workload.queue}" schedules its pods again',
            repeat_after=0.0,
        )

    def _may_resume(self, queue: str) -> bool:
        return not queue or self._context.store.snapshot.decision(queue).schedules

    def _resume(self, workload: Workload, *, is_sent: bool, waited: float) -> JobResumeStep:
        """Send the requests; what they were."""
        schedules = self._may_resume(workload.queue)
        if workload.kind.life is Life.WHILE_SCALED:
            return put_back(self._context.client, workload, schedules=schedules)
        if not schedules:
            return JobResumeStep.LEAVE
        path, step = workload_path(workload.kind, workload.namespace, workload.name), JobResumeStep.GIVE_BACK
        if workload.kind.suspension is Suspension.COMMAND:
            obj = decode_response(self._context.client.get(path), _workload)
            meta = obj.metadata
            if (meta.uid, meta.annotation(well_known.SUSPENDED)) != (
                workload.uid,
                workload.suspended_by_drain,
            ):
                return JobResumeStep.LEAVE  # resumed already, and the cache is behind
            step = resume_step(
                is_aborted=is_paused(workload.kind, obj),
                is_withdrawn=withdraw(self._context.client, workload, ABORT),
                is_sent=is_sent,
                waited=waited,
            )
        if step is JobResumeStep.SEND:
            create_command(self._context.client, workload, workload.kind, RESUME)
        if step in {JobResumeStep.SEND, JobResumeStep.WAIT}:
            return step
        try:
            self._context.client.patch(path, _resume_patch(workload), content_type=JSON_PATCH)
        except Refused as exc:
            if exc.status != UNPROCESSABLE:
                raise
            return JobResumeStep.LEAVE  # it does not bear our mark any more: its user has taken it over
        return step

    def _withdraw_command(self, workload: SuspendableWorkload) -> None:
        kind = KINDS[workload.kind]
        path = workload_path(kind, workload.namespace, workload.name)
        is_withdrawn = withdraw(self._context.client, workload, ABORT)
        obj = decode_response(self._context.client.get(path), _workload)
        if is_paused(kind, obj):
            raise Conflict(409, "Conflict", f"{workload} is aborted after all")
        if not is_withdrawn:
            raise CommandTaken(f"the Command to abort {workload} was taken, and the Job is not aborted yet")
        body = {"metadata": {"uid": workload.uid, "annotations": {well_known.SUSPENDED: None}}}
        self._context.client.patch(path, body)

    def _scale(self, drain: str, unit: Unit, workload: SuspendableWorkload) -> None:
        known = self._context.store.workloads.by_uid(workload.uid)
        if known is None or not self._context.store.snapshot.decision(known.queue).drains:
            raise NotScalable("it is of a queue that is not drained")
        scale_to_zero(
            self._context.client,
            self._context.store,
            workload,
            drain=drain,
            check_drains=lambda: self._requests.check_drains(unit.pods[0].queue),
        )

    def _suspend(self, drain: str, unit: Unit, workload: SuspendableWorkload) -> None:
        obj = self._read_unsuspended(workload)
        self._check_may_suspend([workload], unit)
        self._requests.check_drains(unit.pods[0].queue)
        self._write_suspension(workload, obj, drain=drain)

    def _read_unsuspended(self, workload: SuspendableWorkload) -> WorkloadObject:
        """The workload as the API server has it now. Raises `ClusterError` where it is gone or suspended."""
        kind = KINDS[workload.kind]
        path = workload_path(kind, workload.namespace, workload.name)
        obj = decode_response(self._context.client.get(path), _workload)
        if obj.metadata.uid != workload.uid or not is_live(kind, obj):
            raise NotFound(404, "NotFound", f"{workload} is gone")
        if is_paused(kind, obj):
            raise Conflict(409, "Conflict", f"{workload} is suspended already")
        return obj

    def _write_suspension(self, workload: SuspendableWorkload, obj: WorkloadObject, *, drain: str) -> None:
        kind = KINDS[workload.kind]
        path = workload_path(kind, workload.namespace, workload.name)
        try:
            self._context.client.patch(
                path, _suspend_patch(workload, obj, drain=drain), content_type=JSON_PATCH
            )
        except Refused as exc:
            if exc.status != UNPROCESSABLE:
                raise
            raise Conflict(409, "Conflict", f"{workload} was changed meanwhile: {exc.message}") from exc
        if kind.suspension is Suspension.COMMAND:
            withdraw(self._context.client, workload, RESUME)  # of the stop before
            create_command(self._context.client, workload, kind, ABORT)

    def _check_may_suspend(self, workloads: Sequence[SuspendableWorkload], unit: Unit) -> None:
        """Raises `SuspendBlocked` unless every budget allows all pods of these workloads, and of the unit, as
        the API server says now.

        Past the deadline no budget is asked. Workloads and pods of queues that are not drained are left alone
        then too.
        """
        client, store = self._context.client, self._context.store
        for workload in workloads:
            known = store.workloads.by_uid(workload.uid)
            if known is None or not store.snapshot.decision(known.queue).drains:
                raise SuspendBlocked(f"{workload} is of a queue that is not drained")
        pods = self._pods(workloads, unit)
        foreign = next((pod for pod in pods if not is_drained(self._context.store, pod)), None)
        if foreign is not None:
            raise SuspendBlocked(f"its pod {foreign.metadata.name} is of a queue that is not drained")
        if unit.action is not DrainAction.SUSPEND:
            return
        listed = budgets.list_budgets(client, namespace=unit.pods[0].namespace, most=MAX_BUDGETS)
        running = [pod for pod in pods if pod.status.phase == "Running"]
        for budget, counted in _budgets_of_pods(listed, running):
            _check_budget(budget, counted, budgets.list_selected_pods(client, budget))

    def _pods(self, workloads: Sequence[SuspendableWorkload], unit: Unit) -> list[Pod]:
        """Their running pods, as the API server says now: those with their labels, and those of the unit."""
        pods: dict[str, Pod] = {}
        for workload in workloads:
            selector = KINDS[workload.kind].pod_selector(name=workload.name, uid=workload.uid)
            listed = budgets.list_pods(self._context.client, namespace=workload.namespace, selector=selector)
            pods |= {pod.metadata.uid: pod for pod in listed}
        for running in unit.pods:
            if running.uid not in pods:
                pods[running.uid] = decode_response(self._context.client.get(_pod_path(running)), _pod)
        return [pod for pod in pods.values() if budgets.runs(pod)]


def _is_void(workload: Workload) -> bool:
    """Whether it bears a record that does not count any more (`queues.scale_record`)."""
    return workload.kind.life is Life.WHILE_SCALED and not workload.kept_at_zero


def _resumed_text(workload: Workload) -> str:
    number = workload.kept_at_zero
    return f"scaled back to {number}" if number else "resumed"


def _unsent(drain: str, unit: Unit) -> RequestResult:
    return RequestResult(drain=drain, unit=unit, outcome=EvictionOutcome.DROPPED)


def _suspend_patch(workload: SuspendableWorkload, obj: WorkloadObject, *, drain: str) -> JsonPatch:
    """The patch that suspends it and says for which drain, if it still is not suspended."""
    patch = mark_patch(workload.uid, obj.metadata.annotations, drain)
    if KINDS[workload.kind].suspension is Suspension.SPEC:
        patch.append({"op": "test", "path": "/spec/suspend", "value": obj.spec.suspend})
        patch.append({"op": "add", "path": "/spec/suspend", "value": True})
    return patch


def _resume_patch(workload: Workload) -> JsonPatch:
    """The patch that resumes the workload, if it still bears the mark."""
    patch = unmark_patch(workload.uid, workload.suspended_by_drain)
    if workload.kind.suspension is Suspension.SPEC:
        patch.append({"op": "add", "path": "/spec/suspend", "value": False})
    return patch


def _budgets_of_pods(listed: budgets.ListedBudgets, running: list[Pod]) -> list[tuple[Budget, list[Pod]]]:
    """The budgets that select running pods, each with those. Raises `SuspendBlocked` if too many."""
    if running and listed.excess:
        raise SuspendBlocked(listed.excess)
    index, chosen = BudgetIndex(listed.budgets), dict[BudgetKey, tuple[Budget, list[Pod]]]()
    for pod in running:
        labels = pod.metadata.labels or {}
        if excess := index.excess(pod.metadata.namespace, labels):
            raise SuspendBlocked(excess)
        for budget in index.selecting(pod.metadata.namespace, labels):
            chosen.setdefault(budget.key, (budget, []))[1].append(pod)
    if len(chosen) > MAX_BUDGETS_OF_WORKLOAD:
        raise SuspendBlocked(f"its pods are under more than {MAX_BUDGETS_OF_WORKLOAD} PodDisruptionBudgets")
    return list(chosen.values())


def _check_budget(budget: Budget, counted: list[Pod], selected: list[Pod]) -> None:
    need = sum(1 for pod in counted if budgets.is_ready(pod) or not budget.always_allow_unready)
    if not budgets.is_up_to_date(budget, selected):
        raise SuspendBlocked(f"the status of {budget} is not up to date yet")
    if need > budget.allowed:
        raise SuspendBlocked(f"{budget} allows {budget.allowed} now, and {need} would have to go")


def _pod_path(pod: RunningPod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
