"""The pods of a gang as its rules take them (`queues.quota.gangs`): the state of each, and what it requests.

Invariant: pods of a Job that have succeeded count for the minimum as far as the Job makes no others for them,
also when they are gone.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from queues.quota.gangs import Gang, GangPod, PodState, own_pods
from queues.quota.pod_classes import WaitingPod
from queues.world.members import Member
from queues.world.pod_rules import PodRules
from queues.world.world import WorldWorkloads

_JOB = "jobs"


def gang_pods(
    gang: Gang,
    members: Collection[Member],
    *,
    rules: PodRules,
    workloads: WorldWorkloads,
    begun: Container[str] = (),
) -> list[GangPod]:
    """Return the pods that count for something. `members`: those that name its PodGroup. `begun`: the UIDs of
    those whose release was begun.
    """
    pods = [pod for each in members if (pod := _gang_pod(gang, each, rules, begun)) is not None]
    return pods + _done_before(gang, members, pods, workloads)


def _gang_pod(gang: Gang, member: Member, rules: PodRules, begun: Container[str]) -> GangPod | None:
    """None for one that counts for nothing, or whose queue is not known yet."""
    state = pod_state(member, rules, begun=begun) if member.queue else None
    if state is None:
        return None
    priority = member.priority if gang.priority is None else gang.priority
    requests = rules.requests(member)
    return GangPod(
        WaitingPod(member.uid, member.queue, requests, priority, member.created), state, member.task
    )


def pod_state(member: Member, rules: PodRules, *, begun: Container[str] = ()) -> PodState | None:
    """Return what becomes of a pod of a gang; None where it counts for nothing."""
    if not member.live:
        return PodState.SUCCEEDED if member.phase == "Succeeded" else None
    if member.node:
        return PodState.LEAVING if member.leaving else PodState.PLACED
    if member.leaving:
        return None
    if member.uid in begun:
        return PodState.RELEASED
    if not (member.gated or member.quota_gated):
        return PodState.HELD if rules.waits(member) else PodState.RELEASED
    may_go = rules.may_go(member) and not rules.is_postponed(member.uid)
    return PodState.WAITS if may_go else PodState.HELD


def _done_before(
    gang: Gang, members: Iterable[Member], pods: Collection[GangPod], workloads: WorldWorkloads
) -> list[GangPod]:
    """Pods of its Jobs that have succeeded and are gone, as far as no others come in their place."""
    owners = {each.owner_uid: each for each in members if each.queue == gang.queue and each.owner_uid}
    jobs = [job for uid in owners if (job := workloads.by_uid(uid)) is not None]
    if len(jobs) < len(owners) or not any(job.succeeded for job in jobs):
        return []
    left = 0
    for job in jobs:
        if job.kind.key != _JOB or job.completions is None:
            return []
        left += max(0, job.completions - job.succeeded)
    number = min(sum(job.succeeded for job in jobs), gang.least - left)
    number -= sum(pod.state is PodState.SUCCEEDED for pod in own_pods(gang, pods))
    tasks = {each.task for each in owners.values()}
    if gang.tasks and len(tasks) > 1:
        return []  # of which task they were is not known
    [task, *_] = tasks
    return [
        GangPod(WaitingPod(f"{gang.uid}/{at}", gang.queue, (), 0, gang.since), PodState.SUCCEEDED, task)
        for at in range(number)
    ]
