"""PodDisruptionBudgets as the API server has them now, and the pods that they count.

Nothing of them is kept: only a drain asks, and what it is told has to be fresh. Every function does I/O and
raises `cluster.exceptions.ClusterError`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import msgspec

from cluster.client import Client
from cluster.listing import listed
from cluster.objects import Pod
from queues.budgets import Budget, BudgetObject, budget_of
from queues.selectors import BadSelector

BUDGETS = "/apis/policy/v1/poddisruptionbudgets"
FINISHED = frozenset({"Succeeded", "Failed"})

log = logging.getLogger(__name__)

_budget = msgspec.json.Decoder(BudgetObject)
_pod = msgspec.json.Decoder(Pod)


def budgets(client: Client, *, namespace: str = "") -> list[Budget]:
    """Those of one namespace, or of all. One whose selector cannot be read is left to the API server."""
    path = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets" if namespace else BUDGETS
    found = []
    for raw in listed(client, path):
        try:
            found.append(budget_of(_budget.decode(raw)))
        except (BadSelector, msgspec.DecodeError) as exc:
            log.warning("a PodDisruptionBudget cannot be read: %s", exc)
    return found


def pods(client: Client, *, namespace: str = "", selector: str = "") -> list[Pod]:
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    found = []
    for raw in listed(client, path, selector=selector):
        try:
            found.append(_pod.decode(raw))
        except msgspec.DecodeError as exc:
            log.warning("a pod cannot be read: %s", exc)
    return found


def selected(client: Client, budget: Budget) -> list[Pod]:
    """The pods that it selects and that have not finished."""
    if budget.selector is None:
        return []
    found = pods(client, namespace=budget.namespace, selector=str(budget.selector))
    return [pod for pod in found if pod.status.phase not in FINISHED]


def looked_at(client: Client, budget: Budget, *, stays: Callable[[Pod], bool]) -> Budget:
    """With the number of the pods that it selects and that no drain takes (`stays`)."""
    outside = sum(1 for pod in selected(client, budget) if not is_leaving(pod) and stays(pod))
    return msgspec.structs.replace(budget, outside=outside)


def up_to_date(budget: Budget, found: Iterable[Pod]) -> bool:
    """Whether its status counts as healthy just those who are: nobody has gone since it was worked out."""
    healthy = sum(1 for pod in found if is_ready(pod) and not is_leaving(pod))
    return budget.current and healthy == budget.healthy


def is_leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def is_ready(pod: Pod) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or ())
