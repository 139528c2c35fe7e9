"""The drains of queues as they will be, and the pods of each, as the leader takes them. Pure.

A drain covers the queues that drain by the policy of one queue, and goes by the settings of that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kubectl_queue.objects.fields import spec_of
from kubectl_queue.objects.inventory import Inventory
from kubectl_queue.objects.queues import QueueObjects
from queues.drain.broken_gangs import broken_gangs, stays
from queues.drain.disruption_budgets import BudgetKey
from queues.drain.model import DrainSpec, RunningPod, parse_drain_spec
from queues.drain.owners import DrainOwners, suspendable_workload
from queues.windows.drains import drain_in_force
from queues.world.members import Member
from queues.world.running_pods import gang_minimums, running_pod


class Drain(NamedTuple):
    """`by`: the queue with the policy. `queues`: those that drain by it, by name."""

    by: str
    queues: tuple[str, ...]
    spec: DrainSpec


class DrainedPods(NamedTuple):
    """`broken`: the gangs that go whole, with why."""

    pods: list[RunningPod]
    broken: dict[BudgetKey, str]


def drains_of(queues: QueueObjects, names: Iterable[str]) -> list[Drain]:
    """Those by which one of these queues or a queue below them drains, by name."""
    branches = {each for name in names for each in queues.tree.subtree(name)}
    return [drain for drain in all_drains(queues) if branches.intersection(drain.queues)]


def all_drains(queues: QueueObjects) -> Iterator[Drain]:
    for by, draining in sorted(queues.decisions.draining_queues().items()):
        if by in queues.items:
            yield Drain(by, tuple(sorted(draining)), _drain_spec(by, queues))


def _drain_spec(by: str, queues: QueueObjects) -> DrainSpec:
    spec, on = spec_of(queues.items[by]), queues.tree.queues[by].policy_window(queues.now)
    return parse_drain_spec(drain_in_force(spec.get("drain"), spec.get("windows"), on))


def drained_pods(drain: Drain, inventory: Inventory, queues: QueueObjects) -> DrainedPods:
    """The pods of one drain by name, with the workloads that go in their place."""
    owners = DrainOwners(
        by_uid=inventory.owners.get,
        queues=frozenset(drain.queues),
        unsuspendable=inventory.unsuspendable,
        scales=drain.spec.scales(queues.now),
    )
    covered = (each for each in inventory.pods if each.queue in drain.queues)
    pods = sorted(
        (_with_owner(each, owners) for each in covered), key=lambda pod: (pod.namespace, pod.name, pod.uid)
    )
    minimums = gang_minimums(pods, inventory) if drain.spec.evict_broken_gangs else {}
    return DrainedPods(pods, broken_gangs(pods, drain.spec, minimums, now=queues.now))


def _with_owner(member: Member, owners: DrainOwners) -> RunningPod:
    workload = owners.suspendable(member.owner_uid, namespace=member.namespace)
    return running_pod(
        member,
        workload=suspendable_workload(workload) if workload is not None else None,
        is_daemon=owners.is_daemon(member.owner_uid, namespace=member.namespace),
    )


def pods_to_go(drains: Iterable[Drain], inventory: Inventory, queues: QueueObjects) -> Iterator[RunningPod]:
    """The pods that do not stay by rule; those that leave already are among them."""
    for drain in drains:
        drained = drained_pods(drain, inventory, queues)
        yield from (pod for pod in drained.pods if stays(pod, drain.spec, drained.broken) is None)
