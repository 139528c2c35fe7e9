"""Work that is suspended rather than failed while its queue is drained, and given back.

A Job's pods cannot be evicted one by one: each counts as failed. So it is suspended, and its controller
*deletes* its pods, without asking any budget. Therefore it is done only once what is read right then shows
that every budget allows all of them (`_hindrance`); and one Job of a budget at a time (`queues.planning`).

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
- Suspending it is conditional on the state that was looked at (resource version).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from cluster import budgets
from cluster.client import decode
from cluster.exceptions import Conflict, NotFound
from cluster.objects import Pod, WorkloadObject
from cluster.workloads import Workload, is_live, is_paused
from controller.evicting import Answer, Evicting, Outcome
from controller.parts import Parts, workload_subject
from controller.runners import VOLCANO
from queues import names
from queues.budgets import Budget
from queues.draining import How, Runner, Unit, Work
from queues.kinds import KINDS, Kind

COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/{namespace}/commands"
#: How its pods are found by a label: its key, and whether the value is the UID.
_LABELS = {
    "jobs": ("batch.kubernetes.io/controller-uid", True),
    "jobsets": ("jobset.sigs.k8s.io/jobset-name", False),
    VOLCANO: ("volcano.sh/job-name", False),
}


class Hindered(Exception):
    """It may not be suspended now."""


class Pausing:
    """Owner: the controller's thread; the requests run in the writers' threads."""

    def __init__(self, parts: Parts, *, evicting: Evicting) -> None:
        self._parts = parts
        self._evicting = evicting
        self._given: SimpleQueue[Workload] = SimpleQueue()

    def send(self, drain: str, unit: Unit) -> None:
        """Suspend the unit's work."""
        work = unit.work
        if work is None:
            return

        def send() -> None:
            try:
                told = self._evicting.asked(unit.pods[0].queue, lambda: self._pause(drain, unit, work))
            except Hindered as exc:
                told = {"outcome": Outcome.BUDGET, "message": str(exc)}
            self._evicting.answered(Answer(drain=drain, unit=unit, how=unit.how, **told))

        self._parts.drain_writers.submit(("drain", work.uid), send)

    def give_back(self, queue: str) -> None:
        """Resume what we suspended and what is of this queue, if that schedules."""
        for work in sorted(self._parts.store.workloads.paused_by_us(queue), key=lambda one: one.created):
            if work.live and self._may_go_on(work):
                self._parts.writers.submit(
                    ("give-back", work.uid), self._giving_back(work), rank=(1, 0, work.created)
                )

    def _may_go_on(self, work: Workload) -> bool:
        return not work.queue or self._parts.store.board.ruling(work.queue).schedules

    def _giving_back(self, work: Workload) -> Callable[[], None]:
        def give_back() -> None:
            if not self._may_go_on(work):
                return
            body: dict[str, Any] = {"metadata": {"uid": work.uid, "annotations": {names.SUSPENDED: None}}}
            if work.kind.key == VOLCANO:
                self._command(work, work.kind, action="ResumeJob", queue=work.queue)
            else:
                body["spec"] = {"suspend": False}
            self._parts.client.patch(_path(work.kind, work.namespace, work.name), body)
            self._given.put(work)

        return give_back

    def collect(self) -> None:
        """Tell of what was given back."""
        while not self._given.empty():
            work = self._given.get()
            self._parts.counting.given_back.inc()
            self._parts.recorder.record(
                workload_subject(work),
                reason="GivenBack",
                message=f'resumed: queue "{work.queue}" schedules its pods again',
                again_after=0.0,
            )

    def withdraw(self, drain: str, unit: Unit) -> None:
        """Take back a Command that nobody has taken; its answer is `Outcome.UNANSWERED`."""
        work = unit.work
        if work is None:
            return

        def withdraw() -> None:
            told = self._evicting.asked(unit.pods[0].queue, lambda: self._take_back(unit, work))
            if told["outcome"] is Outcome.GONE:
                told = {"outcome": Outcome.UNANSWERED}
            self._evicting.answered(Answer(drain=drain, unit=unit, how=unit.how, **told))

        self._parts.drain_writers.submit(("drain", work.uid), withdraw)

    def _take_back(self, unit: Unit, work: Work) -> None:
        revision = self._parts.store.board.ruling(unit.pods[0].queue).revision
        path = COMMANDS.format(namespace=work.namespace)
        self._parts.client.delete(f"{path}/{_command_name(work.uid, 'AbortJob', revision)}")
        body = {"metadata": {"uid": work.uid, "annotations": {names.SUSPENDED: None}}}
        self._parts.client.patch(_path(KINDS[work.kind], work.namespace, work.name), body)

    def _pause(self, drain: str, unit: Unit, work: Work) -> None:
        kind = KINDS[work.kind]
        path = _path(kind, work.namespace, work.name)
        obj: WorkloadObject = decode(self._parts.client.get(path), WorkloadObject)
        if obj.metadata.uid != work.uid or not is_live(kind, obj):
            raise NotFound(404, "NotFound", f"{work} is gone")
        if is_paused(obj):
            raise Conflict(409, "Conflict", f"{work} is suspended already")
        if unit.how is How.SUSPEND:
            self._look(work, unit)
        body: dict[str, Any] = {
            "metadata": {
                "uid": work.uid,
                "resourceVersion": obj.metadata.resource_version,
                "annotations": {names.SUSPENDED: drain},
            }
        }
        if work.kind != VOLCANO:
            body["spec"] = {"suspend": True}
        self._parts.client.patch(path, body)
        if work.kind == VOLCANO:
            self._command(work, kind, action="AbortJob", queue=unit.pods[0].queue)

    def _look(self, work: Work, unit: Unit) -> None:
        """Raises `Hindered` unless every budget allows all of its pods, as the API server says now."""
        client = self._parts.client
        held = budgets.budgets(client, namespace=work.namespace)
        mine = self._pods(work, unit)
        foreign = next((pod for pod in mine if not self._is_drained(pod)), None)
        if foreign is not None:
            raise Hindered(f"its pod {foreign.metadata.name} is of a queue that is not drained")
        for budget in held:
            chosen = [pod for pod in mine if budget.selects(work.namespace, pod.metadata.labels or {})]
            counted = [pod for pod in chosen if pod.status.phase == "Running"]
            if counted:
                _check(budget, counted, budgets.selected(client, budget))

    def _pods(self, work: Work, unit: Unit) -> list[Pod]:
        """Its pods that run, as the API server says now: by their label, and those that we know of."""
        key, by_uid = _LABELS[work.kind]
        selector = f"{key}={work.uid if by_uid else work.name}"
        found = budgets.pods(self._parts.client, namespace=work.namespace, selector=selector)
        known = {pod.metadata.uid for pod in found}
        for runner in unit.pods:
            if runner.uid not in known:
                found.append(decode(self._parts.client.get(_pod_path(runner)), Pod))
        return [pod for pod in found if _runs(pod)]

    def _is_drained(self, pod: Pod) -> bool:
        queue = pod.metadata.annotation(names.QUEUE)
        return not queue or self._parts.store.board.ruling(queue).drains

    def _command(self, work: Work | Workload, kind: Kind, *, action: str, queue: str) -> None:
        """Once for each turn: the name follows from the revision of what the queue asks for."""
        revision = self._parts.store.board.ruling(queue).revision
        body = {
            "apiVersion": "bus.volcano.sh/v1alpha1",
            "kind": "Command",
            "metadata": {"name": _command_name(work.uid, action, revision), "namespace": work.namespace},
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


def _command_name(uid: str, action: str, revision: str) -> str:
    turn = hashlib.blake2s(f"{uid}/{action}/{revision}".encode(), digest_size=8)
    return f"sluice-{action.lower()}-{turn.hexdigest()}"


def _check(budget: Budget, counted: list[Pod], selected: list[Pod]) -> None:
    need = sum(1 for pod in counted if budgets.is_ready(pod) or not budget.spares_unready)
    if not budgets.up_to_date(budget, selected):
        raise Hindered(f"the status of {budget} is not up to date yet")
    if need > budget.allowed:
        raise Hindered(f"{budget} allows {budget.allowed} now, and {need} would have to go")


def _runs(pod: Pod) -> bool:
    finished = pod.status.phase in budgets.FINISHED
    return bool(pod.spec.node_name) and not finished and not budgets.is_leaving(pod)


def _path(kind: Kind, namespace: str, name: str) -> str:
    return f"/apis/{kind.api_version}/namespaces/{namespace}/{kind.resource}/{name}"


def _pod_path(pod: Runner) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
