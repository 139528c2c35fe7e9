"""What each queue deserves: it goes before others while it uses less (`shares`).

- By its spec (plugin `capacity`): `D = max(min(deserved, real capability), guarantee)`, of the resources that
  its `deserved` or its guarantee names.
- By weight (plugin `proportion`): what the queue above deserves, of `root` the whole, is shared out among the
  queues below it that want more, `weight` for `weight`; of a resource that the queue above does not list,
  what it may use, its real capability. None gets more than its real capability or than it uses and asks for,
  and none less than its guarantee.

The real capability of a queue is the least of its own and of what the others leave it:
`min(capability, that of the parent - what the siblings are guaranteed)`.

Invariants
- By weight: shares of one resource add up to the whole, unless all are content with less, or guarantees are
  more than that. What is wanted does not depend on the order of queues.
- Exact amounts: no floats.

Sources: Volcano's `plugins/capacity`, and `plugins/proportion`, which comes to the same in rounds; here the
fixed point is computed at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

import msgspec

from queues.apimachinery.quantities import Amount
from queues.queue import ROOT
from queues.quota.guarantees import Guarantees
from queues.tree import Tree

_NOTHING: Mapping[str, Amount] = {}


class Deserved:
    """What queues deserve by their specs; each is computed when it is first asked for. For one thread."""

    def __init__(self, tree: Tree, guarantees: Guarantees, *, whole: Mapping[str, Amount]) -> None:
        """`whole`: what there is, of the resources of which that is known."""
        self._tree = tree
        self._guarantees = guarantees
        self._whole = whole
        self._deserved: dict[str, Mapping[str, Amount]] = {}
        self._limits: dict[str, Mapping[str, Amount]] = {}

    def of(self, name: str) -> Mapping[str, Amount]:
        """By resource; empty where the queue's chain does not reach `root`."""
        known = self._deserved.get(name)
        if known is None:
            known = self._deserved[name] = self._of(name)
        return known

    def _of(self, name: str) -> Mapping[str, Amount]:
        own, guaranteed = self._tree.queues[name].deserved, self._guarantees.get(name, _NOTHING)
        if own is None:
            return guaranteed
        limits = self.real_capability(name)
        amounts = {resource: min(amount, limits.get(resource, amount)) for resource, amount in own}
        for resource, amount in guaranteed.items():
            amounts[resource] = max(amount, amounts.get(resource, 0))
        return amounts

    def real_capability(self, name: str) -> Mapping[str, Amount]:
        """By resource; one that is not there has no bound."""
        known = self._limits.get(name)
        if known is None:
            known = self._limits[name] = self._real_capability(name)
        return known

    def _real_capability(self, name: str) -> Mapping[str, Amount]:
        queue = self._tree.queues[name]
        own = dict(queue.capability or ())
        if name == ROOT:
            return {**self._whole, **own}
        if self._tree.chain(name).broken is not None:
            return own
        parent = queue.parent or ROOT
        guaranteed = self._guarantees.get(name, _NOTHING)
        limits = own
        for resource, amount in self.real_capability(parent).items():
            siblings = sum(
                self._guarantees.get(each, _NOTHING).get(resource, 0) for each in self._tree.children(parent)
            )
            left = max(0, amount - siblings + guaranteed.get(resource, 0))
            limits[resource] = min(left, limits.get(resource, left))
        return limits


class Want(msgspec.Struct, frozen=True, gc=False):
    """Of one resource and queue: what it gets at least and at most, and its weight."""

    name: str
    weight: int
    least: Amount
    most: Amount


def share_out(whole: Amount, wants: Iterable[Want]) -> dict[str, Amount]:
    """What each gets of the whole: `weight * level`, within its bounds, with one level for all.

    `most` counts as `least` where it is less.
    """
    bounds = [(want, max(want.least, want.most)) for want in wants]
    level = _level(whole, bounds)
    if level is None:
        return {want.name: most for want, most in bounds}
    return {want.name: _exact(min(most, max(want.least, want.weight * level))) for want, most in bounds}


def _level(whole: Amount, bounds: list[tuple[Want, Amount]]) -> Fraction | None:
    """The level at which the shares add up to the whole; None: all are content with less."""
    spent: Fraction = Fraction(sum(want.least for want, _ in bounds))
    if sum(most for _, most in bounds) <= whole:
        return None
    level, slope = Fraction(0), 0
    steps = sorted(
        (Fraction(at) / want.weight, change)
        for want, most in bounds
        if most > want.least
        for at, change in ((want.least, want.weight), (most, -want.weight))
    )
    for at, change in steps:
        more = slope * (at - level)
        if spent + more > whole:
            break
        spent, level, slope = spent + more, at, slope + change
    return level + (whole - spent) / slope if slope and whole > spent else level


def _exact(value: Amount) -> Amount:
    return value.numerator if isinstance(value, Fraction) and value.denominator == 1 else value
