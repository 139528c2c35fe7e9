"""What a quota goes by beside the specs of queues: who lends, what policies say, what nodes have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

import msgspec

from queues.apimachinery.quantities import Amount
from queues.policies.model import Policy
from queues.tree import Tree


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """`lending`: queues that give their guarantees to others for now. `proportional`: queues whose children
    share by weight what they deserve (`proportional_queues`). `overcommit`: by queue, how many times what
    nodes have may be let go (plugin `overcommit`). `nodes`: what nodes have together; None: not known.
    """

    lending: frozenset[str] = frozenset()
    proportional: frozenset[str] = frozenset()
    overcommit: Mapping[str, Fraction] = {}
    nodes: Mapping[str, Amount] | None = None

    @property
    def needs_nodes(self) -> bool:
        """Whether what nodes have is asked for, and so what all queues use."""
        return bool(self.proportional or self.overcommit)


NO_RULES = Rules()


def proportional_queues(tree: Tree, policy: Callable[[str], Policy | None]) -> frozenset[str]:
    """The queues whose children share by weight: those with children and a policy with plugin `proportion`.
    Where the policy has `capacity` too, and one of the children lists what it deserves, that counts instead.

    `policy`: that of a queue; None for none.
    """
    return frozenset(
        name
        for name in tree
        if (children := tree.children(name))
        and (found := policy(name)) is not None
        and found.shares_by_weight
        and not (found.plugin("capacity") and any(tree.queues[each].deserved for each in children))
    )
