"""Sends a request by which a pod goes, and says once, after the grant, what went: metric, events, condition.

The sender names what goes (purpose and UID), why (`Granted`), and what must still be true: it checks that in
the writer's thread, just before the request (`answer`).

Invariants
- Nothing is said of a request that was not granted, and nothing is said twice of one that was.
- What was granted is said in any term. What came of a request is recorded in the term that asked alone.
- Condition DisruptionTarget replaces the one of the eviction API, which does not say for whom the pod goes.
- One request of a purpose and UID is under way at a time, and one of a budget (`evictions.pods.lane_of`).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from cluster.api.client import STRATEGIC_MERGE_PATCH
from cluster.cache.members import Member
from cluster.exceptions import Conflict, NotFound
from cluster.object_reference import ObjectReference
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext, pod_path, pod_subject
from controller.evictions.answers import EvictionAnswer, EvictionOutcome
from controller.evictions.pods import lane_of
from queues.drain.disruption_budgets import BudgetKey


class GrantedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event on a pod that goes, or on its workload. The fields are those of `EventRecorder.record`."""

    subject: ObjectReference
    reason: str
    message: str
    warning: bool = False
    rate_limit_key: str = ""
    repeat_after: float = 0.0


class Granted(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a granted request. `reason` and `how`: labels of the metric.

    `target`: the pod that gets condition DisruptionTarget, with the message; None where what the API server
    writes is enough.
    """

    reason: str
    how: str
    events: tuple[GrantedEvent, ...] = ()
    target: Member | None = None
    message: str = ""


class EvictionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request by which a pod goes, or a workload is stopped.

    `answer`: sends it in a writer's thread, if it still should go. `granted`: says why it went, once that is
    known. `budget`: the one that selects the pod. `given_up`: its outcome where the writers gave it up.
    """

    purpose: str
    uid: str
    namespace: str
    answer: Callable[[], EvictionAnswer]
    granted: Callable[[], Granted]
    budget: BudgetKey | None = None
    rank: WriteRank = WriteRank.EVICTION
    given_up: EvictionOutcome = EvictionOutcome.OVERLOADED


def ask(
    context: ControllerContext, request: EvictionRequest, record: Callable[[EvictionAnswer], object]
) -> bool:
    """Have the request sent. Returns False where one of its purpose and UID is under way.

    `record`: is given what came of it, on the controller's thread, in this term.
    """
    record_in_term = context.requests.of_term(record)

    def receive(answer: EvictionAnswer | None) -> None:
        answer = answer or EvictionAnswer(request.given_up)
        record_in_term(answer)
        if answer.outcome is EvictionOutcome.GRANTED:
            say(context, request.granted())

    return context.submit(
        context.drain_writers,
        (request.purpose, request.uid),
        request.answer,
        receive,
        rank=request.rank,
        lane=lane_of(request.namespace, uid=request.uid, budget=request.budget),
        batched=True,
    )


def say(context: ControllerContext, granted: Granted) -> None:
    """Count the request, and record its events and its condition."""
    context.metrics.evicted(granted.reason, granted.how)
    for event in granted.events:
        context.recorder.record(
            event.subject,
            reason=event.reason,
            message=event.message,
            warning=event.warning,
            rate_limit_key=event.rate_limit_key,
            repeat_after=event.repeat_after,
        )
    if granted.target is not None:
        _write_condition(context, granted.target, reason=granted.reason, message=granted.message)


def _write_condition(context: ControllerContext, member: Member, *, reason: str, message: str) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    body = {"metadata": {"uid": member.uid}, "status": {"conditions": [condition]}}

    def write() -> bool:
        try:
            context.client.patch(f"{pod_path(member)}/status", body, content_type=STRATEGIC_MERGE_PATCH)
        except (NotFound, Conflict):
            return False
        return True

    context.submit_write(
        ("give-back-condition", member.uid),
        write,
        lambda _failed: None,
        rank=WriteRank.VICTIM,
        subject=pod_subject(member),
    )
