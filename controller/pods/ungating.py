"""Parked pods back into the scheduler's hands, as soon as their queue schedules.

| the pod                                     | what is written                              |
|---------------------------------------------|----------------------------------------------|
| our gate is on it                           | the gate is taken off                        |
| filter refused it (its condition says so)   | annotation `sluice.dev/woken`: it is retried |
| its namespace is not selected by its queue  | nothing: it waits                            |
| its PodGroup has come                       | its queue, and the gate off if that schedules |

By priority, then age; as fast as the writers' threads are answered. Each write asks the snapshot again
at the moment it is sent, so that a stop in the middle of a resume stops the resume. Nothing is
remembered that matters: what is parked is read off the pods, so a crash leaves nobody behind.

A pod whose namespace came to be selected is retried again, less and less often, while its condition still
says that it is not: another replica may have answered kube-scheduler before it saw the new labels.

Without the annotation kube-scheduler would retry a pod that an extender refused when some other pod
or node changes, or after five minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any

from cluster.api.client import STRATEGIC_MERGE_PATCH
from cluster.backoff import Backoff
from cluster.cache.members import Member
from controller.context import (
    RETRY_SECONDS,
    ControllerContext,
    each_member,
    pod_path,
    pod_subject,
)
from queues import labels as names
from queues.membership import label_value
from queues.snapshot import QueueDecision

#: How often a pod is retried whose condition still says that its namespace is not selected, and the waits
#: in between.
TIMES, RETRY = 8, Backoff(1.0)


class Ungating:
    """Owner: the controller's thread; the writes run in the writers' threads."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        #: Since which revision all members of a queue have been looked at.
        self._begun: dict[str, str] = {}
        #: The state of a pod for which a write was sent, by UID: not sent again for the same state.
        self._sent: dict[str, int] = {}
        #: Pods of queues with a selector, by UID: since which resume, how often and when each was retried.
        self._retried: dict[str, tuple[tuple[str, int], int, float]] = {}

    def release(self, queue: str, members: Iterable[Member], *, may_wake: Callable[[], bool]) -> int:
        """Let go whom of these members the queue's stop had parked.

        `may_wake`: whether those that filter refused may be woken; asked only where there are any.
        Returns how many were left because they may not yet.
        """
        decision = self._context.store.snapshot.decision(queue)
        if not decision.schedules:
            return 0
        if self._begun.get(queue) != decision.revision:
            # Whoever is heard of first after a resume is not let go first: all are, in their order.
            self._begun[queue] = decision.revision
            members = self._context.store.members.waiting_in(queue)
        left = 0

        def release(member: Member) -> None:
            nonlocal left
            left += self._release(member, decision, may_wake=may_wake)

        # In order from the first on: the writers begin while the rest is still being asked for.
        each_member(self._context, "ungate", sorted(members, key=_rank), release, queue=queue)
        return left

    def is_resumed(self, queue: str) -> bool:
        """Whether it was resumed, and nobody of it has been let go since."""
        decision = self._context.store.snapshot.decision(queue)
        return decision.schedules and self._begun.get(queue) != decision.revision

    def assign_queues(self, members: Iterable[Member]) -> None:
        """Write down the queue of pods whose PodGroup was not there when they came."""
        each_member(self._context, "assign_queue", members, self._assign_queue, queue="")

    def _assign_queue(self, member: Member) -> None:
        queue = self._context.store.queue_of_podgroup(member.namespace, member.group)
        if queue is not None:
            self._send(member, "assign_queue", self._assigning(member, queue))

    def forget(self, uid: str) -> None:
        self._sent.pop(uid, None)
        self._retried.pop(uid, None)

    def forget_absent_queues(self) -> None:
        """What is remembered of queues without members."""
        present = set(self._context.store.members.queues())
        for queue in self._begun.keys() - present:
            self._begun.pop(queue, None)

    def _release(self, member: Member, decision: QueueDecision, *, may_wake: Callable[[], bool]) -> bool:
        if not member.waiting or member.leaving:
            return False
        if decision.restricted:
            if not self._context.store.selects(decision.queue, member.namespace):
                return False
            if not member.gated:
                return self._retry(member, decision, may_wake=may_wake)
        if member.gated:
            self._send(member, "ungate", self._ungating(member))
        elif refused_by_us(member) and member.woken != decision.revision:
            if not may_wake():
                return True
            self._send(member, "wake", self._waking(member, decision.revision))
        return False

    def _retry(self, member: Member, decision: QueueDecision, *, may_wake: Callable[[], bool]) -> bool:
        """The same for a pod whose namespace a selector was asked about: as long as filter's text stands."""
        if not refused_by_us(member):
            self._retried.pop(member.uid, None)
            return False
        if not may_wake():
            return True
        now = self._context.store.clock.monotonic()
        resume = (decision.revision, self._context.store.selection_changes.get(decision.queue, 0))
        since, times, at = self._retried.get(member.uid, (resume, 0, now))
        if since != resume:
            times = 0
        if times >= TIMES:
            return False
        self._look_again(member.queue)
        if now >= at + RETRY.seconds(times):
            self._retried[member.uid] = (resume, times + 1, now)
            self._send(member, "wake", self._waking(member, f"{decision.revision}-{now:.3f}"))
        return False

    def _look_again(self, queue: str) -> None:
        self._context.work_queue.add_after(queue, RETRY_SECONDS, members=True)

    def _send(self, member: Member, what: str, write: Callable[[], bool]) -> None:
        if self._sent.get(member.uid) == member.version:
            return
        self._sent[member.uid] = member.version
        key, not_written = (what, member.uid), partial(self._not_written, member)
        rank, subject = (1, *_rank(member)), pod_subject(member)
        if not self._context.submit_write(
            key, write, not_written, rank=rank, queue=member.queue, subject=subject
        ):
            self._sent.pop(member.uid, None)  # a former write of it is still under way, or it backs off
            if not self._context.writers.wait(key):
                self._look_again(member.queue)

    def _not_written(self, member: Member, failed: bool) -> None:
        if self._sent.get(member.uid) == member.version:
            del self._sent[member.uid]
        if failed:
            self._look_again(member.queue)

    def _ungating(self, member: Member) -> Callable[[], bool]:
        body = {"metadata": {"uid": member.uid}, "spec": {"schedulingGates": [_DELETE_GATE]}}
        return self._if_scheduling(
            member,
            lambda: self._context.client.patch(pod_path(member), body, content_type=STRATEGIC_MERGE_PATCH),
        )

    def _waking(self, member: Member, revision: str) -> Callable[[], bool]:
        body = {"metadata": {"uid": member.uid, "annotations": {names.WOKEN: revision}}}
        return self._if_scheduling(member, lambda: self._context.client.patch(pod_path(member), body))

    def _assigning(self, member: Member, queue: str) -> Callable[[], bool]:
        def write() -> bool:
            body: dict[str, Any] = {
                "metadata": {
                    "uid": member.uid,
                    "annotations": {names.QUEUE: queue},
                    "labels": {names.QUEUE: label_value(queue)},
                }
            }
            if self._schedules(queue, member):
                body["spec"] = {"schedulingGates": [_DELETE_GATE]}
            self._context.client.patch(pod_path(member), body, content_type=STRATEGIC_MERGE_PATCH)
            return True

        return write

    def _if_scheduling(self, member: Member, write: Callable[[], object]) -> Callable[[], bool]:
        def guarded() -> bool:
            if not self._schedules(member.queue, member):
                return False
            write()
            return True

        return guarded

    def _schedules(self, queue: str, member: Member) -> bool:
        return self._context.store.decision_for(queue, namespace=member.namespace).schedules


def _rank(member: Member) -> tuple[int, datetime]:
    """By priority, then age."""
    return -member.priority, member.created


_DELETE_GATE = {"name": names.GATE, "$patch": "delete"}


def refused_by_us(member: Member) -> bool:
    """Whether what keeps it from a node, as its own condition says, is a text of filter."""
    if not member.bindable or not member.condition:
        return False
    return f'queue "{member.queue}" ' in member.condition or f'PodGroup "{member.group}" ' in member.condition
