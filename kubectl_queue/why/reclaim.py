"""Reads what `queues.quota.reclaim_preview` needs: all pods of queues, and their disruption budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from kubectl_queue.access.client import ApiClient
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import Object, controller_of, labels_of, name_of, spec_of, value_at
from kubectl_queue.objects.running_pods import read_budgets
from kubectl_queue.why.line import group_of, stand_in_line
from kubectl_queue.why.podgroups import ReadPodGroups, read_podgroups
from kubectl_queue.why.room import waiting_pod, waits_for_room
from queues import well_known
from queues.drain.disruption_budgets import Budget, BudgetIndex
from queues.membership import label_value
from queues.policies.victims import is_critical
from queues.quota.giving_back import Borrowed
from queues.quota.pod_classes import WaitingPod
from queues.quota.usage import Usage
from queues.tree import Tree

_UNFINISHED, _SUCCEEDED = "status.phase!=Succeeded,status.phase!=Failed", "status.phase=Succeeded"
#: What makes pods that would come back on their nodes, whatever a queue says.
_OF_NODES = frozenset({"DaemonSet", "Node"})


class ReadPods(NamedTuple):
    """`usage`: of those that count, but for what is being deleted. `waiting`: who stands in line in the queue
    that is asked about, pods and minimums of gangs. `names`: of pods and PodGroups, by UID.
    """

    usage: Usage
    waiting: Sequence[WaitingPod]
    running: Sequence[Borrowed]
    names: Mapping[str, str]


def read_budgets_of_all(client: ApiClient, *, warn: Callable[[str], None]) -> tuple[Budget, ...]:
    try:
        listed = client.list("/apis/policy/v1/poddisruptionbudgets", query={}, kind="poddisruptionbudgets")
    except ForbiddenError:
        warn("you may not list PodDisruptionBudgets in all namespaces: those that they keep are shown, too")
        return ()
    return tuple(read_budgets(listed.items))


def read_pods(
    client: ApiClient, tree: Tree, budgets: BudgetIndex, *, asking: str, warn: Callable[[str], None]
) -> ReadPods:
    """`asking`: the queue whose pods wait. Raises ForbiddenError where the pods of all namespaces may not be
    listed.
    """
    groups = read_podgroups(client)
    if groups.unread:
        warn(f"you may not list {groups.unread} in all namespaces: pods of gangs go by their own priorities")
    usage, names = Usage(tree), dict[str, str]()
    of_asking: list[Object] = []
    running: list[Borrowed] = []
    for pod in _list(client, _UNFINISHED, selector=well_known.QUEUE):
        queue = labels_of(pod).get(well_known.QUEUE, "")
        if queue == asking:
            of_asking.append(pod)
        if queue not in tree or value_at(pod, "metadata.deletionTimestamp"):
            continue
        namespace = str(value_at(pod, "metadata.namespace") or "")
        counted = waiting_pod(pod, queue)
        names[counted.uid] = f"{namespace}/{name_of(pod)}"
        if waits_for_room(pod):
            continue
        usage.add(queue, counted.requests)
        if controller_of(pod).get("kind") not in _OF_NODES:
            running.append(_borrowed(pod, counted, namespace, budgets, groups))
    waiting, of_line = stand_in_line(
        of_asking,
        asking,
        groups,
        tree=tree,
        others=lambda: _list(client, _SUCCEEDED, selector=f"{well_known.QUEUE}={label_value(asking)}"),
    )
    return ReadPods(usage, waiting, running, names | of_line)


def _list(client: ApiClient, phases: str, *, selector: str) -> Sequence[Object]:
    query = {"labelSelector": selector, "fieldSelector": phases}
    return client.list("/api/v1/pods", query=query, kind="pods").items


def _borrowed(
    pod: Object, counted: WaitingPod, namespace: str, budgets: BudgetIndex, groups: ReadPodGroups
) -> Borrowed:
    is_placed = bool(spec_of(pod).get("nodeName"))
    selecting = budgets.selecting(namespace, labels_of(pod)) if is_placed else ()
    group = (groups.groups or {}).get(group_of(pod))
    of_gang = group.gang.priority if group is not None and not group.gang.is_single else None
    return Borrowed(
        uid=counted.uid,
        queue=counted.queue,
        requests=counted.requests,
        priority=counted.priority if of_gang is None else of_gang,
        since=counted.since,
        is_placed=is_placed,
        is_critical=is_critical(
            namespace, str(spec_of(pod).get("priorityClassName") or ""), counted.priority
        ),
        budgets=tuple(f"{each.namespace}/{each.name}" for each in selecting),
    )
