"""Reads the current PodDisruptionBudgets and the pods that they count.

Drains and giving back ask here. Nothing is cached here, since each needs another age: a drain counts what it
has evicted until it has read a budget after the answer (`controller.drain.request_states`), giving back drops
what it knows of a namespace with each eviction in it. Every function sends requests and raises
`cluster.exceptions.ClusterError`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import msgspec

from cluster.api.client import Client
from cluster.api.pages import list_objects
from cluster.objects import Pod
from queues.apimachinery.label_selectors import BadSelector
from queues.drain.disruption_budgets import (
    Budget,
    BudgetObject,
    parse_budget,
)

FINISHED = frozenset({"Succeeded", "Failed"})
#: The most pods read to count those that a drain does not evict.
MAX_PODS_COUNTED = 2000
#: Bytes of all budgets of one namespace.
MAX_BUDGET_BYTES = 8 << 20
#: Characters of a selector that fit in a request.
MAX_SELECTOR_CHARACTERS = 4000

log = logging.getLogger(__name__)

_budget = msgspec.json.Decoder(BudgetObject)
_pod = msgspec.json.Decoder(Pod)


class ListedBudgets(msgspec.Struct, frozen=True):
    """The budgets of one namespace; none if they are too many or too large to read (`excess` says so)."""

    budgets: tuple[Budget, ...]
    excess: str = ""


def list_budgets(client: Client, *, namespace: str, most: int) -> ListedBudgets:
    """List the budgets of a namespace, if they are at most `most` and at most `MAX_BUDGET_BYTES` together.

    A budget whose selector cannot be read is left to the API server.
    """
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
    read, size = [], 0
    for place, raw in enumerate(list_objects(client, path)):
        size += len(raw)
        if place >= most:
            return ListedBudgets((), f"namespace {namespace} has more than {most} PodDisruptionBudgets")
        if size > MAX_BUDGET_BYTES:
            return ListedBudgets(
                (), f"the PodDisruptionBudgets of namespace {namespace} are too large to be read"
            )
        try:
            read.append(parse_budget(_budget.decode(raw)))
        except (BadSelector, msgspec.DecodeError) as exc:
            log.warning("a PodDisruptionBudget cannot be read: %s", exc)
    return ListedBudgets(tuple(read))


def list_pods(client: Client, *, namespace: str = "", selector: str = "") -> list[Pod]:
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    pods = []
    for raw in list_objects(client, path, selector=selector):
        try:
            pods.append(_pod.decode(raw))
        except msgspec.DecodeError as exc:
            log.warning("a pod cannot be read: %s", exc)
    return pods


def list_selected_pods(client: Client, budget: Budget) -> list[Pod]:
    """List the pods that the budget selects and that have not finished."""
    if budget.selector is None:
        return []
    pods = list_pods(client, namespace=budget.namespace, selector=str(budget.selector))
    return [pod for pod in pods if pod.status.phase not in FINISHED]


def count_staying_pods(client: Client, budget: Budget, *, stays: Callable[[Pod], bool]) -> int | None:
    """Count the selected pods that no drain evicts (`stays`). Counting stops at the number that it desires.

    Returns None if more than `MAX_PODS_COUNTED` pods would have to be read, if a pod cannot be read, or if
    the selector is too long for a request.
    """
    selector = "" if budget.selector is None else str(budget.selector)
    if budget.selector is None or not budget.desired:
        return 0
    if len(selector) > MAX_SELECTOR_CHARACTERS:
        return None
    path, number = f"/api/v1/namespaces/{budget.namespace}/pods", 0
    for place, raw in enumerate(list_objects(client, path, selector=selector)):
        if place >= MAX_PODS_COUNTED:
            return None
        try:
            pod = _pod.decode(raw)
        except msgspec.DecodeError:
            return None
        if pod.status.phase not in FINISHED and not is_leaving(pod) and stays(pod):
            number += 1
        if number >= budget.desired:
            break
    return number


def is_up_to_date(budget: Budget, pods: Iterable[Pod]) -> bool:
    """Return whether the status counts exactly the healthy pods: none has gone since it was computed."""
    healthy = sum(1 for pod in pods if is_ready(pod) and not is_leaving(pod))
    return budget.current and healthy == budget.healthy


def is_leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def runs(pod: Pod) -> bool:
    """Return whether the pod is on a node, has not finished and is not being deleted."""
    return bool(pod.spec.node_name) and pod.status.phase not in FINISHED and not is_leaving(pod)


def is_ready(pod: Pod) -> bool:
    return any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions or ()
    )
