"""Pods on their way: one eviction, or deletion, each; and what came of it.

Invariants
- Asked for in a writer's thread, answered through a queue that the controller's thread reads.
- At the moment it is sent the board is asked again: a drain that has ended evicts nobody any more, nor does
  who leads no longer.
- The UID is a precondition: another pod of that name is left alone.
- A refusal of a budget is an answer like any other, and never tried again by itself.
- Of one budget one eviction is asked for at a time: two meet in the budget's status, and the one that loses
  waits for half a second in the API server.
- The requests of one namespace take `LANES_PER_NAMESPACE` of the writers at most: what makes them slow, such
  as a budget that is written all the time or somebody's webhook, keeps no other namespace waiting.
- A webhook's answer is about the object, whatever its status code: it is Refused, never Busy.

=============  =============================================================================
outcome        the API server's answer
=============  =============================================================================
Gone           201, 200
Budget         429 with cause DisruptionBudget: its budget does not allow it now; or, of work that is to be
               suspended, `SuspendBlocked`
SeveralBudgets 500: two budgets select it, which the eviction API refuses for ever
Away           404 or 409: it is gone already, or another one has its name
Refused        another 4xx; a webhook's denial, or its failure, with any status code
Busy           429 otherwise, 5xx, or none: nothing is asked for in that namespace for a while
Dropped        none was asked for: the drain has ended
Unanswered     none: nobody has taken the Command that should have suspended it
=============  =============================================================================
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Callable, Hashable
from enum import StrEnum
from queue import SimpleQueue
from typing import Any

import msgspec

from cluster.exceptions import ClusterError, Conflict, NotFound, Overloaded, Refused
from controller.context import ControllerContext
from queues.drain.disruption_budgets import BudgetKey
from queues.drain.model import (
    DrainAction,
    RunningPod,
    Unit,
)

#: Writers that the requests of one namespace take at most.
LANES_PER_NAMESPACE = 3
#: How the API server says that a webhook denied a request, or could not be called for it
#: (`k8s.io/apiserver/pkg/admission/plugin/webhook`).
_WEBHOOK = re.compile(r'admission webhook ".*" denied the request|failed calling webhook "')

log = logging.getLogger(__name__)


class Outcome(StrEnum):
    GONE = "Gone"
    BUDGET = "Budget"
    SEVERAL_BUDGETS = "SeveralBudgets"
    AWAY = "Away"
    REFUSED = "Refused"
    BUSY = "Busy"
    DROPPED = "Dropped"
    UNANSWERED = "Unanswered"


class RequestResult(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one request for a unit; `pod` is None where the unit was asked for as a whole."""

    drain: str
    unit: Unit
    action: DrainAction
    outcome: Outcome
    pod: RunningPod | None = None
    message: str = ""
    retry_after: float = 0.0
    #: The grace period that was asked for, in seconds; None is the pod's own.
    grace: int | None = None


class DrainEnded(Exception):
    """The drain has ended."""


class SuspendBlocked(Exception):
    """It may not be suspended now."""


class DrainRequests:
    """Owner: the controller's thread. `changed`: an answer has come; called from any thread."""

    def __init__(self, parts: ControllerContext, *, changed: Callable[[str], None]) -> None:
        self._parts = parts
        self._changed = changed
        self.answers: SimpleQueue[RequestResult] = SimpleQueue()

    def send(
        self, drain: str, unit: Unit, pod: RunningPod, *, grace: int | None, budget: BudgetKey | None = None
    ) -> None:
        """Evict one pod of the unit, or delete it past its budgets. `budget`: the one that selects it."""
        ask = self._eviction(pod, grace) if unit.action is DrainAction.EVICT else self._deletion(pod, grace)

        def send() -> None:
            told = self.outcome(pod.queue, ask)
            self.report(
                RequestResult(drain=drain, unit=unit, action=unit.action, pod=pod, grace=grace, **told)
            )

        dropped = RequestResult(drain=drain, unit=unit, action=unit.action, pod=pod, outcome=Outcome.DROPPED)
        self.submit(pod.uid, send, dropped, budget=budget if unit.action is DrainAction.EVICT else None)

    def submit(
        self, uid: str, send: Callable[[], None], dropped: RequestResult, *, budget: BudgetKey | None = None
    ) -> None:
        """Have it sent; where a former request for the same is under way it is `dropped`.

        A Job goes before pods: an eviction takes long where its budget's status is written at the same time,
        and hundreds may wait.
        """
        rank = (1,) if dropped.pod is not None else (0,)
        lane = lane_of(dropped.unit.pods[0].namespace, uid=uid, budget=budget)
        if not self._parts.drain_writers.submit(("drain", uid), send, rank=rank, lane=lane):
            self.report(dropped)

    def report(self, answer: RequestResult) -> None:
        self.answers.put(answer)
        self._changed(answer.drain)

    def outcome(self, queue: str, ask: Callable[[], object]) -> dict[str, Any]:
        """The outcome of a request that only a drain of that queue makes, as fields of its answer."""
        try:
            self.still_drains(queue)
            ask()
        except DrainEnded:
            return {"outcome": Outcome.DROPPED}
        except SuspendBlocked as exc:
            return {"outcome": Outcome.BUDGET, "message": str(exc)}
        except ClusterError as exc:
            return _failed(exc)
        except Exception as exc:  # whatever it is, somebody waits for an answer
            log.exception("the drain of queue %s", queue)
            return {"outcome": Outcome.BUSY, "message": str(exc)}
        return {"outcome": Outcome.GONE}

    def still_drains(self, queue: str) -> None:
        """Raises `DrainEnded` where the queue does not drain any more, or we lead no longer."""
        if not self._parts.leading() or not self._parts.store.snapshot.decision(queue).drains:
            raise DrainEnded

    def _eviction(self, pod: RunningPod, grace: int | None) -> Callable[[], object]:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": _options(pod, grace),
        }
        return lambda: self._parts.client.create(f"{_path(pod)}/eviction", body)

    def _deletion(self, pod: RunningPod, grace: int | None) -> Callable[[], object]:
        return lambda: self._parts.client.delete(_path(pod), _options(pod, grace))


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
            return {"outcome": Outcome.BUSY, "message": message, "retry_after": exc.retry_after}
        case NotFound() | Conflict():
            return {"outcome": Outcome.AWAY, "message": exc.message}
        case Refused():
            return {"outcome": Outcome.REFUSED, "message": exc.message}
        case _:
            return {"outcome": Outcome.BUSY, "message": message}
