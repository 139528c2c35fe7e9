"""What the drains of some queues are about: pods, what made them, budgets and gangs, with the user's rights.

Promises
- What is read grows with these queues: their pods (`pod_lists`), the owners that these name (`owner_lists`),
  the budgets of their namespaces, and the pods that a budget counts which is short. Nothing is written.
- A kind that may not be read is left out, and a warning says so (`kind_lists`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property

from msgspec.structs import replace

from kubectl_queue.access.client import ApiClient
from kubectl_queue.drain.kind_lists import KindLists
from kubectl_queue.drain.owner_lists import read_owners
from kubectl_queue.drain.pod_lists import UNFINISHED, PodLists
from kubectl_queue.objects.drains import Drain, all_drains, drains_of, pods_to_go
from kubectl_queue.objects.fields import Object, value_at
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.objects.running_pods import (
    GangPod,
    Inventory,
    OwnedPod,
    gang_key_of,
    gang_minimum,
    gang_pod,
    is_leaving,
    is_on_node,
    owned_pod,
    read_budgets,
)
from kubectl_queue.objects.types import PODGROUP, Type
from kubectl_queue.objects.workloads import ReadWorkload
from queues.drain.broken_gangs import GangMinimum
from queues.drain.disruption_budgets import Budget, BudgetIndex, BudgetKey, short_budgets
from queues.drain.model import keep_rule

BUDGET = Type("PodDisruptionBudget", "poddisruptionbudgets", "policy", "v1")
#: As `controller.evictions.budget_reader`: the most pods read to count those that a drain leaves, and the
#: characters of a selector that fit in a request.
_MAX_COUNTED, _MAX_SELECTOR = 2000, 4000


class InventoryReader:
    """For one command. `namespace`: the one to read where the user may not read all."""

    def __init__(
        self, client: ApiClient, *, namespace: Callable[[], str], warn: Callable[[str], None]
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._warn = warn

    def read(self, queues: QueueObjects, *, names: Iterable[str]) -> Inventory:
        """What the drains of these queues, and of those below them, are about. `queues`: as they will be.

        Raises ForbiddenError where no pods may be read.
        """
        reading = self._reading(queues, names)
        inventory = reading.pods_and_gangs()
        inventory = inventory._replace(owners=reading.owners(inventory.pods))
        return inventory._replace(budgets=reading.budgets(inventory))

    def read_pods(self, queues: QueueObjects, *, names: Iterable[str]) -> Inventory:
        """Only the pods, and the gangs. Raises ForbiddenError where none may be read."""
        return self._reading(queues, names).pods_and_gangs()

    def _reading(self, queues: QueueObjects, names: Iterable[str]) -> _Reading:
        pods = PodLists(self._client, queues=queues.items, namespace=self._namespace, warn=self._warn)
        lists = KindLists(self._client, only=lambda: pods.only, warn=self._warn)
        return _Reading(pods, lists, queues, drains_of(queues, names))


class _Reading:
    """One reading, for these drains."""

    def __init__(self, pods: PodLists, lists: KindLists, queues: QueueObjects, drains: list[Drain]) -> None:
        self._pods = pods
        self._lists = lists
        self._queues = queues
        self._drains = drains

    def pods_and_gangs(self) -> Inventory:
        covered = frozenset(name for drain in self._drains for name in drain.queues)
        pods = tuple(owned_pod(pod, queue=queue) for pod, queue in self._pods.on_nodes(covered))
        if not any(drain.spec.evict_broken_gangs for drain in self._drains):
            return Inventory(pods)
        minimums = self._minimums(pods)
        return Inventory(pods, minimums=minimums, gang_pods=self._gang_pods(minimums))

    def owners(self, pods: Iterable[OwnedPod]) -> dict[str, ReadWorkload]:
        return read_owners(pods, self._lists, self._pods.objects)

    def _minimums(self, pods: Iterable[OwnedPod]) -> dict[BudgetKey, GangMinimum]:
        keys = {(pod.namespace, pod.pod_group) for pod, _ in pods if pod.pod_group}
        found: dict[BudgetKey, GangMinimum] = {}
        for group in self._lists.items(PODGROUP, namespaces={namespace for namespace, _ in keys}):
            key = str(value_at(group, "metadata.namespace")), str(value_at(group, "metadata.name"))
            minimum = gang_minimum(group) if key in keys else None
            if minimum is not None:
                found[key] = minimum
        return found

    def _gang_pods(self, minimums: Iterable[BudgetKey]) -> dict[BudgetKey, tuple[GangPod, ...]]:
        """All pods of these gangs, of whatever queue: only in the namespaces of these gangs."""
        found: dict[BudgetKey, tuple[GangPod, ...]] = dict.fromkeys(minimums, ())
        for namespace in sorted({namespace for namespace, _ in found}):
            for pod in self._pods.in_namespace(namespace, {"fieldSelector": "status.phase!=Failed"}):
                key, counted = gang_key_of(pod), gang_pod(pod)
                if key in found and counted is not None and self._pods.queue_of(pod):
                    found[key] = (*found[key], counted)
        return found

    def budgets(self, inventory: Inventory) -> BudgetIndex:
        """Those of the namespaces of the pods, with the pods outside where too few are allowed to go."""
        namespaces = {pod.namespace for pod, _ in inventory.pods}
        read = list(read_budgets(self._lists.items(BUDGET, namespaces=namespaces)))
        index = BudgetIndex(read)
        to_go = list(pods_to_go(self._drains, inventory, self._queues))
        short = short_budgets(index, ((pod.namespace, pod.labels) for pod in to_go))
        going = frozenset(pod.uid for pod in to_go)
        outside = {budget.key: self._outside(budget, going) for budget in short}
        return BudgetIndex(replace(budget, outside=outside.get(budget.key)) for budget in read)

    def _outside(self, budget: Budget, going: frozenset[str]) -> int | None:
        """The selected pods that no drain takes, and that are ready or may become so; None for too many."""
        if budget.selector is None or not budget.desired:
            return 0
        if len(str(budget.selector)) > _MAX_SELECTOR:
            return None
        query = {"labelSelector": str(budget.selector), "fieldSelector": UNFINISHED}
        number = 0
        for place, pod in enumerate(self._pods.in_namespace(budget.namespace, query)):
            if place >= _MAX_COUNTED:
                return None
            if not is_leaving(pod) and self._stays(pod, going):
                number += 1
            if number >= budget.desired:
                break
        return number

    def _stays(self, pod: Object, going: frozenset[str]) -> bool:
        """One that waits for a queue that drains is never ready before that ends."""
        drain = self._drain_by_queue.get(self._pods.queue_of(pod))
        if drain is None:
            return True
        read = owned_pod(pod, queue="").pod
        if not is_on_node(pod) or read.uid in going:
            return False
        return drain in self._drains or keep_rule(read, drain.spec) is not None

    @cached_property
    def _drain_by_queue(self) -> dict[str, Drain]:
        """Of all drains: none of them leaves the pods of its queues."""
        return {name: drain for drain in all_drains(self._queues) for name in drain.queues}
