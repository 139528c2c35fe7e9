"""The requests of drains: one eviction or deletion a pod, its outcome, its metric and its events. How each is
made, and what its answer means, is in `controller.evictions`.

Invariants
- A request is sent by a thread of the drain's writers. Its result comes back by the controller's work queue,
  and is recorded on the controller's thread, before the next step; of a former term, in no drain.
- The queue's decision is read again just before the request is sent: a drain that has ended evicts no more
  pods, nor does a replica that no longer leads.
- Events and metrics are recorded for each request exactly once, after it was granted
  (`controller.evictions.granted`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from cluster.cache.changes import QueueChange
from cluster.cache.workloads import Workload
from cluster.exceptions import ClusterError
from cluster.object_reference import ObjectReference
from cluster.write_ranks import WriteRank
from controller.context import ControllerContext, workload_subject
from controller.drain.request_states import RequestResult
from controller.drain.state import Drains
from controller.evictions.answers import EvictionAnswer, EvictionOutcome, answer_of
from controller.evictions.granted import EvictionRequest, Granted, GrantedEvent, ask, say
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


_OUTCOMES: Mapping[type[Exception], EvictionOutcome] = {
    SuspendBlocked: EvictionOutcome.BUDGET,
    NotScalable: EvictionOutcome.NOT_SCALABLE,
    CommandTaken: EvictionOutcome.COMMAND_TAKEN,
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
        unsent = RequestResult(drain=drain, unit=unit, pod=pod, grace=grace, outcome=EvictionOutcome.DROPPED)
        self.submit(request, unsent, budget=budget if is_eviction else None)

    def submit(
        self,
        request: Callable[[], object],
        unsent: RequestResult,
        *,
        granted: EvictionOutcome = EvictionOutcome.GRANTED,
        budget: BudgetKey | None = None,
    ) -> None:
        """Have the request sent by a writer's thread. `granted`: its outcome where the API server grants it.

        The result is `unsent` where a former request for the same UID is under way. A workload goes before
        pods: an eviction takes long where its budget's status is written at the same time, and hundreds may
        wait.
        """
        context, record = self._context, partial(self._record, unsent)
        asked = EvictionRequest(
            purpose="drain",
            uid=unsent.uid,
            namespace=unsent.unit.pods[0].namespace,
            answer=lambda: self._send(unsent.queue, request, granted=granted),
            granted=partial(granted_of, context, unsent),
            budget=budget,
            rank=WriteRank.EVICTION if unsent.pod is not None else WriteRank.STOP,
            given_up=EvictionOutcome.DROPPED,
        )
        if not ask(context, asked, record):
            context.work_queue.deliver(partial(record, EvictionAnswer(EvictionOutcome.DROPPED)), batched=True)

    def submit_together(
        self, look: Callable[[], object], requests: Sequence[tuple[Callable[[], object], RequestResult]]
    ) -> None:
        """Have these requests sent by one thread, one right after the other, if `look` raises nothing.

        Each request comes with its result as long as it is not sent. Where `look` raises, all have that
        outcome.
        """
        context, unsent = self._context, [result for _, result in requests]
        record = context.requests.of_term(partial(self._record_all, unsent))

        def send() -> list[EvictionAnswer]:
            looked = self._send(unsent[0].queue, look, granted=EvictionOutcome.GRANTED)
            if looked.outcome is not EvictionOutcome.GRANTED:
                return [looked for _ in unsent]
            return [
                self._send(each.queue, request, granted=EvictionOutcome.GRANTED) for request, each in requests
            ]

        def receive(answers: list[EvictionAnswer] | None) -> None:
            answers = answers or [EvictionAnswer(EvictionOutcome.DROPPED) for _ in unsent]
            record(answers)
            for each, answer in zip(unsent, answers, strict=True):
                if answer.outcome is EvictionOutcome.GRANTED:
                    say(context, granted_of(context, each))

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

    def _send(self, queue: str, request: Callable[[], object], *, granted: EvictionOutcome) -> EvictionAnswer:
        """Send a request that only a drain of that queue makes. Raises nothing, since the drain waits."""
        try:
            self.check_drains(queue)
            request()
        except DrainEnded:
            return EvictionAnswer(EvictionOutcome.DROPPED)
        except (SuspendBlocked, NotScalable, CommandTaken) as exc:
            return EvictionAnswer(_OUTCOMES[type(exc)], str(exc))
        except ClusterError as exc:
            return answer_of(exc)
        except Exception as exc:
            log.exception("the drain of queue %s", queue)
            return EvictionAnswer(EvictionOutcome.OVERLOADED, str(exc))
        return EvictionAnswer(granted)

    def _record_all(self, unsent: Sequence[RequestResult], answers: Sequence[EvictionAnswer]) -> None:
        for each, answer in zip(unsent, answers, strict=True):
            self._record(each, answer)

    def _record(self, unsent: RequestResult, answer: EvictionAnswer) -> None:
        """On the controller's thread, in the term that asked. `unsent`: the result before it was sent."""
        result = msgspec.structs.replace(
            unsent, outcome=answer.outcome, message=answer.message, retry_after=answer.retry_after
        )
        self._drains.record_result(result, now=self._context.store.clock.monotonic())
        self._context.work_queue.add_batched(result.drain, QueueChange.STATUS)


# What is said of granted requests


def granted_of(context: ControllerContext, result: RequestResult) -> Granted:
    """What is said of a granted request: events on the pods and the workload, with the reason."""
    text = context.store.snapshot.decision(result.queue).text
    workload = context.store.workloads.by_uid(result.uid)
    return Granted(
        reason=REASON, how=action_label(result.action), events=tuple(_events(result, workload, text))
    )


def _events(result: RequestResult, workload: Workload | None, text: str) -> Iterator[GrantedEvent]:
    """`text`: why the queue drains. `workload`: the stopped one; None if the cache has it no more."""
    pods, one = result.unit.pods, tuple(filter(None, [result.pod]))
    match result.action:
        case DrainAction.CUT_GRACE:
            for pod in pods:
                yield _on_pod(
                    pod,
                    "GracePeriodCut",
                    f"its grace period was cut to {result.grace} s: {text}",
                    warning=True,
                )
        case DrainAction.EVICT:
            for pod in one:
                yield _on_pod(pod, "Evicted", f"evicted{_with_gang(result.unit, pod)}: {text}")
        case DrainAction.DELETE:
            yield from _deleted(one, text)
        case DrainAction.SUSPEND | DrainAction.SUSPEND_ANYWAY:
            message = f"suspended{_with_gang(result.unit)}: {text}"
            yield from _on_workload(workload, "SuspendedByQueue", message)
            yield from _deleted(pods if result.action is DrainAction.SUSPEND_ANYWAY else (), text)
        case DrainAction.SCALE:
            message = f"brought to 0 replicas past the deadline, and back once its queue schedules: {text}"
            yield from _on_workload(workload, "ScaledByQueue", message, warning=True)
            yield from _deleted(pods, text)


def _on_pod(pod: RunningPod, reason: str, message: str, *, warning: bool = False) -> GrantedEvent:
    return GrantedEvent(
        subject=_subject(pod),
        reason=reason,
        message=message,
        warning=warning,
        rate_limit_key=f"evictions/{pod.queue}",
    )


def _deleted(pods: Iterable[RunningPod], text: str) -> Iterator[GrantedEvent]:
    message = f"deleted past its deadline, disruption budgets or not: {text}"
    for pod in pods:
        yield GrantedEvent(subject=_subject(pod), reason="DeletedPastBudget", message=message, warning=True)


def _on_workload(
    workload: Workload | None, reason: str, message: str, *, warning: bool = False
) -> Iterator[GrantedEvent]:
    if workload is not None:
        yield GrantedEvent(
            subject=workload_subject(workload), reason=reason, message=message, warning=warning
        )


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


def action_label(action: DrainAction) -> str:
    """Label `how` of metrics `sluice_pod_evictions` and `sluice_workload_suspensions`."""
    if action is DrainAction.SUSPEND_ANYWAY:
        return DrainAction.SUSPEND.value
    return action.value


def _subject(pod: RunningPod) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
