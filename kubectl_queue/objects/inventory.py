"""What was read of the queues of some drains: members, what made them, and the budgets over them.

Promises
- A pod and a workload are what they are to the leader (`queues.world`). Which owner goes in the place of its
  pods is decided by `queues.drain.owners`, for the queues of one drain.
- A `batch.volcano.sh` Job that no controller has seen does not: nothing would carry its suspension out.
- A budget that cannot be read is left out: the eviction API decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from kubectl_queue.objects.fields import Object
from queues.apimachinery.conversion import Converter
from queues.apimachinery.label_selectors import BadSelector
from queues.drain.disruption_budgets import Budget, BudgetIndex, BudgetKey, BudgetObject, parse_budget
from queues.quota.gangs import Gang
from queues.workload_kinds import Suspension
from queues.world.members import Member
from queues.world.workloads import Workload

_budget_object = Converter[BudgetObject](BudgetObject)


class Inventory(NamedTuple):
    """What was read of the queues of some drains, at one time. Implements `queues.world.running_pods.Gangs`.

    `pods`: those on nodes that have not finished. `owners`: workloads by UID; `unsuspendable`: UIDs of those
    that no controller suspends. `budgets`: with the pods outside, where too few are allowed to go. `gangs`,
    and the pods that name them: by namespace and name of the PodGroup.
    """

    pods: tuple[Member, ...]
    owners: Mapping[str, Workload] = MappingProxyType({})
    unsuspendable: frozenset[str] = frozenset()
    budgets: BudgetIndex = BudgetIndex(())
    gangs: Mapping[BudgetKey, Gang] = MappingProxyType({})
    gang_pods: Mapping[BudgetKey, tuple[Member, ...]] = MappingProxyType({})

    def gang(self, namespace: str, name: str) -> Gang | None:
        return self.gangs.get((namespace, name))

    def in_podgroup(self, namespace: str, name: str) -> Iterable[Member]:
        return self.gang_pods.get((namespace, name), ())


def is_unsuspendable(workload: Workload, *, phase: str) -> bool:
    """Whether no controller of its kind has seen it. `phase`: of its status."""
    return workload.kind.suspension is Suspension.COMMAND and not phase


def read_budgets(items: Iterable[Object]) -> Iterator[Budget]:
    for item in items:
        try:
            yield parse_budget(_budget_object(item))
        except (BadSelector, msgspec.ValidationError):
            continue
