"""What is set aside for each queue: its `guarantee`, as far as there is room for it.

Invariants
- A queue is guaranteed at least what the queues below it are guaranteed together, and never more than a
  capability on its chain. Admission lets these have no more than it names itself; what is stored may.
- Guarantees of siblings that together are more than what there is above them are scaled down, all by the
  same factor: so they freeze nobody, and break no capability.
- A queue that lends, and its descendants, are guaranteed nothing.
- Without a capability above it a guarantee sets nothing aside: nothing is limited there.

Sources: Volcano's `plugins/capacity`, which stops the scheduler where guarantees cannot all be met.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from fractions import Fraction

from queues.apimachinery.quantities import Amount
from queues.queue import ROOT, StoppedGuarantee
from queues.tree import Tree

#: By queue and resource. Queues that are guaranteed nothing are left out.
Guarantees = Mapping[str, Mapping[str, Amount]]


def effective_guarantees(tree: Tree, *, lending: Collection[str] = ()) -> Guarantees:
    """What each queue is guaranteed. `lending`: queues that give their guarantees to others for now."""
    if all(queue.guarantee is None for queue in tree.queues.values()):
        return {}
    order = tuple(_downwards(tree))
    asked = asked_guarantees(tree, lending=lending)
    granted: dict[str, dict[str, Amount]] = {}
    for name in order:
        if name in asked:
            granted.setdefault(name, dict(asked[name]))
        children = [child for child in tree.children(name) if child in asked]
        _share_out(tree, name, children, asked=asked, granted=granted)
    return {name: amounts for name, amounts in granted.items() if any(amounts.values())}


def lending_queues(tree: Tree, *, schedules: Callable[[str], bool]) -> frozenset[str]:
    """The queues that give their guarantees to others while they do not schedule."""
    return frozenset(
        name
        for name, queue in tree.queues.items()
        if queue.stopped_guarantee is StoppedGuarantee.LEND and not schedules(name)
    )


def _downwards(tree: Tree) -> Iterator[str]:
    """The queues whose chain reaches `root`, each before those below it."""
    pending = [ROOT]
    while pending:
        name = pending.pop()
        yield name
        pending.extend(tree.children(name))


def asked_guarantees(tree: Tree, *, lending: Collection[str] = ()) -> dict[str, dict[str, Amount]]:
    """What each asks for: its own, or that of those below it, and no more than it may use."""
    asked: dict[str, dict[str, Amount]] = {}
    order, lent = tuple(_downwards(tree)), set(lending)
    for name in order:
        if name in lent:
            lent.update(tree.children(name))
    for name in reversed(order):
        queue = tree.queues[name]
        if name in lent:
            continue
        amounts: dict[str, Amount] = {}
        for child in tree.children(name):
            for resource, amount in asked.get(child, {}).items():
                amounts[resource] = amounts.get(resource, 0) + amount
        for resource, amount in queue.guarantee or ():
            amounts[resource] = max(amount, amounts.get(resource, 0))
        for resource, most in queue.capability or ():
            if resource in amounts:
                amounts[resource] = min(amounts[resource], most)
        if amounts:
            asked[name] = amounts
    return asked


def _share_out(
    tree: Tree,
    name: str,
    children: list[str],
    *,
    asked: Mapping[str, Mapping[str, Amount]],
    granted: dict[str, dict[str, Amount]],
) -> None:
    """Give the children what they ask for, scaled where that is more than there is."""
    own = granted.get(name, {})
    capability = dict(tree.queues[name].capability or ())
    for resource in {resource for child in children for resource in asked[child]}:
        total = sum(asked[child].get(resource, 0) for child in children)
        limits = [each[resource] for each in (own, capability) if resource in each]
        most = min([total, *limits])
        for child in children:
            amount = asked[child].get(resource)
            if amount is not None:
                scaled = amount if most == total else _exact(Fraction(amount * most) / total)
                granted.setdefault(child, {})[resource] = scaled


def _exact(value: Fraction) -> Amount:
    return value.numerator if value.denominator == 1 else value
