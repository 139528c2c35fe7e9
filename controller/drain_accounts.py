"""What is told of drains: counts, reports, and events on who went.

Owner: the controller's thread.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from datetime import datetime

import msgspec

from cluster.members import Member
from cluster.subjects import Subject
from controller.drain import ANSWER_SECONDS, Drain
from controller.evicting import Answer
from controller.parts import Parts, workload_subject
from queues.converting import Converter
from queues.drained import Report, Tally, reports
from queues.draining import How, Plan, Runner

#: A pod that is still there so long after its grace period is told of.
STUCK_SECONDS = 10.0
#: The reason that evictions are counted by.
REASON = "QueueStopped"

_tally = Converter[Tally | None](Tally | None)


class Accounts:
    """Each queue's part of the drains there are."""

    def __init__(self, parts: Parts) -> None:
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

    # What is told

    def tell(self, drain: Drain, found: Plan, stuck: Mapping[str, str]) -> set[str]:
        """Take down what each queue has to tell; those for which it is something else than before."""
        told = reports(found, drain.queues, stuck=stuck, selects=self._store.selects)
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

    def stuck(self, drain: Drain, found: Plan) -> dict[str, str]:
        """What keeps pods that are on their way for too long, by their UID."""
        now, stuck = self._store.clock.now(), {}
        gone_nodes = drain.reading.gone_nodes if drain.reading is not None else frozenset()
        paused: dict[str, float] = {}
        before, monotonic = self._paused_since.get(drain.by, {}), self._store.clock.monotonic()
        for pod in found.leaving:
            member = self._store.members.by_uid(pod.uid)
            if member is None:
                continue
            if member.leaves_at is not None:
                if is_stuck(member, now):
                    stuck[pod.uid] = _keeps(member, gone=member.node in gone_nodes)
            elif pod.work is not None and pod.work.paused:
                since = paused[pod.work.uid] = before.get(pod.work.uid, monotonic)
                if since + ANSWER_SECONDS < monotonic:
                    stuck[pod.uid] = f"{pod.work} is suspended and its pods still run; does its controller?"
        self._paused_since[drain.by] = paused
        return stuck


def is_stuck(member: Member, now: datetime) -> bool:
    """Whether it should have been gone for a while."""
    at = member.leaves_at
    return at is not None and (now - at).total_seconds() > STUCK_SECONDS


def _how(how: How) -> str:
    return {How.DELETE: "Delete", How.EVICT: "Evict"}.get(how, "Suspend")


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


def _keeps(member: Member, *, gone: bool) -> str:
    if gone:
        return f"its node {member.node} is gone"
    if member.finalizers:
        return f"it waits for its finalizers to be taken off: {', '.join(member.finalizers[:3])}"
    return f"it does not end on its node {member.node}"


def _subject(pod: Runner) -> Subject:
    return Subject(api_version="v1", kind="Pod", name=pod.name, namespace=pod.namespace, uid=pod.uid)
