"""Holds back the statuses of queues whose change windows have just begun or ended, while other edges wait.

Of a thousand windows that begin at the same second each edge is a write. A status of each, and the evidence
that it takes (Leases, marker pods, lists), would compete with these writes for the API server and for the
controller's thread. So the edges go first, and statuses follow, a few at a time. (Events come last, by their
rank: `cluster.write_queue`.)

| the status of a queue                                                     | is held back               |
|---------------------------------------------------------------------------|----------------------------|
| whose edge is stored, while edges of others were never sent yet           | yes                        |
| the same, and none of these was sent for `STALLED_SECONDS`                | no: one may hang for long  |
| the same, for `LONGEST_SECONDS`                                           | no                         |
| held until now, and no edge waits any more                                | until `AT_ONCE` statuses   |
|                                                                           | or fewer wait to be sent   |
| whose status was not of the version before its edge                       | no: somebody may wait      |
| whose spec changes otherwise, or the spec of a queue above it             | no, from that change on    |
| that has no edge                                                          | no                         |

Invariants
- The status alone waits. The verdict, and with it filter, webhooks and the guard, follow from the stored edge
  at once; so do gates, Commands, drains and pods.
- Each is held for `LONGEST_SECONDS` at most, however many edges come meanwhile.
- What somebody stops by hand is never held, be it a queue of the edge, one above it or another. It finds
  `AT_ONCE` statuses of held queues before it at most, and no sync that looks at more of them.
- An edge that was sent once counts no more, whatever came of it: one that is refused holds up no other.
- What is remembered says only when. A restart, or another leader, holds nothing back.

Threads: the controller's; `sent` is called by those that write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import msgspec

from cluster.cache.changes import NO_QUEUE, QueueChange, StoreChange
from cluster.cache.store import Store
from cluster.objects import QueueObject
from controller.parts import Part

#: A thousand edges take as long on a slow machine. The alert for a stop that is not acknowledged waits for
#: 120 s.
LONGEST_SECONDS = 30.0
STALLED_SECONDS = 2.0
#: Twice as many as the threads that write statuses, and more.
AT_ONCE = 12


class _Held(msgspec.Struct, frozen=True):
    """`generation`: of the edge. `since`: monotonic seconds."""

    generation: int
    since: float


class EdgeHold(Part):
    """Owner: the controller."""

    name = "edge_hold"

    def __init__(self, store: Store, *, statuses_wait: Callable[[], int]) -> None:
        """`statuses_wait`: how many statuses wait or are under way that say more than counts."""
        self._store = store
        self._statuses_wait = statuses_wait
        #: The queues whose edge was submitted, as they were then.
        self._before: dict[str, QueueObject] = {}
        #: Those whose edge was never sent yet, and when one was, or the first was submitted.
        self._unsent: set[str] = set()
        self._sent_at = -math.inf
        #: In the order in which they are released.
        self._held: dict[str, _Held] = {}

    # Edges

    def submitted(self, before: QueueObject) -> None:
        """An edge of this queue waits to be sent."""
        queue = before.metadata.name
        self._before[queue] = before
        if not self._unsent:
            self._sent_at = self._store.clock.monotonic()
        self._unsent.add(queue)

    def sent(self, queue: str) -> None:
        """Its edge is on its way, or was given up. Any thread."""
        if queue in self._unsent:
            self._unsent.discard(queue)
            self._sent_at = self._store.clock.monotonic()

    def refused(self, queue: str) -> None:
        """Its edge was not stored."""
        self.sent(queue)
        self._before.pop(queue, None)

    def edges_wait(self) -> bool:
        """Whether statuses give way to edges that were never sent."""
        return bool(self._unsent) and self._store.clock.monotonic() < self._sent_at + STALLED_SECONDS

    # Queues

    def record(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        """Some of these queues have another spec: by an edge, which has them held while others wait, or by an
        edit, which ends that for the queue and those below it.
        """
        if not (self._before or self._held):
            return
        edited = []
        for queue, of_queue in changes.items():
            if queue != NO_QUEUE and QueueChange.SPEC in of_queue and not self._record(queue):
                edited.append(queue)
        for queue in edited:
            for below in self._store.snapshot.tree.subtree(queue):
                self._held.pop(below, None)

    def _record(self, queue: str) -> bool:
        """Whether its spec is as it was, or differs by an edge alone."""
        obj, held = self._store.queues.get(queue), self._held.get(queue)
        if obj is None:
            self._before.pop(queue, None)
            return False
        if held is not None and held.generation == obj.metadata.generation:
            return True
        self._held.pop(queue, None)
        before = self._before.get(queue)
        if before is None:
            return False
        if before.metadata.generation == obj.metadata.generation and before.metadata.uid == obj.metadata.uid:
            return True
        del self._before[queue]
        if not is_edge(before, obj):
            return False
        if self.edges_wait() and is_answered(before, obj):
            self._held[queue] = _Held(obj.metadata.generation, self._store.clock.monotonic())
        return True

    def holds(self, queue: str) -> bool:
        return queue in self._held

    def step(self) -> list[str]:
        """Release those whose time has come: so many as statuses can be sent now."""
        if not self._held:
            return []
        now, edges_wait = self._store.clock.monotonic(), self.edges_wait()
        room = AT_ONCE - self._statuses_wait()
        released: list[str] = []
        for queue, held in self._held.items():
            seconds = now - held.since
            if len(released) == AT_ONCE or not is_released(
                seconds, edges_wait=edges_wait, has_room=len(released) < room
            ):
                break
            released.append(queue)
        for queue in released:
            del self._held[queue]
        return released

    @property
    def due(self) -> float:
        """When `step` is to be called though no write has ended, in monotonic seconds."""
        if not self._held:
            return math.inf
        longest = next(iter(self._held.values())).since + LONGEST_SECONDS
        if self.edges_wait():
            return min(self._sent_at + STALLED_SECONDS, longest)
        return longest if self._statuses_wait() >= AT_ONCE else self._store.clock.monotonic()

    def begin_term(self) -> None:
        self._before.clear()
        self._unsent.clear()
        self._held.clear()


def is_edge(before: QueueObject, after: QueueObject) -> bool:
    """Whether `after` is the next version of the spec, and differs in `inWindow` alone."""
    was, now = before.metadata, after.metadata
    return (
        (was.uid, was.generation + 1) == (now.uid, now.generation)
        and before.spec.in_window != after.spec.in_window
        and msgspec.structs.replace(before.spec, in_window=after.spec.in_window) == after.spec
    )


def is_answered(before: QueueObject, after: QueueObject) -> bool:
    """Whether the status was all said of the spec before the edge: nobody waits for anything but the edge."""
    return after.status.observed_generation == before.metadata.generation


def is_released(seconds: float, *, edges_wait: bool, has_room: bool) -> bool:
    """Whether a queue that was held for so many seconds is released."""
    return seconds >= LONGEST_SECONDS or (has_room and not edges_wait)
