"""Cycles of parents, said once on each of their queues: who made them, and the way out.

Invariants
- A cycle is told once while it is there, and again if it is made again; whoever leads anew tells it anew.
- It is told only when the objects are as new as the snapshot, so that the history has both edits.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.cache.queues import queue_from_object
from cluster.objects import QueueObject
from controller.context import ControllerContext, queue_subject
from queues import labels as names
from queues.status.changes import parse_history
from queues.status.parent_cycles import (
    Cycle,
    cycle_text,
    find_cycles,
)
from queues.tree import Tree


class ParentCycles:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._told: frozenset[Cycle] = frozenset()
        self._looked_at: Tree | None = None

    def record_events(self) -> None:
        """Record an event on every queue of each cycle that is new."""
        snapshot = self._context.store.snapshot
        if snapshot.tree is self._looked_at:
            return
        found = find_cycles(snapshot.tree, snapshot.stopped_queues())
        ready = {cycle: objects for cycle in found if (objects := self._objects(cycle, snapshot.tree))}
        self._context.store.backoff.attempt_each(
            "cycle", ready.keys() - self._told, lambda cycle: self._record(cycle, ready[cycle]), key=str
        )
        self._told = frozenset(ready)
        self._looked_at = snapshot.tree if len(ready) == len(found) else None

    def _objects(self, cycle: Cycle, tree: Tree) -> Mapping[str, QueueObject]:
        """The objects of a cycle; none of them while one is not that of the tree."""
        held = {name: obj for name in cycle if (obj := self._context.store.queues.get(name)) is not None}
        same = len(held) == len(cycle) and all(
            queue_from_object(obj) == tree.get(name) for name, obj in held.items()
        )
        return held if same else {}

    def _record(self, cycle: Cycle, objects: Mapping[str, QueueObject]) -> None:
        text = cycle_text(
            cycle,
            {name: parse_history(obj.metadata.annotation(names.CHANGES)) for name, obj in objects.items()},
        )
        for obj in objects.values():
            self._context.recorder.record(
                queue_subject(obj), reason="ParentCycle", message=text, warning=True, again_after=0
            )
