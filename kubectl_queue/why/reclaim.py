"""Reads what `queues.quota.reclaim_preview` needs: all pods of queues, their gangs, and their budgets.

Promises
- What of a gang runs, and which pods are no victims, is what the leader reads, too
  (`controller.quota.give_backs`); but for what it remembers.
- For whom others go is what the leader has in line, but for pods without a gate of ours: it asks for none.

What counts, as in a look of the leader, and where it is read

| reason        | counts | is read                                                                  |
|---------------|--------|--------------------------------------------------------------------------|
| USED          | yes    | from the pods, and not from `status.quota.used`, which has KEPT in it    |
| KEPT          | yes    | from `status.quota.keptForGangs`: no pod uses it                         |
| UNGATED       | yes    | from `status.quota.ungated`: its pods are neither in USED, nor requested |
| FORCE_DELETED | no     | the leader counts it as gone, as what is being deleted, for 5 minutes    |
| SET_ASIDE     | no     | the leader leaves it out in its looks                                    |
| RELEASING     | no     | its pods still wait, as far as is seen here                              |

Left out: what of FORCE_DELETED the leader counts after these minutes, of pods with a longer grace period;
RELEASING of other queues; claims of devices. A gang for which `minResources` were kept before its pods
existed asks for all of it once more here, until its pods are released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import NamedTuple

from kubectl_queue.access.client import ApiClient
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import (
    Object,
    annotations_of,
    controller_of,
    labels_of,
    name_of,
    spec_of,
    status_of,
    value_at,
)
from kubectl_queue.objects.inventory import read_budgets
from kubectl_queue.objects.members import member_of
from kubectl_queue.objects.quotas import QuotaUse, part_alone
from kubectl_queue.why.line import group_of, read_claimants
from kubectl_queue.why.podgroups import ReadPodGroup, ReadPodGroups, read_podgroups
from kubectl_queue.why.room import has_left_its_room, waiting_pod, waits_for_room
from queues import well_known
from queues.apimachinery.quantities import Amount, BadQuantity, add_amounts, parse_quantity
from queues.drain.disruption_budgets import Budget, BudgetIndex
from queues.drain.terminating_pods import GRACE_LIMIT, counts_as_in_flight
from queues.membership import TASK, label_value
from queues.policies.preemptable import preemptable_in
from queues.policies.victims import is_critical
from queues.queue import ROOT
from queues.quota.gangs import Gang, task_of
from queues.quota.giving_back import Borrowed
from queues.quota.kept_by import KeptBy
from queues.quota.ledger import ALL_PODS, AmountReason, Ledger
from queues.quota.pod_classes import WaitingPod
from queues.quota.rules import NO_RULES, Rules
from queues.quota.shares import Shares
from queues.quota.started_gangs import StartedGang, started_gang
from queues.tree import Tree
from queues.world.pod_rules import is_gated
from queues.world.running_pods import termination_of

_UNFINISHED, _SUCCEEDED = "status.phase!=Succeeded,status.phase!=Failed", "status.phase=Succeeded"
#: Those that have failed name the Jobs of a gang, too.
_FINISHED = "status.phase!=Pending,status.phase!=Running,status.phase!=Unknown"
#: What makes pods that would come back on their nodes, whatever a queue says.
_OF_NODES = frozenset({"DaemonSet", "Node"})
#: What counts and is read from the statuses of queues.
_OF_STATUS: Mapping[AmountReason, Callable[[QuotaUse], Mapping[str, Amount]]] = {
    AmountReason.KEPT: lambda use: use.kept_for_gangs,
    AmountReason.UNGATED: lambda use: use.beside.get("ungated", {}),
}


class ReadPods(NamedTuple):
    """`ledger`: what counts; without what is being deleted, while a drain waits for it by the server's
    default limit. `waiting`: for whom others would go in the queue that is asked about, pods and minimums of
    gangs. `names`: of pods and PodGroups, by UID. `gangs`: what runs of each, by the UID of its PodGroup.
    `requested`: by queue, what the pods that wait with a gate of ours request.
    """

    ledger: Ledger
    waiting: Sequence[WaitingPod]
    running: Sequence[Borrowed]
    names: Mapping[str, str]
    gangs: Mapping[str, StartedGang]
    requested: Mapping[str, Mapping[str, Amount]]


def read_budgets_of_all(client: ApiClient, *, warn: Callable[[str], None]) -> tuple[Budget, ...]:
    try:
        listed = client.list("/apis/policy/v1/poddisruptionbudgets", query={}, kind="poddisruptionbudgets")
    except ForbiddenError:
        warn("you may not list PodDisruptionBudgets in all namespaces: those that they keep are shown, too")
        return ()
    return tuple(read_budgets(listed.items))


def read_nodes(client: ApiClient, *, warn: Callable[[str], None]) -> Mapping[str, Amount] | None:
    """What all nodes have together, as the leader counts it; None where they may not be listed."""
    try:
        listed = client.list("/api/v1/nodes", query={}, kind="nodes").items
    except ForbiddenError:
        warn("you may not list nodes: queues share by weight what is used and asked for")
        return None
    totals: dict[str, Amount] = {}
    for node in listed:
        for resource, quantity in (value_at(node, "status.allocatable") or {}).items():
            with suppress(BadQuantity):
                totals[resource] = totals.get(resource, 0) + max(0, parse_quantity(quantity))
    return totals


def deserved_of(pods: ReadPods, tree: Tree) -> Callable[[str], Mapping[str, Amount]]:
    """What each queue deserves, by its spec or by weight."""
    whole: dict[str, Amount] = dict(pods.ledger.usage.used(ROOT))
    for amounts in pods.requested.values():
        add_amounts(whole, amounts.items())
    whole |= pods.ledger.usage.whole
    return Shares(tree, pods.ledger.usage, whole=whole, waiting=lambda: pods.requested).deserved


def read_pods(
    client: ApiClient,
    tree: Tree,
    budgets: BudgetIndex,
    *,
    asking: str,
    now: datetime,
    warn: Callable[[str], None],
    rules: Rules = NO_RULES,
    queues: Mapping[str, Object] | None = None,
) -> ReadPods:
    """`asking`: the queue whose pods wait. `rules`: what quotas go by beside the specs of queues. `queues`:
    the Queue objects, by name. Raises ForbiddenError where the pods of all namespaces may not be listed.
    """
    groups = _read_groups(client, warn=warn)
    used: dict[str, dict[str, Amount]] = {}
    names: dict[str, str] = {}
    of_asking: list[Object] = []
    running: list[Borrowed] = []
    gangs, requested = _Gangs(groups), dict[str, dict[str, Amount]]()
    for pod in _each(client, _UNFINISHED, selector=well_known.QUEUE):
        queue = labels_of(pod).get(well_known.QUEUE, "")
        if queue == asking:
            of_asking.append(pod)
        is_deleted, has_node = (
            bool(value_at(pod, "metadata.deletionTimestamp")),
            bool(spec_of(pod).get("nodeName")),
        )
        if (is_deleted and (not has_node or _is_going(pod, now))) or has_left_its_room(pod):
            continue
        if is_deleted:  # it uses what it does, and is no victim
            if queue in tree:
                add_amounts(used.setdefault(queue, {}), waiting_pod(pod, queue).requests)
            continue
        waits = waits_for_room(pod)
        if not waits:
            gangs.runs(pod)
        if queue not in tree:
            continue
        namespace = str(value_at(pod, "metadata.namespace") or "")
        counted = waiting_pod(pod, queue)
        names[counted.uid] = f"{namespace}/{name_of(pod)}"
        if waits:
            is_requested = is_gated(member_of(pod, queue=queue))
            add_amounts(requested.setdefault(queue, {}), counted.requests if is_requested else ())
            continue
        add_amounts(used.setdefault(queue, {}), counted.requests)
        running.append(_borrowed(pod, counted, namespace, budgets, gangs))
    if gangs.running:
        for pod in _each(client, _SUCCEEDED, selector=well_known.QUEUE):
            gangs.has_ended(pod)
    claimants = read_claimants(
        client,
        of_asking,
        asking,
        groups,
        tree=tree,
        now=now,
        others=lambda: list(_each(client, _FINISHED, selector=f"{well_known.QUEUE}={label_value(asking)}")),
    )
    if claimants.lacks_jobs:
        warn("you may not read Jobs: gangs of which pods have completed and are gone may be missing here")
    ledger = ledger_of(used, queues or {}, tree=tree, rules=rules)
    return ReadPods(ledger, claimants.pods, running, {**names, **claimants.names}, gangs.started(), requested)


def _read_groups(client: ApiClient, *, warn: Callable[[str], None]) -> ReadPodGroups:
    groups = read_podgroups(client)
    if groups.groups is None:
        warn("you may not list PodGroups in all namespaces: pods of gangs go by themselves here")
    elif groups.unread:
        warn(f"you may not list {groups.unread} in all namespaces: pods of gangs go by their own priorities")
    return groups


def ledger_of(
    used: Mapping[str, Mapping[str, Amount]],
    queues: Mapping[str, Object],
    *,
    tree: Tree,
    rules: Rules = NO_RULES,
) -> Ledger:
    """`used`: by queue, without those below it. `queues`: the Queue objects, by name."""
    ledger = Ledger(tree, rules=rules)
    for queue, amounts in used.items():
        ledger.set_all(queue, AmountReason.USED, {ALL_PODS: amounts.items()})
    for reason, part in _OF_STATUS.items():
        for queue in tree:
            amounts = part_alone(queue, queues, tree, part)
            ledger.set_all(queue, reason, {ALL_PODS: amounts.items()})
    return ledger


def _is_going(pod: Object, now: datetime) -> bool:
    """Whether a drain would still wait for what is being deleted."""
    termination = termination_of(member_of(pod, queue=""))
    return termination is None or counts_as_in_flight(termination, now=now, longest=GRACE_LIMIT)


class _Gangs:
    """The gangs of which something runs."""

    def __init__(self, groups: ReadPodGroups) -> None:
        self._groups = groups.groups or {}
        #: By the UID of the PodGroup: the task of each pod that runs, by UID, and of each that has succeeded.
        self.running: dict[str, dict[str, str]] = {}
        self._ended: dict[str, list[str]] = {}
        self._found: dict[str, Gang] = {}

    def group(self, pod: Object) -> ReadPodGroup | None:
        return self._groups.get(group_of(pod))

    def gang(self, pod: Object) -> Gang | None:
        """None where it goes by itself."""
        group = self.group(pod)
        return group.gang if group is not None and not group.gang.is_single else None

    def runs(self, pod: Object) -> None:
        gang = self.gang(pod)
        if gang is not None:
            self._found[gang.uid] = gang
            self.running.setdefault(gang.uid, {})[str(value_at(pod, "metadata.uid") or "")] = _task(pod)

    def has_ended(self, pod: Object) -> None:
        gang = self.gang(pod) if status_of(pod).get("phase") == "Succeeded" else None
        if gang is not None:
            self._ended.setdefault(gang.uid, []).append(_task(pod))

    def started(self) -> dict[str, StartedGang]:
        return {
            uid: started_gang(self._found[uid], running=running, ended=self._ended.get(uid, ()))
            for uid, running in self.running.items()
        }


def _task(pod: Object) -> str:
    return task_of(annotations_of(pod).get(TASK) or "", labels_of(pod).get(TASK) or "")


def _each(client: ApiClient, phases: str, *, selector: str) -> Iterator[Object]:
    """Page by page: of all pods only what counts is kept."""
    query = {"labelSelector": selector, "fieldSelector": phases}
    for page in client.pages("/api/v1/pods", query=query, kind="pods"):
        yield from page.items


def _borrowed(
    pod: Object, counted: WaitingPod, namespace: str, budgets: BudgetIndex, gangs: _Gangs
) -> Borrowed:
    is_placed = bool(spec_of(pod).get("nodeName"))
    selecting = budgets.selecting(namespace, labels_of(pod)) if is_placed else ()
    gang = gangs.gang(pod)
    of_gang = gang.priority if gang is not None else None
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
        gang=gang.uid if gang is not None else "",
        kept=_kept_by(pod, gangs, budgets=len(selecting)),
    )


def _kept_by(pod: Object, gangs: _Gangs, *, budgets: int) -> KeptBy | None:
    """`budgets`: how many select the pod."""
    group = gangs.group(pod)
    said = preemptable_in(annotations_of(pod), labels_of(pod))
    if said is None and group is not None:
        said = group.preemptable
    if said is False:
        return KeptBy.NOT_PREEMPTABLE
    if controller_of(pod).get("kind") in _OF_NODES:
        return KeptBy.DAEMON
    return KeptBy.BUDGET if budgets > 1 else None  # the API server evicts no pod that two of them select
