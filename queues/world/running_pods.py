"""Members as a drain takes them (`queues.drain`), and what their gangs need.

Which of a pod's owners goes in its place is said in `queues.drain.owners`; which pods stay, in
`queues.drain.model`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from queues.drain.broken_gangs import GangMinimum, counts_beside
from queues.drain.disruption_budgets import BudgetKey
from queues.drain.model import RunningPod, SuspendableWorkload, Termination, gang_key
from queues.drain.terminating_pods import requested_at
from queues.quota.gangs import Gang
from queues.world.members import Member


class Gangs(Protocol):
    """What PodGroups ask for, and the members that name them."""

    def gang(self, namespace: str, name: str) -> Gang | None:
        """Return what the PodGroup asks for; None if its pods go by themselves, or it does not exist."""

    def in_podgroup(self, namespace: str, name: str) -> Iterable[Member]:
        """Return the members that name the PodGroup."""


def is_running(member: Member) -> bool:
    """Return whether a drain is about it: it is on a node and has not finished."""
    return bool(member.node) and member.live


def running_pod(
    member: Member, *, workload: SuspendableWorkload | None, is_daemon: bool, is_going: bool = False
) -> RunningPod:
    """`workload`: what goes in its place. `is_going`: it counts as leaving, also where nothing deletes it."""
    return RunningPod(
        uid=member.uid,
        namespace=member.namespace,
        name=member.name,
        queue=member.queue,
        labels=member.labels,
        created=member.created,
        priority=member.priority,
        pod_group=member.podgroup,
        task=member.task,
        workload=workload,
        bare=not member.owner_uid,
        daemon=is_daemon,
        ready=member.ready,
        running=member.phase == "Running",
        leaving=member.leaving or is_going,
        grace_period=member.own_grace,
        termination=termination_of(member),
    )


def termination_of(member: Member) -> Termination | None:
    """Return the deletion of the pod; None where it is not being deleted."""
    if member.leaves_at is None:
        return None
    return Termination(
        requested_at=requested_at(member.leaves_at, grace=member.deletion_grace),
        grace=member.deletion_grace,
        node=member.node,
        finalizers=member.finalizers,
    )


def gang_minimums(pods: Collection[RunningPod], gangs: Gangs) -> dict[BudgetKey, GangMinimum]:
    """Return what the gangs of these pods of one drain need; nothing of those whose pods go by themselves."""
    covered, minimums = {pod.uid for pod in pods}, dict[BudgetKey, GangMinimum]()
    for key in dict.fromkeys(gang_key(pod) for pod in pods if pod.pod_group):
        gang = gangs.gang(*key)
        if gang is not None and gang.least > 1:
            beside = (each for each in gangs.in_podgroup(*key) if each.uid not in covered)
            tasks = tuple(
                each.task
                for each in beside
                if counts_beside(each.phase, on_node=bool(each.node), leaving=each.leaving)
            )
            minimums[key] = GangMinimum(least=gang.least, tasks=gang.tasks, beside=tasks)
    return minimums
