"""The drains of queues as they will be, and the pods of each, as the leader takes them. Pure.

A drain covers the queues that drain by the policy of one queue, and goes by the settings of that one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec.structs import replace

from kubectl_queue.objects.fields import spec_of
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.objects.running_pods import Inventory, OwnedPod
from queues.drain.broken_gangs import broken_gangs, stays
from queues.drain.disruption_budgets import BudgetKey
from queues.drain.model import DrainSpec, RunningPod, gang_key, parse_drain_spec
from queues.drain.owners import DrainOwners, suspendable_workload
from queues.windows.drains import drain_in_force


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
        unsuspendable=frozenset(uid for uid, each in inventory.owners.items() if not each.started),
        scales=drain.spec.scales(queues.now),
    )
    covered = (each for each in inventory.pods if each.pod.queue in drain.queues)
    pods = sorted(
        (_with_owner(each, owners) for each in covered), key=lambda pod: (pod.namespace, pod.name, pod.uid)
    )
    return DrainedPods(pods, _broken_gangs(pods, inventory, drain.spec, queues))


def _with_owner(owned: OwnedPod, owners: DrainOwners) -> RunningPod:
    pod, uid = owned.pod, owned.owner.uid if owned.owner is not None else ""
    workload = owners.suspendable(uid, namespace=pod.namespace)
    return replace(
        pod,
        workload=suspendable_workload(workload) if workload is not None else None,
        daemon=owners.is_daemon(uid, namespace=pod.namespace),
    )


def _broken_gangs(
    pods: list[RunningPod], inventory: Inventory, spec: DrainSpec, queues: QueueObjects
) -> dict[BudgetKey, str]:
    covered, present = {pod.uid for pod in pods}, {gang_key(pod) for pod in pods}
    minimums = {
        key: replace(
            least,
            beside=tuple(each.task for each in inventory.gang_pods.get(key, ()) if each.uid not in covered),
        )
        for key, least in inventory.minimums.items()
        if key in present
    }
    return broken_gangs(pods, spec, minimums, now=queues.now)


def pods_to_go(drains: Iterable[Drain], inventory: Inventory, queues: QueueObjects) -> Iterator[RunningPod]:
    """The pods that do not stay by rule; those that leave already are among them."""
    for drain in drains:
        drained = drained_pods(drain, inventory, queues)
        yield from (pod for pod in drained.pods if stays(pod, drain.spec, drained.broken) is None)
