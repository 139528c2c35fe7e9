"""What is told of drains: counts, reports, and events on who went.

Owner: the controller's thread.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from cluster.object_reference import ObjectReference
from controller.context import ControllerContext, workload_subject
from controller.drain.eviction import Answer
from controller.drain.executor import ANSWER_SECONDS, DrainExecutor
from queues.apimachinery.conversion import Converter
from queues.drain.model import (
    How,
    Plan,
    RunningPod,
)
from queues.drain.progress import (
    Report,
    Tally,
    reports,
)
from queues.drain.terminating_pods import (
    Delayed,
    delayed,
    longest_grace,
    not_terminated,
)

#: The pods of suspended work that nobody ends are evicted by themselves after so long.
ABANDONED_SECONDS = 120.0
#: The reason that evictions are counted by.
REASON = "QueueStopped"

_tally = Converter[Tally | None](Tally | None)


class DrainAccounts:
    """Each queue's part of the drains there are."""

    def __init__(self, parts: ControllerContext) -> None:
        self._parts = parts
        self._store = parts.store
        self._reports: dict[str, Report] = {}
        self._tallies: dict[str, Tally] = {}
        #: When paused work was first seen to have pods that run, by drain and UID.
        self._paused_since: dict[str, dict[str, float]] = {}

    def of(self, queue: str) -> tuple[Tally, Report] | None:
        """How far the drain of a queue is; None where it does not drain, or nobody has looked yet."""
        report = self._reports.get(queue)
        return (self._tallies[queue], report) if report is not None else None

    def keep_only(self, queues: Container[str]) -> None:
        for memory in (self._reports, self._tallies):
            for queue in [queue for queue in memory if queue not in queues]:
                memory.pop(queue)

    def count(self, answer: Answer) -> None:
        """Somebody has gone."""
        queue = (answer.pod or answer.unit.pods[0]).queue
        self._parts.counting.evictions.labels(REASON, _how(answer.how)).inc()
        tally = self._tallies.get(queue)
        if tally is not None:
            _count(tally, answer)
        self._record(answer, queue)

    def _record(self, answer: Answer, queue: str) -> None:
        """Who went, and why, on the pods and the work."""
        text = self._store.board.ruling(queue).text
        recorder = self._parts.recorder
        if answer.unit.work is not None and answer.pod is None:
            work = self._store.workloads.by_uid(answer.unit.work.uid)
            if work is not None:
                message = f"suspended: {text}"
                recorder.record(
                    workload_subject(work), reason="SuspendedByQueue", message=message, again_after=0.0
                )
        if answer.how is How.CUT_GRACE:
            self._record_cut(answer, text)
            return
        past = answer.how in {How.DELETE, How.SUSPEND_ANYWAY}
        for pod in [answer.pod] if answer.pod is not None else answer.unit.pods if past else ():
            recorder.record(
                _subject(pod),
                reason="DeletedPastBudget" if past else "Evicted",
                message=f"deleted past its deadline, disruption budgets or not: {text}"
                if past
                else f"evicted: {text}",
                warning=past,
                budget="" if past else f"evictions/{queue}",
                again_after=0.0,
            )

    def _record_cut(self, answer: Answer, text: str) -> None:
        """On a pod that was terminating already, and was given less time."""
        for pod in answer.unit.pods:
            self._parts.recorder.record(
                _subject(pod),
                reason="GracePeriodCut",
                message=f"its grace period was cut to {answer.grace} s: {text}",
                warning=True,
                budget=f"evictions/{pod.queue}",
                again_after=0.0,
            )

    def _record_delay(self, delay: Delayed) -> None:
        """On a pod that has lost its place in flight."""
        self._parts.recorder.record(
            _subject(delay.pod),
            reason="EvictionDelayed",
            message=f"the drain of its queue waits for this pod: {delay.message}",
            warning=True,
            budget=f"delays/{delay.pod.queue}",
        )

    # What is told

    def tell(self, drain: DrainExecutor, found: Plan, delays: Mapping[str, Delayed]) -> set[str]:
        """Take down what each queue has to tell; those for which it is something else than before."""
        told = reports(found, drain.queues, delays=delays, selects=self._store.selects)
        changed = {queue for queue, report in told.items() if self._reports.get(queue) != report}
        self._reports |= told
        for queue in told.keys() - self._tallies.keys():
            self._tallies[queue] = self._counted_before(queue)
        return changed

    def _counted_before(self, queue: str) -> Tally:
        """What the queue's status says of this drain, by whoever led before."""
        obj = self._store.queues.get(queue)
        try:
            before = _tally(obj.status.drain if obj is not None else None)
        except msgspec.ValidationError:
            before = None
        return before or Tally(since=self._store.clock.now())

    def delayed(self, drain: DrainExecutor, found: Plan) -> dict[str, Delayed]:
        """The pods on their way that have lost their places in flight, by UID."""
        now = self._store.clock.now()
        longest = longest_grace(drain.wishes, limit=self._parts.drain_grace_limit)
        gone_nodes = drain.reading.gone_nodes if drain.reading is not None else frozenset()
        delays: dict[str, Delayed] = {}
        suspended: dict[str, float] = {}
        before, monotonic = self._paused_since.get(drain.by, {}), self._store.clock.monotonic()
        for pod in found.leaving:
            if pod.termination is not None:
                delay = delayed(pod, now=now, longest=longest, gone_nodes=gone_nodes)
                if delay is not None:
                    delays[pod.uid] = delay
            elif pod.work is not None and pod.work.paused:
                since = suspended[pod.work.uid] = before.get(pod.work.uid, monotonic)
                if since + ABANDONED_SECONDS < monotonic:
                    drain.unanswered.add(pod.work.uid)
                if since + ANSWER_SECONDS < monotonic:
                    delays[pod.uid] = not_terminated(pod)
        self._paused_since[drain.by] = suspended
        for uid in delays.keys() - drain.stuck:
            self._record_delay(delays[uid])
        return delays


def _how(how: How) -> str:
    return {How.DELETE: "Delete", How.EVICT: "Evict", How.CUT_GRACE: "CutGrace"}.get(how, "Suspend")


def _count(tally: Tally, answer: Answer) -> None:
    match answer.how:
        case How.EVICT:
            tally.evicted += 1
        case How.DELETE:
            tally.deleted += 1
        case How.SUSPEND:
            tally.suspended += 1
        case How.SUSPEND_ANYWAY:
            tally.suspended += 1
            tally.deleted += len(answer.unit.pods)


def _subject(pod: RunningPod) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
