"""What of each queue is taken: what is used, and what is set aside for the queues below it.

Of each queue and resource it keeps `base = own use + the sum of R of the queues below`, and
`R = max(guarantee, base)`. A change of a queue's use changes its base, and those of its ancestors only as far
as its R changes.

Invariants
- Only resources of which something is guaranteed are kept.
- Where each queue of a chain has at least its guarantee as its base, even while nothing is used, R is the
  base: a pod adds all that it requests (`adds_all`).
- `add` of an amount and then of its negative leaves everything as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from queues.apimachinery.quantities import Amount
from queues.quota.guarantees import Guarantees
from queues.tree import Tree


class SetAside:
    """For one thread. Owner: `Usage`."""

    def __init__(self, tree: Tree, guarantees: Guarantees) -> None:
        self._guarantees = guarantees
        self._resources = frozenset(name for amounts in guarantees.values() for name in amounts)
        self._bases: dict[str, dict[str, Amount]] = {}
        #: Where a queue is guaranteed more than the queues below it together: what it uses up to that adds
        #: nothing to its R.
        self._above_base: set[tuple[str, str]] = set()
        #: Each queue's is added to its parent's, the lowest first: so a base is complete before it counts.
        for name in sorted(guarantees, key=tree.depth, reverse=True):
            own = self._bases.get(name, {})
            for resource, amount in guarantees[name].items():
                if amount > own.get(resource, 0):
                    self._above_base.add((name, resource))
            parent = tree.queues[name].parent
            if parent:
                base = self._bases.setdefault(parent, {})
                for resource in guarantees[name]:
                    base[resource] = base.get(resource, 0) + self.taken(name, resource)

    def __bool__(self) -> bool:
        return bool(self._guarantees)

    def add(self, chain: Sequence[str], amounts: Iterable[tuple[str, Amount]]) -> None:
        """Count what pods of the first queue of this chain take. Amounts may be below zero."""
        for resource, amount in amounts:
            if resource not in self._resources:
                continue
            more = amount
            for name in chain:
                before = self.taken(name, resource)
                base = self._bases.setdefault(name, {})
                base[resource] = base.get(resource, 0) + more
                more = self.taken(name, resource) - before
                if not more:
                    break

    def missing(
        self, chain: Sequence[str], top: str, resource: str, *, amount: Amount, most: Amount
    ) -> Amount:
        """How much of `most` in the queue `top` lacks for one more pod of the first queue of the chain.

        0 or less: it has room, or takes what is guaranteed to it.
        """
        more = amount
        for name in chain:
            taken = self.taken(name, resource)
            base = self._bases.get(name, {}).get(resource, 0)
            more = max(taken, base + more) - taken
            if more <= 0:
                return 0
            if name == top:
                return taken + more - most
        return 0

    def adds_all(self, chain: Sequence[str], top: str, resource: str) -> bool:
        """Whether a pod of the first queue of the chain adds all that it requests to the R of `top`, whatever
        is used.
        """
        return all((name, resource) not in self._above_base for name in chain[: chain.index(top) + 1])

    def unused_below(self, name: str, used: Mapping[str, Amount]) -> dict[str, Amount]:
        """What the queues below are guaranteed, and do not use. `used`: by the queue and all below it."""
        base = self._bases.get(name, {})
        return {
            resource: more
            for resource, amount in base.items()
            if (more := amount - used.get(resource, 0)) > 0
        }

    def taken(self, name: str, resource: str) -> Amount:
        """The R of the queue."""
        base = self._bases.get(name, {}).get(resource, 0)
        return max(base, self._guarantees.get(name, {}).get(resource, 0))
