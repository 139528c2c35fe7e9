"""What a quota goes by beside the specs of queues: who lends, what policies say, what nodes have."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import msgspec

from queues.apimachinery.quantities import Amount


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """`lending`: queues that give their guarantees to others for now. `proportional`: queues whose children
    share by weight what they deserve (plugin `proportion`). `overcommit`: by queue, how many times what
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
