"""What a stopped queue had reserved is free for others.

A pod that kube-scheduler made room for is nominated to a node, and while it waits for its victims to go no
pod of lower priority is placed in that room. Once its queue is stopped it may never come: so its nomination
is taken off, and kube-scheduler gives the room to whoever fits.

(An Inqueue PodGroup, Volcano's reservation, goes back to Pending: `queues.status.podgroup_phases`.)
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.cache.members import Member
from controller.context import (
    ControllerContext,
    each_member,
    pod_path,
    pod_subject,
)


class Reservations:
    """Owner: the controller's thread; the writes run in the writers' threads."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def cancel(self, queue: str, members: Iterable[Member]) -> None:
        """Take off the nominations of these members if their queue does not schedule."""
        decision = self._context.store.snapshot.decision(queue)
        if decision.schedules and not decision.restricted:
            return
        nominated = [
            one
            for one in members
            if one.nominated and one.waiting and not one.leaving and not self._schedules(one)
        ]
        each_member(self._context, "nomination", nominated, self._cancel, queue=queue)

    def _schedules(self, member: Member) -> bool:
        return self._context.store.decision_for(member.queue, namespace=member.namespace).schedules

    def _cancel(self, member: Member) -> None:
        body = {"metadata": {"uid": member.uid}, "status": {"nominatedNodeName": None}}

        def write() -> object:
            if self._schedules(member):
                return None
            return self._context.client.patch(f"{pod_path(member)}/status", body)

        self._context.writers.submit(
            ("nomination", member.uid), write, rank=(1, -member.priority), subject=pod_subject(member)
        )
