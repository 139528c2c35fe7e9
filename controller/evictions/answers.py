"""What came of a request by which a pod goes, as the API server's answer says it.

Invariants
- The refusal by a budget is an outcome like any other; the writer does not try it again.
- The answer of a webhook is about the object, whatever its status code: it is Refused, never Overloaded.

================  ==============================================================================
outcome           the API server's answer
================  ==============================================================================
Granted           201, 200
Budget            429 with cause DisruptionBudget: its budget does not allow it now; or, of a workload
                  that is to be suspended, `SuspendBlocked`
SeveralBudgets    500: two budgets select it, which the eviction API refuses for ever
Absent            404 or 409: it is gone already, or another one has its name
Refused           another 4xx; a webhook's denial, or its failure, with any status code
Overloaded        429 otherwise, 5xx, or none: the namespace gets no further request for a while
Dropped           none: the drain has ended, or a former request is under way
CommandWithdrawn  none: no controller has taken the Command that should have suspended it
CommandTaken      none: one has taken it, and the workload does not show what came of it
NotScalable       none: the workload may not be scaled, since another one controls it, or has pods of
                  a queue that is not drained; its pods are deleted one by one
================  ==============================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import StrEnum

import msgspec

from cluster.exceptions import ClusterError, Conflict, NotFound, Overloaded, Refused

#: How the API server says that a webhook denied a request, or could not be called for it
#: (`k8s.io/apiserver/pkg/admission/plugin/webhook`).
_WEBHOOK = re.compile(r'admission webhook ".*" denied the request|failed calling webhook "')


class EvictionOutcome(StrEnum):
    """What came of a request; see the table."""

    GRANTED = "Granted"
    BUDGET = "Budget"
    SEVERAL_BUDGETS = "SeveralBudgets"
    ABSENT = "Absent"
    REFUSED = "Refused"
    OVERLOADED = "Overloaded"
    DROPPED = "Dropped"
    COMMAND_WITHDRAWN = "CommandWithdrawn"
    COMMAND_TAKEN = "CommandTaken"
    NOT_SCALABLE = "NotScalable"


class EvictionAnswer(msgspec.Struct, frozen=True):
    """The outcome of a request, as the API server's answer says it. `retry_after`: seconds."""

    outcome: EvictionOutcome
    message: str = ""
    retry_after: float = 0.0


def answer_to(request: Callable[[], object]) -> EvictionAnswer:
    """What came of a request that is made anew as long as it is wanted: one that meets another version of its
    object is dropped.
    """
    try:
        request()
    except Conflict as exc:
        return EvictionAnswer(EvictionOutcome.DROPPED, exc.message)
    except ClusterError as exc:
        return answer_of(exc)
    return EvictionAnswer(EvictionOutcome.GRANTED)


def answer_of(exc: ClusterError) -> EvictionAnswer:
    """The outcome of a request that failed."""
    match exc:
        case Overloaded() if "DisruptionBudget" in exc.causes:
            return EvictionAnswer(EvictionOutcome.BUDGET, exc.message)
        case Overloaded() if exc.status == 500 and "more than one PodDisruptionBudget" in exc.message:
            return EvictionAnswer(EvictionOutcome.SEVERAL_BUDGETS, exc.message)
        case Overloaded() if not _WEBHOOK.search(exc.message):
            return EvictionAnswer(EvictionOutcome.OVERLOADED, str(exc), exc.retry_after)
        case NotFound() | Conflict():
            return EvictionAnswer(EvictionOutcome.ABSENT, exc.message)
        case Refused():
            return EvictionAnswer(EvictionOutcome.REFUSED, exc.message)
        case _:
            return EvictionAnswer(EvictionOutcome.OVERLOADED, str(exc))
