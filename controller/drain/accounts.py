"""What is told of drains: counts, reports, and events on who went.

Owner: the controller's thread.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

import msgspec

from cluster.object_reference import ObjectReference
from controller.context import ControllerContext, workload_subject
from controller.drain.eviction import RequestResult
from controller.drain.executor import SUSPEND_SECONDS, Drain
from queues.apimachinery.conversion import Converter
from queues.drain.model import (
    DrainAction,
    Plan,
    RunningPod,
)
from queues.drain.progress import (
    DrainCounts,
    QueueProgress,
    progress_by_queue,
)
from queues.drain.terminating_pods import (
    DelayedPod,
    delay_of,
    longest_grace,
    undeleted,
)

#: The pods of suspended work that nobody ends are evicted by themselves after so long.
ABANDONED_SECONDS = 120.0
#: The reason that evictions are counted by.
REASON = "QueueStopped"

_tally = Converter[DrainCounts | None](DrainCounts | None)


class DrainProgressTracker:
    """Each queue's part of the drains there are."""

    def __init__(self, parts: ControllerContext) -> None:
        self._parts = parts
        self._store = parts.store
        self._progress: dict[str, QueueProgress] = {}
        self._counts: dict[str, DrainCounts] = {}
        #: When paused work was first seen to have pods that run, by drain and UID.
        self._suspended_since: dict[str, dict[str, float]] = {}

    def of(self, queue: str) -> tuple[DrainCounts, QueueProgress] | None:
        """How far the drain of a queue is; None where it does not drain, or nobody has looked yet."""
        report = self._progress.get(queue)
        return (self._counts[queue], report) if report is not None else None

    def keep_only(self, queues: Container[str]) -> None:
        for memory in (self._progress, self._counts):
            for queue in [queue for queue in memory if queue not in queues]:
                memory.pop(queue)

    def count(self, answer: RequestResult) -> None:
        """Somebody has gone."""
        queue = (answer.pod or answer.unit.pods[0]).queue
        self._parts.counting.evictions.labels(REASON, _action_label(answer.action)).inc()
        tally = self._counts.get(queue)
        if tally is not None:
            _add_to_counts(tally, answer)
        self._record(answer, queue)

    def _record(self, answer: RequestResult, queue: str) -> None:
        """Who went, and why, on the pods and the work."""
        text = self._store.snapshot.decision(queue).text
        recorder = self._parts.recorder
        if answer.unit.workload is not None and answer.pod is None:
            work = self._store.workloads.by_uid(answer.unit.workload.uid)
            if work is not None:
                message = f"suspended: {text}"
                recorder.record(
                    workload_subject(work), reason="SuspendedByQueue", message=message, again_after=0.0
                )
        if answer.action is DrainAction.CUT_GRACE:
            self._record_cut(answer, text)
            return
        past = answer.action in {DrainAction.DELETE, DrainAction.SUSPEND_ANYWAY}
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

    def _record_cut(self, answer: RequestResult, text: str) -> None:
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

    def _record_delay(self, delay: DelayedPod) -> None:
        """On a pod that has lost its place in flight."""
        self._parts.recorder.record(
            _subject(delay.pod),
            reason="EvictionDelayed",
            message=f"the drain of its queue waits for this pod: {delay.message}",
            warning=True,
            budget=f"delays/{delay.pod.queue}",
        )

    # What is told

    def record_progress(self, drain: Drain, found: Plan, delays: Mapping[str, DelayedPod]) -> set[str]:
        """Take down what each queue has to tell; those for which it is something else than before."""
        told = progress_by_queue(found, drain.queues, delays=delays, selects=self._store.selects)
        changed = {queue for queue, report in told.items() if self._progress.get(queue) != report}
        self._progress |= told
        for queue in told.keys() - self._counts.keys():
            self._counts[queue] = self._stored_counts(queue)
        return changed

    def _stored_counts(self, queue: str) -> DrainCounts:
        """What the queue's status says of this drain, by whoever led before."""
        obj = self._store.queues.get(queue)
        try:
            before = _tally(obj.status.drain if obj is not None else None)
        except msgspec.ValidationError:
            before = None
        return before or DrainCounts(since=self._store.clock.now())

    def find_delays(self, drain: Drain, found: Plan) -> dict[str, DelayedPod]:
        """The pods on their way that have lost their places in flight, by UID."""
        now = self._store.clock.now()
        longest = longest_grace(drain.spec, limit=self._parts.drain_grace_limit)
        gone_nodes = drain.snapshot.gone_nodes if drain.snapshot is not None else frozenset()
        delays: dict[str, DelayedPod] = {}
        suspended: dict[str, float] = {}
        before, monotonic = self._suspended_since.get(drain.by, {}), self._store.clock.monotonic()
        for pod in found.leaving:
            if pod.termination is not None:
                delay = delay_of(pod, now=now, longest=longest, gone_nodes=gone_nodes)
                if delay is not None:
                    delays[pod.uid] = delay
            elif pod.workload is not None and pod.workload.suspended:
                since = suspended[pod.workload.uid] = before.get(pod.workload.uid, monotonic)
                if since + ABANDONED_SECONDS < monotonic:
                    drain.unsuspendable.add(pod.workload.uid)
                if since + SUSPEND_SECONDS < monotonic:
                    delays[pod.uid] = undeleted(pod)
        self._suspended_since[drain.by] = suspended
        for uid in delays.keys() - drain.delayed_pods:
            self._record_delay(delays[uid])
        return delays


def _action_label(how: DrainAction) -> str:
    return {DrainAction.DELETE: "Delete", DrainAction.EVICT: "Evict", DrainAction.CUT_GRACE: "CutGrace"}.get(
        how, "Suspend"
    )


def _add_to_counts(tally: DrainCounts, answer: RequestResult) -> None:
    match answer.action:
        case DrainAction.EVICT:
            tally.evicted += 1
        case DrainAction.DELETE:
            tally.deleted += 1
        case DrainAction.SUSPEND:
            tally.suspended += 1
        case DrainAction.SUSPEND_ANYWAY:
            tally.suspended += 1
            tally.deleted += len(answer.unit.pods)


def _subject(pod: RunningPod) -> ObjectReference:
    return ObjectReference(api_version="v1", kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
