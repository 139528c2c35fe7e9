"""The requests of drains: one eviction or deletion a pod, its outcome, its metric and its events. How each is
made, and what its answer means, is in `controller.evictions`.

Invariants
- A request is sent by a thread of the drain's writers. Its result comes back by the controller's work queue,
  and is recorded on the controller's thread, before the next step; of a former term, in no drain.
- The queue's decision is read again just before the request is sent: a drain that has ended evicts no more
  pods, nor does a replica that no longer leads.
- Events and metrics are recorded for each request exactly once, after it was granted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from cluster.cache.changes import QueueChange
from cluster.exceptions import ClusterError
from cluster.object_reference import ObjectReference
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext, workload_subject
from controller.drain.request_states import RequestResult
from controller.drain.state import Drains
from controller.evictions.answers import Answer, Outcome, answer_of
from controller.evictions.pods import delete_pod, evict_pod, lane_of
from queues.drain.disruption_budgets import BudgetKey
from queues.drain.model import DrainAction, RunningPod, Unit
from queues.drain.terminating_pods import DelayedPod

#: The reason that evictions are counted by.
REASON = "QueueStopped"
log = logging.getLogger(__name__)


class DrainEnded(Exception):
    """The drain has ended."""


class SuspendBlocked(Exception):
    """The workload may not be suspended now."""


class NotScalable(Exception):
    """The workload may not be brought to zero replicas."""


class CommandTaken(Exception):
    """A controller has taken the Command, and may act on it at any time."""


_OUTCOMES: Mapping[type[Exception], Outcome] = {
    SuspendBlocked: Outcome.BUDGET,
    NotScalable: Outcome.NOT_SCALABLE,
    CommandTaken: Outcome.COMMAND_TAKEN,
}


class DrainRequests:
    """Sends the requests of all drains, and records their results in `drains`."""

    def __init__(self, context: ControllerContext, drains: Drains) -> None:
        self._context = context
        self._drains = drains

    def send(
        self, drain: str, unit: Unit, pod: RunningPod, *, grace: int | None, budget: BudgetKey | None = None
    ) -> None:
        """Evict one pod of the unit, or delete it past its budgets. `budget`: the one that selects it."""
        is_eviction, client = unit.action is DrainAction.EVICT, self._context.client
        request = partial(evict_pod if is_eviction else delete_pod, client, pod, grace=grace)
        unsent = RequestResult(drain=drain, unit=unit, pod=pod, grace=grace, outcome=Outcome.DROPPED)
        self.submit(request, unsent, budget=budget if is_eviction else None)

    def submit(
        self,
        request: Callable[[], object],
        unsent: RequestResult,
        *,
        granted: Outcome = Outcome.GRANTED,
        budget: BudgetKey | None = None,
    ) -> None:
        """Have the request sent by a writer's thread. `granted`: its outcome where the API server grants it.

        The result is `unsent` where a former request for the same UID is under way. A workload goes before
        pods: an eviction takes long where its budget's status is written at the same time, and hundreds may
        wait.
        """
        context, receive = self._context, self._receiver()

        def send() -> RequestResult:
            return _answered(unsent, self._send(unsent.queue, request, granted=granted))

        if not context.submit(
            context.drain_writers,
            ("drain", unsent.uid),
            send,
            lambda result: receive(result or unsent),
            rank=WriteRank.EVICTION if unsent.pod is not None else WriteRank.STOP,
            lane=lane_of(unsent.unit.pods[0].namespace, uid=unsent.uid, budget=budget),
            batched=True,
        ):
            context.work_queue.deliver(partial(receive, unsent), batched=True)

    def submit_together(
        self, look: Callable[[], object], requests: Sequence[tuple[Callable[[], object], RequestResult]]
    ) -> None:
        """Have these requests sent by one thread, one right after the other, if `look` raises nothing.

        Each request comes with its result as long as it is not sent. Where `look` raises, all have that
        outcome.
        """
        context, unsent = self._context, [result for _, result in requests]
        receive_one = self._receiver()

        def send() -> list[RequestResult]:
            looked = self._send(unsent[0].queue, look, granted=Outcome.GRANTED)
            if looked.outcome is not Outcome.GRANTED:
                return [_answered(each, looked) for each in unsent]
            return [
                _answered(each, self._send(each.queue, request, granted=Outcome.GRANTED))
                for request, each in requests
            ]

        def receive(results: list[RequestResult] | None) -> None:
            for each in results or unsent:
                receive_one(each)

        first = unsent[0]
        if not context.submit(
            context.drain_writers,
            ("drain", first.uid),
            send,
            receive,
            rank=WriteRank.STOP,
            lane=lane_of(first.unit.pods[0].namespace, uid=first.uid, budget=None),
            batched=True,
        ):
            context.work_queue.deliver(partial(receive, None), batched=True)

    def check_drains(self, queue: str) -> None:
        """Raises `DrainEnded` where the queue does not drain any more, or this replica leads no longer."""
        if not self._context.leading() or not self._context.store.snapshot.decision(queue).drains:
            raise DrainEnded

    def _send(self, queue: str, request: Callable[[], object], *, granted: Outcome) -> Answer:
        """Send a request that only a drain of that queue makes. Raises nothing, since the drain waits."""
        try:
            self.check_drains(queue)
            request()
        except DrainEnded:
            return Answer(Outcome.DROPPED)
        except (SuspendBlocked, NotScalable, CommandTaken) as exc:
            return Answer(_OUTCOMES[type(exc)], str(exc))
        except ClusterError as exc:
            return answer_of(exc)
        except Exception as exc:
            log.exception("the drain of queue %s", queue)
            return Answer(Outcome.OVERLOADED, str(exc))
        return Answer(granted)

    def _receiver(self) -> Callable[[RequestResult], None]:
        """What receives the results of requests of this term, on the controller's thread."""
        context = self._context
        record = context.requests.of_term(self._record)

        def receive(result: RequestResult) -> None:
            record(result)
            if result.outcome is Outcome.GRANTED:
                record_grant(context, result)
            context.work_queue.add_batched(result.drain, QueueChange.STATUS)

        return receive

    def _record(self, result: RequestResult) -> None:
        self._drains.record_result(result, now=self._context.store.clock.monotonic())


def _answered(unsent: RequestResult, answer: Answer) -> RequestResult:
    return msgspec.structs.replace(
        unsent, outcome=answer.outcome, message=answer.message, retry_after=answer.retry_after
    )


# Metrics and events


def record_grant(context: ControllerContext, result: RequestResult) -> None:
    """Count a granted request, and record events on the pods and the workload with the reason."""
    context.metrics.evicted(REASON, action_label(result.action))
    text = context.store.snapshot.decision(result.queue).text
    match result.action:
        case DrainAction.CUT_GRACE:
            for pod in result.unit.pods:
                _record_cut(context, pod, f"its grace period was cut to {result.grace} s: {text}")
        case DrainAction.EVICT:
            for pod in filter(None, [result.pod]):
                _record_eviction(context, pod, f"evicted{_with_gang(result.unit, pod)}: {text}")
        case DrainAction.DELETE:
            for pod in filter(None, [result.pod]):
                _record_deletion(context, pod, text)
        case DrainAction.SUSPEND | DrainAction.SUSPEND_ANYWAY:
            message = f"suspended{_with_gang(result.unit)}: {text}"
            _record_on_workload(context, result.uid, reason="SuspendedByQueue", message=message)
            for pod in result.unit.pods if result.action is DrainAction.SUSPEND_ANYWAY else ():
                _record_deletion(context, pod, text)
        case DrainAction.SCALE:
            _record_on_workload(
                context,
                result.uid,
                reason="ScaledByQueue",
                message=f"brought to 0 replicas past the deadline, and back once its queue schedules: {text}",
                warning=True,
            )
            for pod in result.unit.pods:
                _record_deletion(context, pod, text)


def _with_gang(unit: Unit, pod: RunningPod | None = None) -> str:
    """Which gang the pod goes with, or the workload, if it would stay without that; else nothing."""
    return f" {unit.because}" if unit.overruled and (pod is None or pod.uid in unit.overruled) else ""


def record_delay(context: ControllerContext, delay: DelayedPod) -> None:
    """Record an event on a pod that has lost its place in flight."""
    context.recorder.record(
        _subject(delay.pod),
        reason="EvictionDelayed",
        message=f"the drain of its queue waits for this pod: {delay.message}",
        warning=True,
        rate_limit_key=f"delays/{delay.pod.queue}",
    )


def _record_eviction(context: ControllerContext, pod: RunningPod, message: str) -> None:
    rate_limit_key = f"evictions/{pod.queue}"
    context.recorder.record(
        _subject(pod), reason="Evicted", message=message, rate_limit_key=rate_limit_key, repeat_after=0.0
    )


def _record_deletion(context: ControllerContext, pod: RunningPod, text: str) -> None:
    context.recorder.record(
        _subject(pod),
        reason="DeletedPastBudget",
        message=f"deleted past its deadline, disruption budgets or not: {text}",
        warning=True,
        repeat_after=0.0,
    )


def _record_cut(context: ControllerContext, pod: RunningPod, message: str) -> None:
    context.recorder.record(
        _subject(pod),
        reason="GracePeriodCut",
        message=message,
        warning=True,
        rate_limit_key=f"evictions/{pod.queue}",
        repeat_after=0.0,
    )


def _record_on_workload(
    context: ControllerContext, uid: str, *, reason: str, message: str, warning: bool = False
) -> None:
    workload = context.store.workloads.by_uid(uid)
    if workload is not None:
        context.recorder.record(
            workload_subject(workload), reason=reason, message=message, warning=warning, repeat_after=0.0
        )


def action_label(action: DrainAction) -> str:
    """Label `how` of metrics `sluice_pod_evictions` and `sluice_workload_suspensions`."""
    if action is DrainAction.SUSPEND_ANYWAY:
        return DrainAction.SUSPEND.value
    return action.value


def _subject(pod: RunningPod) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
