"""Where queues stand among their siblings, by what is used at that moment (`release_order` has the order)."""

from __future__ import annotations

from collections.abc import Mapping

from queues.apimachinery.quantities import Amount
from queues.quota.usage import Usage
from queues.tree import Tree

#: Where a queue stands among its siblings; the smallest is next.
Key = tuple[int, bool, float, str]


class Shares:
    """For one thread. `whole`: all there is to share."""

    def __init__(self, tree: Tree, usage: Usage, *, whole: Mapping[str, Amount]) -> None:
        self._tree = tree
        self._usage = usage
        self._whole = whole

    def key(self, name: str) -> Key:
        queue, used = self._tree.queues[name], self._usage.used(name)
        deserved = (_part(used.get(resource, 0), amount) for resource, amount in queue.deserved or ())
        share = max(deserved, default=1.0)
        if share < 1:
            return -queue.priority, False, share, name
        parts = (_part(amount, self._whole.get(resource, 0)) for resource, amount in used.items())
        return -queue.priority, True, max(parts, default=0.0) / queue.weight, name


def _part(amount: Amount, whole: Amount) -> float:
    if whole:
        return float(amount / whole)
    return float("inf") if amount else 0.0
