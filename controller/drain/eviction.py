"""The requests of drains: one eviction or deletion a pod, its outcome, and the event that tells of it.

Invariants
- A request is sent in a writer's thread. Its result is handed to `report` and is read in the controller's
  thread.
- The queue is looked at again at the moment that the request is sent: a drain that has ended evicts no more
  pods, nor does a replica that no longer leads.
- The UID is a precondition: another pod of that name is left alone.
- What a budget refuses is an outcome like any other; the writer does not try it again.
- One eviction a budget is under way at a time: two meet in the budget's status, and the one that loses waits
  for half a second in the API server.
- The requests of one namespace take `LANES_PER_NAMESPACE` of the writers at most: what makes them slow, such
  as a budget that is written all the time or a user's webhook, delays no other namespace.
- What a webhook answers is about the object, whatever its status code: it is Refused, never Overloaded.
- Events and metrics tell of a request exactly once, after it was granted.

================  ==============================================================================
outcome           the API server's answer
================  ==============================================================================
Granted           201, 200
Budget            429 with cause DisruptionBudget: its budget does not allow it now; or, of a workload
                  that is to be suspended, `SuspendBlocked`
SeveralBudgets    500: two budgets select it, which the eviction API refuses for ever
Absent            404 or 409: it is gone already, or another one has its name
Refused           another 4xx; a webhook's denial, or its failure, with any status code
Overloaded        429 otherwise, 5xx, or none: nothing is asked for in that namespace for a while
Dropped           none, nothing was asked for: the drain has ended
CommandWithdrawn  none: no controller has taken the Command that should have suspended it
================  ==============================================================================
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Callable, Hashable
from enum import StrEnum
from typing import Any

import msgspec

from cluster.exceptions import ClusterError, Conflict, NotFound, Overloaded, Refused
from cluster.object_reference import ObjectReference
from controller.context import ControllerContext, workload_subject
from queues.drain.disruption_budgets import BudgetKey
from queues.drain.model import DrainAction, RunningPod, Unit
from queues.drain.terminating_pods import DelayedPod

#: Writers that the requests of one namespace take at most.
LANES_PER_NAMESPACE = 3
#: The reason that evictions are counted by.
REASON = "QueueStopped"
#: How the API server says that a webhook denied a request, or could not be called for it
#: (`k8s.io/apiserver/pkg/admission/plugin/webhook`).
_WEBHOOK = re.compile(r'admission webhook ".*" denied the request|failed calling webhook "')

log = logging.getLogger(__name__)


class Outcome(StrEnum):
    GRANTED = "Granted"
    BUDGET = "Budget"
    SEVERAL_BUDGETS = "SeveralBudgets"
    ABSENT = "Absent"
    REFUSED = "Refused"
    OVERLOADED = "Overloaded"
    DROPPED = "Dropped"
    COMMAND_WITHDRAWN = "CommandWithdrawn"


class RequestResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one request for a unit; `pod` is None where the unit's workload was asked for as a whole.

    `retry_after`: seconds. `grace`: the grace period that was asked for, in seconds; None is the pod's own.
    """

    drain: str
    unit: Unit
    outcome: Outcome
    pod: RunningPod | None = None
    message: str = ""
    retry_after: float = 0.0
    grace: int | None = None

    @property
    def uid(self) -> str:
        """Of the pod or the workload that was asked for."""
        if self.pod is not None:
            return self.pod.uid
        return self.unit.workload.uid if self.unit.workload is not None else ""

    @property
    def queue(self) -> str:
        return (self.pod or self.unit.pods[0]).queue

    @property
    def action(self) -> DrainAction:
        return self.unit.action


class DrainEnded(Exception):
    """The drain has ended."""


class SuspendBlocked(Exception):
    """The workload may not be suspended now."""


class DrainRequests:
    """Sends requests; it remembers nothing. `report`: takes each result, from any thread."""

    def __init__(self, context: ControllerContext, *, report: Callable[[RequestResult], None]) -> None:
        self._context = context
        self.report = report

    def send(
        self, drain: str, unit: Unit, pod: RunningPod, *, grace: int | None, budget: BudgetKey | None = None
    ) -> None:
        """Evict one pod of the unit, or delete it past its budgets. `budget`: the one that selects it."""
        is_eviction = unit.action is DrainAction.EVICT
        request = self._eviction(pod, grace) if is_eviction else self._deletion(pod, grace)

        def send() -> None:
            outcome = self.outcome(pod.queue, request)
            self.report(RequestResult(drain=drain, unit=unit, pod=pod, grace=grace, **outcome))

        dropped = RequestResult(drain=drain, unit=unit, pod=pod, outcome=Outcome.DROPPED)
        self.submit(pod.uid, send, dropped, budget=budget if is_eviction else None)

    def submit(
        self, uid: str, send: Callable[[], None], dropped: RequestResult, *, budget: BudgetKey | None = None
    ) -> None:
        """Have it sent; `dropped` is reported where a former request for the same UID is under way.

        A workload goes before pods: an eviction takes long where its budget's status is written at the same
        time, and hundreds may wait.
        """
        rank = (1,) if dropped.pod is not None else (0,)
        lane = lane_of(dropped.unit.pods[0].namespace, uid=uid, budget=budget)
        if not self._context.drain_writers.submit(("drain", uid), send, rank=rank, lane=lane):
            self.report(dropped)

    def outcome(self, queue: str, request: Callable[[], object]) -> dict[str, Any]:
        """Send a request that only a drain of that queue makes: its outcome, as fields of its result."""
        try:
            self.check_drains(queue)
            request()
        except DrainEnded:
            return {"outcome": Outcome.DROPPED}
        except SuspendBlocked as exc:
            return {"outcome": Outcome.BUDGET, "message": str(exc)}
        except ClusterError as exc:
            return _failed(exc)
        except Exception as exc:  # whatever it is, the drain waits for a result
            log.exception("the drain of queue %s", queue)
            return {"outcome": Outcome.OVERLOADED, "message": str(exc)}
        return {"outcome": Outcome.GRANTED}

    def check_drains(self, queue: str) -> None:
        """Raises `DrainEnded` where the queue does not drain any more, or this replica leads no longer."""
        if not self._context.leading() or not self._context.store.snapshot.decision(queue).drains:
            raise DrainEnded

    def _eviction(self, pod: RunningPod, grace: int | None) -> Callable[[], object]:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": _options(pod, grace),
        }
        return lambda: self._context.client.create(f"{_path(pod)}/eviction", body)

    def _deletion(self, pod: RunningPod, grace: int | None) -> Callable[[], object]:
        return lambda: self._context.client.delete(_path(pod), _options(pod, grace))


def lane_of(namespace: str, *, uid: str, budget: BudgetKey | None) -> Hashable:
    """The lane of a request: the same for all of one budget, else one of a few of its namespace."""
    return namespace, zlib.crc32((budget[1] if budget is not None else uid).encode()) % LANES_PER_NAMESPACE


def _path(pod: RunningPod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _options(pod: RunningPod, grace: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}
    return options if grace is None else {**options, "gracePeriodSeconds": grace}


def _failed(exc: ClusterError) -> dict[str, Any]:
    message = str(exc)
    match exc:
        case Overloaded() if "DisruptionBudget" in exc.causes:
            return {"outcome": Outcome.BUDGET, "message": exc.message}
        case Overloaded() if exc.status == 500 and "more than one PodDisruptionBudget" in exc.message:
            return {"outcome": Outcome.SEVERAL_BUDGETS, "message": exc.message}
        case Overloaded() if not _WEBHOOK.search(exc.message):
            return {"outcome": Outcome.OVERLOADED, "message": message, "retry_after": exc.retry_after}
        case NotFound() | Conflict():
            return {"outcome": Outcome.ABSENT, "message": exc.message}
        case Refused():
            return {"outcome": Outcome.REFUSED, "message": exc.message}
        case _:
            return {"outcome": Outcome.OVERLOADED, "message": message}


# Metrics and events


def tell_of_grant(context: ControllerContext, result: RequestResult) -> None:
    """Count a granted request, and say on the pods and the workload why they went."""
    context.metrics.evictions.labels(REASON, action_label(result.action)).inc()
    text = context.store.snapshot.decision(result.queue).text
    match result.action:
        case DrainAction.CUT_GRACE:
            for pod in result.unit.pods:
                _tell_of_cut(context, pod, f"its grace period was cut to {result.grace} s: {text}")
        case DrainAction.EVICT:
            for pod in filter(None, [result.pod]):
                _tell_of_eviction(context, pod, f"evicted: {text}")
        case DrainAction.DELETE:
            for pod in filter(None, [result.pod]):
                _tell_of_deletion(context, pod, text)
        case DrainAction.SUSPEND | DrainAction.SUSPEND_ANYWAY:
            _tell_of_suspension(context, result.uid, text)
            for pod in result.unit.pods if result.action is DrainAction.SUSPEND_ANYWAY else ():
                _tell_of_deletion(context, pod, text)


def tell_of_delay(context: ControllerContext, delay: DelayedPod) -> None:
    """Say on a pod that it has lost its place in flight."""
    context.recorder.record(
        _subject(delay.pod),
        reason="EvictionDelayed",
        message=f"the drain of its queue waits for this pod: {delay.message}",
        warning=True,
        budget=f"delays/{delay.pod.queue}",
    )


def _tell_of_eviction(context: ControllerContext, pod: RunningPod, message: str) -> None:
    budget = f"evictions/{pod.queue}"
    context.recorder.record(_subject(pod), reason="Evicted", message=message, budget=budget, again_after=0.0)


def _tell_of_deletion(context: ControllerContext, pod: RunningPod, text: str) -> None:
    context.recorder.record(
        _subject(pod),
        reason="DeletedPastBudget",
        message=f"deleted past its deadline, disruption budgets or not: {text}",
        warning=True,
        again_after=0.0,
    )


def _tell_of_cut(context: ControllerContext, pod: RunningPod, message: str) -> None:
    context.recorder.record(
        _subject(pod),
        reason="GracePeriodCut",
        message=message,
        warning=True,
        budget=f"evictions/{pod.queue}",
        again_after=0.0,
    )


def _tell_of_suspension(context: ControllerContext, uid: str, text: str) -> None:
    workload = context.store.workloads.by_uid(uid)
    if workload is not None:
        context.recorder.record(
            workload_subject(workload),
            reason="SuspendedByQueue",
            message=f"suspended: {text}",
            again_after=0.0,
        )


def action_label(action: DrainAction) -> str:
    """Label `how` of metric `sluice_evictions`."""
    if action is DrainAction.SUSPEND_ANYWAY:
        return DrainAction.SUSPEND.value
    return action.value


def _subject(pod: RunningPod) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
