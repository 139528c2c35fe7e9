"""The tree of queues of the run under faults: limits of several resources, at each of its levels.

Values only. Amounts are whole: millicores, bytes, and numbers of pods and devices.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

import msgspec

from tests.support.e2e.api_requests import Object

GPU = "example.com/gpu"
#: The scheduling policy of all of them, with the actions `reclaim` and `preempt`.
POLICY = "gives-back"
GI = 1024**3
Amounts = Mapping[str, int]


class QueueLimits(msgspec.Struct, frozen=True, kw_only=True):
    """One queue: what it, with all below it, uses at most, and what is kept for it."""

    parent: str
    capability: Amounts = {}
    guarantee: Amounts = {}
    #: What it gets back from those that use more than they deserve.
    deserved: Amounts = {}
    is_fifo: bool = False
    weight: int = 1
    priority: int = 0


#: By their short names, parents first: one on top, four below it, fifteen with pods.
TREE: Mapping[str, QueueLimits] = {
    "top": QueueLimits(
        parent="root",
        capability={"cpu": 40_000, "memory": 48 * GI, "pods": 64, GPU: 8},
        guarantee={"cpu": 2_000, "pods": 2, GPU: 1},
    ),
    "a": QueueLimits(parent="top", capability={"cpu": 14_000, "pods": 22}, guarantee={"cpu": 2_000}),
    "b": QueueLimits(parent="top", capability={"memory": 14 * GI, GPU: 3}, guarantee={GPU: 1}, weight=3),
    "c": QueueLimits(parent="top", capability={"cpu": 12_000, "pods": 14}, guarantee={"pods": 2}, priority=1),
    "d": QueueLimits(parent="top", deserved={"cpu": 10_000, "memory": 12 * GI}),
    "a0": QueueLimits(parent="a", capability={"cpu": 5_000}, guarantee={"cpu": 2_000}),
    "a1": QueueLimits(parent="a", capability={"pods": 4, "memory": 6 * GI}),
    "a2": QueueLimits(parent="a", is_fifo=True),
    "a3": QueueLimits(parent="a", weight=4, deserved={"cpu": 4_000}),
    "b0": QueueLimits(parent="b", capability={GPU: 2}, guarantee={GPU: 1}),
    "b1": QueueLimits(parent="b", capability={"cpu": 6_000}, is_fifo=True),
    "b2": QueueLimits(parent="b", priority=2, deserved={"memory": 6 * GI}),
    "b3": QueueLimits(parent="b", capability={"pods": 6}),
    "c0": QueueLimits(parent="c", capability={"cpu": 4_000, "memory": 4 * GI}),
    "c1": QueueLimits(parent="c", guarantee={"pods": 2}, capability={"pods": 8}),
    "c2": QueueLimits(parent="c", is_fifo=True, capability={"cpu": 5_000}),
    "c3": QueueLimits(parent="c", deserved={"cpu": 5_000, "pods": 6}),
    "d0": QueueLimits(parent="d", capability={"cpu": 8_000, "pods": 12}),
    "d1": QueueLimits(parent="d", capability={"memory": 10 * GI}, deserved={"cpu": 6_000}),
    "d2": QueueLimits(parent="d", is_fifo=True),
}
LEAVES = tuple(name for name in TREE if len(name) == 2)


def chain(queue: str) -> Iterator[str]:
    """The queue and those above it."""
    while queue in TREE:
        yield queue
        queue = TREE[queue].parent


@cache
def children(queue: str) -> list[str]:
    return [name for name, limits in TREE.items() if limits.parent == queue]


def spec_of(queue: str, *, parent: str) -> Object:
    """What its Queue says. `parent`: the name of the one above it."""
    limits = TREE[queue]
    spec: Object = {"parent": parent, "weight": limits.weight, "priority": limits.priority}
    if limits.capability:
        spec["capability"] = quantities(limits.capability)
    if limits.guarantee:
        spec["guarantee"] = {"resource": quantities(limits.guarantee)}
    if limits.deserved:
        spec["deserved"] = quantities(limits.deserved)
    if queue == "top":
        spec["schedulerPolicy"] = POLICY
    if limits.is_fifo:
        spec["dequeueStrategy"] = "fifo"
    return spec


def quantities(amounts: Amounts) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}


def amounts(texts: Mapping[str, str]) -> dict[str, int]:
    """What a pod asks for, as the API server writes it. Other resources are left out."""
    return {name: _amount(name, text) for name, text in texts.items() if name in ("cpu", "memory", GPU)}


def _amount(name: str, text: str) -> int:
    for unit, factor in (("Mi", 1024**2), ("Gi", GI), ("Ki", 1024)):
        if text.endswith(unit):
            return int(text.removesuffix(unit)) * factor
    if name == "cpu":
        return int(text.removesuffix("m")) if text.endswith("m") else int(text) * 1000
    return int(text)
