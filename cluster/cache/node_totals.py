"""What all nodes have together: how much, while some scheduling policy asks (plugins `overcommit` and
`proportion`), and of what, while some queue has a quota (`queues.quota.resource_names`).

Invariants
- While neither is asked for, nothing is kept, and no node is watched: `need` is called when that changes.
- `names` is None until the nodes have been listed since one of them was: an earlier event is of a watch that
  has ended, and not all there is. So is `amounts`, and while no policy asks. Each is replaced by one
  assignment and never changed.
- An amount that cannot be read, or is below zero, counts as none.
- `changed` is called only when the amounts are others: a node's heartbeat changes nothing.
- While only names are needed no amount is read: a node that comes or goes costs no look at the others.

Threads: the reflector of nodes writes, those of the ConfigMap and of queues call `follow` and `follow_names`;
any thread may read.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping

import msgspec

from cluster.objects import Metadata
from queues.apimachinery.quantities import Amount, BadQuantity, parse_quantity

NodeAmounts = dict[str, str | int | float]


class NodeCapacity(msgspec.Struct, frozen=True, gc=False):
    allocatable: NodeAmounts | None = None


class SizedNode(msgspec.Struct, frozen=True, gc=False):
    """The fields of a node that say what it has."""

    metadata: Metadata
    status: NodeCapacity = NodeCapacity()


class NodeTotals:
    """The event handler of the reflector of nodes."""

    def __init__(self, changed: Callable[[], object]) -> None:
        self._changed = changed
        #: One need changes at a time. The event handler does not take it: who ends the watch waits for that.
        self._lock = threading.Lock()
        #: That what was counted first is published first, by the event handler or by who asks anew.
        self._counting = threading.Lock()
        self._need: Callable[[bool], object] = lambda _: None
        self._needs_amounts = self._needs_names = False
        self._is_listed = False
        self._written: dict[str, NodeAmounts] = {}
        #: How many nodes have each resource.
        self._having: Counter[str] = Counter()
        self.amounts: Mapping[str, Amount] | None = None
        self.names: Collection[str] | None = None

    def on_need(self, need: Callable[[bool], object]) -> None:
        """`need` is called when nodes come to be needed, and when they no longer are."""
        self._need = need

    def follow(self, *, needed: bool) -> None:
        """Whether some policy asks for amounts."""
        with self._lock:
            if needed is not self._needs_amounts:
                was, self._needs_amounts, self.amounts = self.is_needed, needed, None
                self._follow(was)

    def follow_names(self, *, needed: bool) -> None:
        """Whether some queue has a quota."""
        with self._lock:
            if needed is not self._needs_names:
                was, self._needs_names = self.is_needed, needed
                self._follow(was)

    @property
    def is_needed(self) -> bool:
        return self._needs_amounts or self._needs_names

    def _follow(self, was: bool) -> None:
        if was is self.is_needed:
            self._count()
            return
        self._is_listed = False
        self._written, self._having = {}, Counter()
        self.amounts = self.names = None
        self._need(self.is_needed)

    # The event handler

    def replace(self, objects: list[SizedNode]) -> None:
        self._written = {node.metadata.name: node.status.allocatable or {} for node in objects}
        self._having = Counter(name for written in self._written.values() for name in written)
        self._is_listed = True
        self._count()

    def upsert(self, obj: SizedNode) -> None:
        written, was = obj.status.allocatable or {}, self._written.get(obj.metadata.name)
        if was != written:
            self._written[obj.metadata.name] = written
            self._having.subtract(was.keys() if was else ())
            self._having.update(written.keys())
            self._count()

    def remove(self, obj: SizedNode) -> None:
        was = self._written.pop(obj.metadata.name, None)
        if was is not None:
            self._having.subtract(was.keys())
            self._count()

    def _count(self) -> None:
        """Also by a thread that asks anew: what the event handler changes is copied in one step."""
        with self._counting:
            if not self.is_needed or not self._is_listed:
                return
            names = frozenset(name for name, nodes in dict(self._having).items() if nodes > 0)
            if names != self.names:
                self.names = names
            if not self._needs_amounts:
                return
            totals: dict[str, Amount] = {}
            for written in self._written.copy().values():
                for resource, quantity in written.items():
                    totals[resource] = totals.get(resource, 0) + _amount(quantity)
            if totals != self.amounts:
                self.amounts = totals
                self._changed()


def _amount(quantity: str | int | float) -> Amount:
    try:
        return max(0, parse_quantity(quantity))
    except BadQuantity:
        return 0
