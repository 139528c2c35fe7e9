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
from kubectl_queue.drain.owner_lists import OwnedPods, read_owners
from kubectl_queue.drain.pod_lists import UNFINISHED, PodLists
from kubectl_queue.objects.drains import Drain, all_drains, drains_of, pods_to_go
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.inventory import Inventory, read_budgets
from kubectl_queue.objects.members import member_of
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.objects.types import PODGROUP, Type
from queues.drain.disruption_budgets import Budget, BudgetIndex, BudgetKey, short_budgets
from queues.drain.model import keep_rule
from queues.quota.gangs import Gang
from queues.world.members import Member, controller_reference
from queues.world.podgroups import gang_of_podgroup
from queues.world.reading import as_pod, as_podgroup
from queues.world.running_pods import running_pod

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
        inventory = reading.with_owners(reading.pods_and_gangs())
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
        #: The references to controllers, by their UID and the namespace of the pod, with its queue.
        self._owned: OwnedPods = {}

    def pods_and_gangs(self) -> Inventory:
        covered = frozenset(name for drain in self._drains for name in drain.queues)
        pods = tuple(self._running(pod, queue) for pod, queue in self._pods.on_nodes(covered))
        if not any(drain.spec.evict_broken_gangs for drain in self._drains):
            return Inventory(pods)
        gangs = self._gangs(pods)
        return Inventory(pods, gangs=gangs, gang_pods=self._gang_pods(gangs))

    def with_owners(self, inventory: Inventory) -> Inventory:
        owners, unsuspendable = read_owners(self._owned, self._lists, self._pods.objects)
        return inventory._replace(owners=owners, unsuspendable=unsuspendable)

    def _running(self, pod: Object, queue: str) -> Member:
        member, owner = (
            member_of(pod, queue=queue),
            controller_reference(as_pod(pod).metadata.owner_references),
        )
        if owner is not None and owner.uid:
            self._owned[owner.uid, member.namespace] = owner, queue
        return member

    def _gangs(self, pods: Iterable[Member]) -> dict[BudgetKey, Gang]:
        """Those whose pods do not go by themselves."""
        keys = {(pod.namespace, pod.podgroup) for pod in pods if pod.podgroup}
        found: dict[BudgetKey, Gang] = {}
        for item in self._lists.items(PODGROUP, namespaces={namespace for namespace, _ in keys}):
            group = as_podgroup(item)
            key, gang = (group.metadata.namespace, group.metadata.name), gang_of_podgroup(group)
            if key in keys and not gang.is_single:
                found[key] = gang
        return found

    def _gang_pods(self, gangs: Iterable[BudgetKey]) -> dict[BudgetKey, tuple[Member, ...]]:
        """All pods of these gangs, of whatever queue: only in the namespaces of these gangs."""
        found: dict[BudgetKey, tuple[Member, ...]] = dict.fromkeys(gangs, ())
        for namespace in sorted({namespace for namespace, _ in found}):
            for pod in self._pods.in_namespace(namespace, {"fieldSelector": "status.phase!=Failed"}):
                member = member_of(pod, queue="")
                key = member.namespace, member.podgroup
                if key in found and self._pods.queue_of(pod):
                    found[key] = (*found[key], member)
        return found

    def budgets(self, inventory: Inventory) -> BudgetIndex:
        """Those of the namespaces of the pods, with the pods outside where too few are allowed to go."""
        namespaces = {pod.namespace for pod in inventory.pods}
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
            if self._stays(pod, going):
                number += 1
            if number >= budget.desired:
                break
        return number

    def _stays(self, pod: Object, going: frozenset[str]) -> bool:
        """One that waits for a queue that drains is never ready before that ends."""
        member = member_of(pod, queue="")
        if member.leaving:
            return False
        drain = self._drain_by_queue.get(self._pods.queue_of(pod))
        if drain is None:
            return True
        if not member.node or member.uid in going:
            return False
        read = running_pod(member, workload=None, is_daemon=False)
        return drain in self._drains or keep_rule(read, drain.spec) is not None

    @cached_property
    def _drain_by_queue(self) -> dict[str, Drain]:
        """Of all drains: none of them leaves the pods of its queues."""
        return {name: drain for drain in all_drains(self._queues) for name in drain.queues}
