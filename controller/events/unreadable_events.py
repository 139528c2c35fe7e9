"""Names, on each queue, the objects that cannot be read in full: an event that says which, and the way out.

Invariants
- An event is recorded where a queue's objects differ from those that were reported, and by each new leader.
- However many there are, the event names `NAMED` of them.
"""

from __future__ import annotations

from cluster.cache.unreadable_objects import UnreadableObject
from controller.context import ControllerContext, queue_subject
from queues.text import printable

NAMED = 3
#: Characters of an object's name.
NAME_LIMIT = 140
#: The account of these events.
BUDGET = "unreadable"
#: A reflector's kind in one.
_KINDS = {"podgroups": "podgroup", "queues": "queue", "pods": "pod"}


class UnreadableEvents:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        #: UIDs of the objects that were reported, by queue.
        self._reported: dict[str, frozenset[str]] = {}
        self._looked_at = 0

    def report(self) -> None:
        """Record what is new."""
        store = self._context.store
        changes = store.unreadable.changes
        if changes == self._looked_at:
            return
        by_queue: dict[str, list[UnreadableObject]] = {}
        for fault in store.unreadable.all():
            by_queue.setdefault(store.queue_of_unreadable(fault), []).append(fault)
        for queue in self._reported.keys() - by_queue.keys():
            del self._reported[queue]
        for queue, faults in by_queue.items():
            obj, uids = store.queues.get(queue), frozenset(fault.uid for fault in faults)
            if obj is None or self._reported.get(queue) == uids:
                continue
            self._reported[queue] = uids
            self._context.recorder.record(
                queue_subject(obj), reason="Unreadable", message=text(faults), warning=True, budget=BUDGET
            )
        self._looked_at = changes


def text(faults: list[UnreadableObject]) -> str:
    """Which objects, what of them, and the way out."""
    first = sorted(faults, key=lambda fault: (fault.kind, fault.namespace, fault.name))[:NAMED]
    more = f" and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
    named = ", ".join(f"{_name(fault)} ({fault.text})" for fault in first)
    return f"{named}{more} cannot be read in full, and count by what can be read; correct or delete them"


def _name(fault: UnreadableObject) -> str:
    kind = _KINDS.get(fault.kind, fault.kind.partition(".")[0].removesuffix("s"))
    return printable(f"{kind} {fault.namespace}/{fault.name}", limit=NAME_LIMIT)
