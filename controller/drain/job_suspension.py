"""Work that is suspended rather than failed while its queue is drained, and given back.

A Job's pods cannot be evicted one by one: each counts as failed. So it is suspended, and its controller
*deletes* its pods, without asking any budget. Therefore it is done only once what is read right then shows
that every budget allows all of them (`_hindrance`); and one Job of a budget at a time (`queues.drain.plan`).

=====================  ==================================  =============================
kind                   suspended by                        given back by
=====================  ==================================  =============================
Job, JobSet            `spec.suspend`                      `spec.suspend`
`batch.volcano.sh`     Command AbortJob                    Command ResumeJob
=====================  ==================================  =============================

Invariants
- What we suspend bears annotation `sluice.dev/suspended`, set with the same write (for Volcano's Job, before
  the Command). Only what bears it is given back, so what its user suspended stays so.
- It is given back once its queue schedules again, whatever the queue asks for by then, and by whom.
- Suspending it is conditional on what that depends on: its UID, and that it is not suspended. Not on its
  resource version: a user who writes it all the time would keep it from being suspended for ever.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import msgspec

from cluster.api import disruption_budgets as budgets
from cluster.api.client import JSON_PATCH, decode_response
from cluster.cache.workloads import (
    Workload,
    is_live,
    is_paused,
)
from cluster.exceptions import Conflict, NotFound, Refused
from cluster.objects import Pod, WorkloadObject
from controller.context import ControllerContext, workload_subject
from controller.drain.eviction import (
    DrainRequests,
    Outcome,
    RequestResult,
    SuspendBlocked,
)
from controller.drain.running_pods import VOLCANO
from controller.drain.snapshot import MAX_BUDGETS
from queues import labels as names
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
from queues.workload_kinds import KINDS, WorkloadKind

COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/{namespace}/commands"
#: Budgets over the pods of one Job that are looked at before it is suspended.
MAX_BUDGETS_OF_WORKLOAD = 20
#: Where the annotation is that names the drain, as a JSON patch writes it.
_MARK = f"/metadata/annotations/{names.SUSPENDED.replace('/', '~1')}"
#: What the API server answers where a test of a JSON patch fails.
UNPROCESSABLE = 422

_pod = msgspec.json.Decoder(Pod)
_workload = msgspec.json.Decoder(WorkloadObject)
#: How its pods are found by a label: its key, and whether the value is the UID.
_LABELS = {
    "jobs": ("batch.kubernetes.io/controller-uid", True),
    "jobsets": ("jobset.sigs.k8s.io/jobset-name", False),
    VOLCANO: ("volcano.sh/job-name", False),
}


class JobSuspension:
    """Owner: the controller's thread; the requests run in the writers' threads."""

    def __init__(self, parts: ControllerContext, *, evicting: DrainRequests) -> None:
        self._parts = parts
        self._requests = evicting
        self._resumed: SimpleQueue[Workload] = SimpleQueue()

    def send(self, drain: str, unit: Unit) -> None:
        """Suspend the unit's work."""
        work = unit.workload
        if work is None:
            return

        def send() -> None:
            told = self._requests.outcome(unit.pods[0].queue, lambda: self._suspend(drain, unit, work))
            self._requests.report(RequestResult(drain=drain, unit=unit, action=unit.action, **told))

        self._requests.submit(work.uid, send, _dropped(drain, unit))

    def resume(self, queue: str) -> None:
        """Resume what we suspended and what is of this queue, if that schedules."""

        def give_back(work: Workload) -> None:
            if work.live and self._may_resume(work):
                self._parts.writers.submit(
                    ("give-back", work.uid),
                    self._resumption(work),
                    rank=(1, 0, work.created),
                    subject=workload_subject(work),
                )

        self._parts.store.backoff.attempt_each(
            "give back",
            sorted(self._parts.store.workloads.paused_by_us(queue), key=lambda one: one.created),
            give_back,
            key=str,
            version=lambda work: work.version,
            queue=queue,
            subject=workload_subject,
        )

    def _may_resume(self, work: Workload) -> bool:
        return not work.queue or self._parts.store.snapshot.decision(work.queue).schedules

    def _resumption(self, work: Workload) -> Callable[[], None]:
        def give_back() -> None:
            if not self._may_resume(work):
                return
            path = _path(work.kind, work.namespace, work.name)
            if work.kind.key == VOLCANO:
                self._send_resume_command(work)
            try:
                self._parts.client.patch(path, _resume_patch(work), content_type=JSON_PATCH)
            except Refused as exc:
                if exc.status != UNPROCESSABLE:
                    raise
                return  # it does not bear our mark any more: its user has taken it over
            self._resumed.put(work)

        return give_back

    def report_resumed(self) -> None:
        """Tell of what was given back."""
        while not self._resumed.empty():
            work = self._resumed.get()
            self._parts.counting.given_back.inc()
            self._parts.recorder.record(
                workload_subject(work),
                reason="GivenBack",
                message=f'resumed: queue "{work.queue}" schedules its pods again',
                again_after=0.0,
            )

    def withdraw_command(self, drain: str, unit: Unit) -> None:
        """Take back a Command that nobody has taken; its answer is `Outcome.UNANSWERED`."""
        work = unit.workload
        if work is None:
            return

        def withdraw() -> None:
            told = self._requests.outcome(unit.pods[0].queue, lambda: self._withdraw_command(work))
            if told["outcome"] is Outcome.GONE:
                told = {"outcome": Outcome.UNANSWERED}
            self._requests.report(RequestResult(drain=drain, unit=unit, action=unit.action, **told))

        self._requests.submit(work.uid, withdraw, _dropped(drain, unit))

    def _withdraw_command(self, work: SuspendableWorkload) -> None:
        path = _path(KINDS[work.kind], work.namespace, work.name)
        self._delete_command(work, "AbortJob")
        obj = decode_response(self._parts.client.get(path), _workload)
        if is_paused(obj):
            raise Conflict(409, "Conflict", f"{work} is aborted after all")
        body = {"metadata": {"uid": work.uid, "annotations": {names.SUSPENDED: None}}}
        self._parts.client.patch(path, body)

    def _send_resume_command(self, work: Workload) -> None:
        """Whatever has become of the Command that aborted it."""
        self._delete_command(work, "AbortJob")
        self._create_command(work, work.kind, action="ResumeJob")

    def _delete_command(self, work: SuspendableWorkload | Workload, action: str) -> None:
        path = COMMANDS.format(namespace=work.namespace)
        try:
            self._parts.client.delete(f"{path}/{_command_name(work.uid, action)}")
        except NotFound:
            return  # somebody has taken it

    def _suspend(self, drain: str, unit: Unit, work: SuspendableWorkload) -> None:
        kind = KINDS[work.kind]
        path = _path(kind, work.namespace, work.name)
        obj = decode_response(self._parts.client.get(path), _workload)
        if obj.metadata.uid != work.uid or not is_live(kind, obj):
            raise NotFound(404, "NotFound", f"{work} is gone")
        if is_paused(obj):
            raise Conflict(409, "Conflict", f"{work} is suspended already")
        self._check_may_suspend(work, unit)
        self._requests.still_drains(unit.pods[0].queue)
        try:
            self._parts.client.patch(path, _suspend_patch(work, obj, drain=drain), content_type=JSON_PATCH)
        except Refused as exc:
            if exc.status != UNPROCESSABLE:
                raise
            raise Conflict(409, "Conflict", f"{work} was changed meanwhile: {exc.message}") from exc
        if work.kind == VOLCANO:
            self._create_command(work, kind, action="AbortJob")

    def _check_may_suspend(self, work: SuspendableWorkload, unit: Unit) -> None:
        """Raises `SuspendBlocked` unless every budget allows all of its pods, as the API server says now.

        Past the deadline no budget is asked; work and pods of queues that are not drained are left alone all
        the same.
        """
        client, known = self._parts.client, self._parts.store.workloads.by_uid(work.uid)
        if known is None or not self._parts.store.snapshot.decision(known.queue).drains:
            raise SuspendBlocked("it is of a queue that is not drained")
        mine = self._pods(work, unit)
        foreign = next((pod for pod in mine if not self._is_drained(pod)), None)
        if foreign is not None:
            raise SuspendBlocked(f"its pod {foreign.metadata.name} is of a queue that is not drained")
        if unit.action is not DrainAction.SUSPEND:
            return
        listed = budgets.list_budgets(client, namespace=work.namespace, most=MAX_BUDGETS)
        for budget, counted in _budgets_of_pods(
            listed, [pod for pod in mine if pod.status.phase == "Running"]
        ):
            _check_budget(budget, counted, budgets.list_selected_pods(client, budget))

    def _pods(self, work: SuspendableWorkload, unit: Unit) -> list[Pod]:
        """Its pods that run, as the API server says now: by their label, and those that we know of."""
        key, by_uid = _LABELS[work.kind]
        selector = f"{key}={work.uid if by_uid else work.name}"
        found = budgets.list_pods(self._parts.client, namespace=work.namespace, selector=selector)
        known = {pod.metadata.uid for pod in found}
        for runner in unit.pods:
            if runner.uid not in known:
                found.append(decode_response(self._parts.client.get(_pod_path(runner)), _pod))
        return [pod for pod in found if _runs(pod)]

    def _is_drained(self, pod: Pod) -> bool:
        member = self._parts.store.members.by_uid(pod.metadata.uid)
        queue = member.queue if member is not None else pod.metadata.annotation(names.QUEUE)
        return bool(queue) and self._parts.store.snapshot.decision(queue).drains

    def _create_command(
        self, work: SuspendableWorkload | Workload, kind: WorkloadKind, *, action: str
    ) -> None:
        """One of a kind for each Job: whoever sends it again finds it there."""
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": _command_name(work.uid, action), "namespace": work.namespace},
            "action": action,
            "target": {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "name": work.name,
                "uid": work.uid,
                "controller": True,
            },
            "reason": "QueueDrained" if action == "AbortJob" else "QueueResumed",
        }
        try:
            self._parts.client.create(COMMANDS.format(namespace=work.namespace), body)
        except Conflict:
            return  # sent before


def _command_name(uid: str, action: str) -> str:
    of = hashlib.blake2s(f"{uid}/{action}".encode(), digest_size=8)
    return f"sluice-{action.lower()}-{of.hexdigest()}"


def _dropped(drain: str, unit: Unit) -> RequestResult:
    return RequestResult(drain=drain, unit=unit, action=unit.action, outcome=Outcome.DROPPED)


def _suspend_patch(work: SuspendableWorkload, obj: WorkloadObject, *, drain: str) -> list[dict[str, Any]]:
    """The patch that suspends it and says for which drain, if it still is not suspended.

    A test of `null` holds of what is not there.
    """
    patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": work.uid}]
    if obj.metadata.annotations is None:
        patch.append({"op": "test", "path": "/metadata/annotations", "value": None})
        patch.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    patch.append({"op": "add", "path": _MARK, "value": drain})
    if work.kind != VOLCANO:
        patch.append({"op": "test", "path": "/spec/suspend", "value": obj.spec.suspend})
        patch.append({"op": "add", "path": "/spec/suspend", "value": True})
    return patch


def _resume_patch(work: Workload) -> list[dict[str, Any]]:
    """The patch that gives it back, if it is still ours to give."""
    patch: list[dict[str, Any]] = [
        {"op": "test", "path": "/metadata/uid", "value": work.uid},
        {"op": "test", "path": _MARK, "value": work.paused_by_us},
        {"op": "remove", "path": _MARK},
    ]
    if work.kind.key != VOLCANO:
        patch.append({"op": "add", "path": "/spec/suspend", "value": False})
    return patch


def _budgets_of_pods(listed: budgets.NamespaceBudgets, running: list[Pod]) -> list[tuple[Budget, list[Pod]]]:
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


def _runs(pod: Pod) -> bool:
    finished = pod.status.phase in budgets.FINISHED
    return bool(pod.spec.node_name) and not finished and not budgets.is_leaving(pod)


def _path(kind: WorkloadKind, namespace: str, name: str) -> str:
    return f"/apis/{kind.api_version}/namespaces/{namespace}/{kind.resource}/{name}"


def _pod_path(pod: RunningPod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
