"""What a scheduling policy is, once its text has been read.

Invariants
- A `Policy` is complete and never changes: what is wrong with its text was said when it was read
  (`queues.policies.scheduler_conf`).
- Weights are whole numbers from 0 to `WEIGHT_LIMIT`.

Source of names and defaults: Volcano's `pkg/scheduler/conf`, `plugins/binpack` and `plugins/nodeorder`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

import msgspec

#: The greatest weight. Volcano has no limit; with this one no sum of scores loses precision.
WEIGHT_LIMIT = 1_000_000


class PolicyProblemLine(msgspec.Struct, frozen=True):
    """A line of a policy's text (from 1) and what is to be said of it, in one line."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


class NamedPart(msgspec.Struct, frozen=True):
    """A part of a policy's text that has no effect. `kind`: action, plugin, arguments, switch or field.

    `line`: from 1. `name`: as it is written; of arguments and switches, that of the plugin follows. `text`:
    what is to be said of it, in one line.
    """

    line: int
    kind: str
    name: str
    text: str

    @property
    def place(self) -> PolicyProblemLine:
        return PolicyProblemLine(self.line, self.text)


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin of a tier (from 1). `disabled`, `enabled`: its switches that are written as false and as true,
    such as `enableNodeOrder`.
    """

    name: str
    tier: int
    line: int
    disabled: frozenset[str] = frozenset()
    enabled: frozenset[str] = frozenset()
    arguments: Mapping[str, object] = {}


class Binpack(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of plugin `binpack`: of the plugin, and of each resource that counts."""

    weight: int
    resources: Mapping[str, int]


class NodeOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Weights of plugin `nodeorder`."""

    least_requested: int = 1
    most_requested: int = 0
    node_affinity: int = 2
    pod_affinity: int = 2
    balanced_resource: int = 1
    taint_toleration: int = 3
    image_locality: int = 1
    pod_topology_spread: int = 2


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy: its actions in order, its plugins in the order of the tiers, and what scores nodes.

    `overcommit_factor`: of plugin `overcommit`; None without it. `unknown`: the names of actions and plugins
    that were passed over; `idle`: what is known and has no effect. `warnings`: what else is ignored.
    """

    actions: tuple[str, ...]
    plugins: tuple[Plugin, ...] = ()
    binpack: Binpack | None = None
    node_order: NodeOrder | None = None
    overcommit_factor: Fraction | None = None
    warnings: tuple[PolicyProblemLine, ...] = ()
    unknown: tuple[NamedPart, ...] = ()
    idle: tuple[NamedPart, ...] = ()

    @property
    def ignored(self) -> tuple[PolicyProblemLine, ...]:
        """What of its text is ignored, by line, but for the actions and plugins that it has in vain."""
        return ignored_places(self.warnings, self.unknown, self.idle)

    @property
    def scores(self) -> bool:
        """Whether it prefers some nodes to others."""
        return self.binpack is not None or self.node_order is not None

    @property
    def overcommit(self) -> Fraction | None:
        """How many times what there is may be let go; None: as much as capabilities allow. Only action
        `enqueue` asks the plugin.
        """
        return self.overcommit_factor if "enqueue" in self.actions else None

    @property
    def shares_by_weight(self) -> bool:
        """Whether queues deserve their part by weight, and not by `deserved`."""
        return self.plugin("proportion") is not None

    def plugin(self, name: str) -> Plugin | None:
        return next((plugin for plugin in self.plugins if plugin.name == name), None)

    def enables(self, name: str, switch: str) -> bool:
        """Whether it has the plugin, and does not turn this switch of it off."""
        plugin = self.plugin(name)
        return plugin is not None and switch not in plugin.disabled

    def says(self, name: str, switch: str) -> bool:
        """Whether it has the plugin, with this switch written as true."""
        plugin = self.plugin(name)
        return plugin is not None and switch in plugin.enabled


def ignored_places(
    warnings: Iterable[PolicyProblemLine], unknown: Iterable[NamedPart], idle: Iterable[NamedPart]
) -> tuple[PolicyProblemLine, ...]:
    """What of a text is ignored, by line. Actions and plugins that do nothing here are parts of the policy:
    those who show it part by part say it of them (`queues.policies.parts`).
    """
    rest = (part for part in idle if part.kind not in ("action", "plugin"))
    places = (*warnings, *(part.place for part in (*unknown, *rest)))
    return tuple(sorted(places, key=lambda place: place.line))
