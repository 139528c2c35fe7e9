"""Clears `nominatedNodeName` of pods that may not start, so that kube-scheduler gives the room to others.

kube-scheduler nominates a pod to a node when it has evicted others for it. Until the pod is bound, no pod of
lower priority gets that room. Once something keeps the gate of such pods (`queues.start_decision`), the pod
may never be bound.

(An Inqueue PodGroup, Volcano's reservation, goes back to Pending: `queues.status.podgroup_phases`.)
"""

from __future__ import annotations

from collections.abc import Iterable

from cluster.cache.members import Member
from cluster.write_ranks import WriteRank
from controller.context import (
    ControllerContext,
    each_member,
    pod_path,
    pod_subject,
)


def holds_reservation(member: Member) -> bool:
    return bool(member.nominated) and member.waiting and not member.leaving


class Nominations:
    """Owner: the controller's thread; the writes run in the writers' threads."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def cancel(self, queue: str, members: Iterable[Member]) -> None:
        """Clear the nominations of those of these members that may not start."""
        nominated = [member for member in members if holds_reservation(member) and self._is_kept(member)]
        each_member(self._context, "nomination", nominated, self._cancel, queue=queue)

    def _is_kept(self, member: Member) -> bool:
        return self._context.store.decisions.of_member(member).keeps_gate

    def _cancel(self, member: Member) -> None:
        body = {"metadata": {"uid": member.uid}, "status": {"nominatedNodeName": None}}

        def write() -> object:
            if not self._is_kept(member):
                return None
            return self._context.client.patch(f"{pod_path(member)}/status", body)

        self._context.writers.submit(
            ("nomination", member.uid),
            write,
            rank=WriteRank.RELEASE,
            order=(-member.priority,),
            subject=pod_subject(member),
        )
