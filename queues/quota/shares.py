"""Where queues stand among their siblings, by what is used at that moment (`release_order` has the order).

The share of a queue is the largest part that it uses of what it deserves, of the resources of which it
deserves something. Of one that deserves nothing it is 1: it borrows. Borrowers stand by the largest part of
the whole that they use beyond what they deserve, divided by their weight.

Invariant: what queues deserve by weight is frozen for a pass, since each release would move it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from queues.apimachinery.quantities import Amount
from queues.queue import ROOT
from queues.quota.deserved import Want, share_out
from queues.quota.usage import Usage
from queues.tree import Tree

#: Where a queue stands among its siblings; the smallest is next.
RankKey = tuple[int, bool, float, str]
#: By queue, what its own pods that wait request, by resource.
Waiting = Mapping[str, Mapping[str, Amount]]


class Shares:
    """For one thread and one pass."""

    def __init__(
        self, tree: Tree, usage: Usage, *, whole: Mapping[str, Amount], waiting: Callable[[], Waiting]
    ) -> None:
        """`whole`: all there is to share. `waiting`: asked only where a plugin shares by weight."""
        self._tree = tree
        self._usage = usage
        self._whole = whole
        #: By queue: its priority, negative; its weight; what it deserves. None of that changes in a pass.
        self._standings: dict[str, tuple[int, int, Mapping[str, Amount]]] = {}
        self._by_weight: Mapping[str, Mapping[str, Amount]] = {}
        if usage.rules.proportional:
            self._by_weight = _by_weight(tree, usage, whole=whole, waiting=_with_ancestors(tree, waiting()))

    def deserved(self, name: str) -> Mapping[str, Amount]:
        """What the queue deserves, by resource."""
        by_weight = self._by_weight.get(name)
        return self._usage.deserved.of(name) if by_weight is None else by_weight

    def key(self, name: str) -> RankKey:
        known = self._standings.get(name)
        if known is None:
            queue = self._tree.queues[name]
            known = self._standings[name] = -queue.priority, queue.weight, self.deserved(name)
        place, weight, deserved = known
        used = self._usage.used(name)
        share = 0.0 if deserved else 1.0
        for resource, amount in deserved.items():
            if (part := _part(used.get(resource, 0), amount)) > share:
                share = part
        if share < 1:
            return place, False, share, name
        borrowed, whole = 0.0, self._whole
        for resource, amount in used.items():
            more = amount - deserved.get(resource, 0)
            if more > 0 and (part := _part(more, whole.get(resource, 0))) > borrowed:
                borrowed = part
        return place, True, borrowed / weight, name


def _part(amount: Amount, whole: Amount) -> float:
    if whole:
        return float(amount / whole)
    return float("inf") if amount else 0.0


def _with_ancestors(tree: Tree, waiting: Waiting) -> Waiting:
    asked: dict[str, dict[str, Amount]] = {}
    for queue, amounts in waiting.items():
        if queue in tree:
            for each in tree.chain(queue).queues:
                of_queue = asked.setdefault(each.name, {})
                for resource, amount in amounts.items():
                    of_queue[resource] = of_queue.get(resource, 0) + amount
    return asked


def _by_weight(
    tree: Tree, usage: Usage, *, whole: Mapping[str, Amount], waiting: Waiting
) -> dict[str, dict[str, Amount]]:
    """What the children of proportional queues deserve; of each such queue before those below it."""
    shared: dict[str, dict[str, Amount]] = {}
    for name in sorted(usage.rules.proportional & set(tree), key=tree.depth):
        above = whole if name == ROOT else _to_share(usage, name, shared=shared.get(name))
        children = tree.children(name)
        for child in children:
            shared[child] = {}
        for resource, amount in above.items():
            wants = _wants(tree, usage, children, resource=resource, waiting=waiting)
            for child, part in share_out(amount, wants).items():
                shared[child][resource] = part
    return shared


def _to_share(usage: Usage, name: str, *, shared: Mapping[str, Amount] | None) -> Mapping[str, Amount]:
    """What the queue has for those below it. `shared`: its own part, where it has one by weight."""
    return {**usage.deserved.real_capability(name), **(shared or usage.deserved.of(name))}


def _wants(
    tree: Tree, usage: Usage, children: Iterable[str], *, resource: str, waiting: Waiting
) -> Iterable[Want]:
    for child in children:
        asked = usage.used(child).get(resource, 0) + waiting.get(child, {}).get(resource, 0)
        most = usage.deserved.real_capability(child).get(resource, asked)
        guaranteed = usage.guarantees.get(child, {}).get(resource, 0)
        yield Want(child, tree.queues[child].weight, least=guaranteed, most=min(asked, most))
