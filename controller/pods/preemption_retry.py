"""Pods that were refused victims, back into the scheduler's hands after a resume.

A pod that found no room while its queue was stopped was refused its victims by preempt. kube-scheduler
then waits for room, and for nothing else: no change of the pod itself brings it back, only an assigned
pod that goes (seen; else it is tried again after five minutes). So after the resume one goes: a pod of our
own, of no use, on a node that does not exist, made and deleted at once.

It is asked for whenever a queue that has come to schedule, or to select a namespace again, holds a pod that
is waiting for a reason not ours; once a queue and resume.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from functools import partial

from cluster.cache.marker_pods import idle_pod
from cluster.cache.members import Member
from controller.context import RETRY_SECONDS, ControllerContext
from controller.pods.ungating import refused_by_us

PREFIX = "sluice-nudge-"
NO_NODE = "sluice-no-such-node"


class PreemptionRetry:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext, *, namespace: str) -> None:
        self._context = context
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        #: For which revision of a queue, and change of what it selects, the scheduler was nudged.
        self._nudged: dict[str, tuple[str, int]] = {}

    def retry_if_refused(
        self, queue: str, members: Iterable[Member], *, may_wake: Callable[[], bool]
    ) -> bool:
        """Nudge if this queue schedules and one of these members was left without room.

        `may_wake`: whether pods may be woken; asked only where there is one. Returns whether it has to be
        considered again: they may not yet, or a nudge is under way that may have come before these pods.
        """
        decision = self._context.store.snapshot.decision(queue)
        if not decision.schedules:
            self._nudged.pop(queue, None)
            return False
        resume = (decision.revision, self._context.store.selection_changes.get(queue, 0))
        if decision.restricted:
            members = [one for one in members if self._context.store.selects(queue, one.namespace)]
        if self._nudged.get(queue) == resume or not any(map(without_room, members)):
            return False
        if not may_wake():
            return True
        receive = partial(self._receive, queue)
        if not self._context.submit(
            self._context.writers, ("nudge", ""), self._make_room, receive, rank=(3,)
        ):
            return True
        self._nudged[queue] = resume
        return False

    def retry_all(self) -> None:
        """Have pods without room tried again, of whichever queue."""
        self._context.writers.submit(("nudge", ""), self._make_room, rank=(3,))

    def _receive(self, queue: str, made: bool | None) -> None:
        """`made`: None if that failed; the queue is considered again then."""
        if made is None:
            self._nudged.pop(queue, None)
            self._context.work_queue.add_after(queue, RETRY_SECONDS, members=True)

    def _make_room(self) -> bool:
        name = f"{PREFIX}{secrets.token_hex(4)}"
        self._context.client.create(self._path, idle_pod(name, nodeName=NO_NODE))
        self._context.client.delete(f"{self._path}/{name}", {"gracePeriodSeconds": 0})
        return True


def without_room(member: Member) -> bool:
    """Whether it waits, and for a reason that is not ours."""
    return member.bindable and bool(member.condition) and not refused_by_us(member)
