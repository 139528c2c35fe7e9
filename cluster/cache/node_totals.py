"""What all nodes have together, while some scheduling policy asks (plugins `overcommit` and `proportion`).

Invariants
- Without such a policy nothing is kept, and no node is watched (`cluster.informers.informers`).
- `amounts` is None until the nodes have been listed since `follow`: an earlier event is of a watch that has
  ended, and not all there is. It is replaced by one assignment and never changed.
- An amount that cannot be read, or is below zero, counts as none.
- `changed` is called only when the amounts are others: a node's heartbeat changes nothing.

Threads: the reflector of nodes writes, the one of the ConfigMap calls `follow`; any thread may read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from cluster.objects import Metadata
from queues.apimachinery.quantities import Amount, BadQuantity, parse_quantity

Written = dict[str, str | int | float]


class NodeCapacity(msgspec.Struct, frozen=True, gc=False):
    allocatable: Written | None = None


class SizedNode(msgspec.Struct, frozen=True, gc=False):
    """The fields of a node that say what it has."""

    metadata: Metadata
    status: NodeCapacity = NodeCapacity()


class NodeTotals:
    """The event handler of the reflector of nodes."""

    def __init__(self, changed: Callable[[], object]) -> None:
        self._changed = changed
        self._is_needed = False
        self._is_listed = False
        self._written: dict[str, Written] = {}
        self.amounts: Mapping[str, Amount] | None = None

    def follow(self, *, needed: bool) -> None:
        """Whether some policy asks for it."""
        if needed is not self._is_needed:
            self._is_needed = needed
            self._is_listed = False
            self._written = {}
            self.amounts = None

    # The event handler

    def replace(self, objects: list[SizedNode]) -> None:
        self._written = {node.metadata.name: node.status.allocatable or {} for node in objects}
        self._is_listed = True
        self._count()

    def upsert(self, obj: SizedNode) -> None:
        written = obj.status.allocatable or {}
        if self._written.get(obj.metadata.name) != written:
            self._written[obj.metadata.name] = written
            self._count()

    def remove(self, obj: SizedNode) -> None:
        if self._written.pop(obj.metadata.name, None) is not None:
            self._count()

    def _count(self) -> None:
        totals: dict[str, Amount] = {}
        for written in self._written.values():
            for resource, quantity in written.items():
                totals[resource] = totals.get(resource, 0) + _amount(quantity)
        if self._is_needed and self._is_listed and totals != self.amounts:
            self.amounts = totals
            self._changed()


def _amount(quantity: str | int | float) -> Amount:
    try:
        return max(0, parse_quantity(quantity))
    except BadQuantity:
        return 0
