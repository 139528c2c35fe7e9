"""Reads what `queues.quota.reclaim_preview` needs: all pods of queues, and their disruption budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kubectl_queue.access.client import ApiClient
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import Object, controller_of, labels_of, name_of, spec_of, value_at
from kubectl_queue.objects.running_pods import read_budgets
from kubectl_queue.why.room import waiting_pod, waits_for_room
from queues import well_known
from queues.drain.disruption_budgets import Budget, BudgetIndex
from queues.policies.victims import is_critical
from queues.quota.giving_back import Borrowed
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import Usage
from queues.tree import Tree

_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"
#: What makes pods that would come back on their nodes, whatever a queue says.
_OF_NODES = frozenset({"DaemonSet", "Node"})


class ReadPods(NamedTuple):
    """`usage`: of those that count, but for what is being deleted. `names`: NAMESPACE/NAME by UID."""

    usage: Usage
    waiting: Mapping[str, Sequence[WaitingPod]]
    running: Sequence[Borrowed]
    names: Mapping[str, str]


def read_budgets_of_all(client: ApiClient, *, warn: Callable[[str], None]) -> tuple[Budget, ...]:
    try:
        listed = client.list("/apis/policy/v1/poddisruptionbudgets", query={}, kind="poddisruptionbudgets")
    except ForbiddenError:
        warn("you may not list PodDisruptionBudgets in all namespaces: those that they keep are shown, too")
        return ()
    return tuple(read_budgets(listed.items))


def read_pods(client: ApiClient, tree: Tree, budgets: BudgetIndex) -> ReadPods:
    """Raises ForbiddenError where the pods of all namespaces may not be listed."""
    query = {"labelSelector": well_known.QUEUE, "fieldSelector": _UNFINISHED}
    usage, names = Usage(tree), dict[str, str]()
    waiting: dict[str, list[WaitingPod]] = {}
    running: list[Borrowed] = []
    for pod in client.list("/api/v1/pods", query=query, kind="pods").items:
        queue = labels_of(pod).get(well_known.QUEUE, "")
        if queue not in tree or value_at(pod, "metadata.deletionTimestamp"):
            continue
        namespace = str(value_at(pod, "metadata.namespace") or "")
        as_waiting = waiting_pod(pod, queue)
        names[as_waiting.uid] = f"{namespace}/{name_of(pod)}"
        if waits_for_room(pod):
            waiting.setdefault(queue, []).append(as_waiting)
            continue
        usage.add(queue, as_waiting.requests)
        if controller_of(pod).get("kind") not in _OF_NODES:
            running.append(_borrowed(pod, as_waiting, namespace, budgets))
    return ReadPods(usage, waiting, running, names)


def _borrowed(pod: Object, counted: WaitingPod, namespace: str, budgets: BudgetIndex) -> Borrowed:
    is_placed = bool(spec_of(pod).get("nodeName"))
    selecting = budgets.selecting(namespace, labels_of(pod)) if is_placed else ()
    return Borrowed(
        uid=counted.uid,
        queue=counted.queue,
        requests=counted.requests,
        priority=counted.priority,
        since=counted.since,
        is_placed=is_placed,
        is_critical=is_critical(
            namespace, str(spec_of(pod).get("priorityClassName") or ""), counted.priority
        ),
        budgets=tuple(f"{each.namespace}/{each.name}" for each in selecting),
    )
