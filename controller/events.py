"""Events on queues and on the objects that something failed at.

- `QueueEvents`: what the write of a status has changed. An event is recorded only after that write succeeded.
- `UnreadableEvents`: on each queue, the objects of it that cannot be read in full, and the way out. An event
  is recorded where they differ from those that were reported, and by each new leader. However many there
  are, the event names `MAX_NAMED` of them.
- `ParentCycleEvents`: on each queue of a cycle of parents, who made the cycle, and the way out. An event is
  recorded once while the cycle exists, again if it is made again, and by each new leader; and only when the
  stored Queues are as new as the snapshot, so that both edits are in the history.
- `record_failure`: on an object, what failed at it, why, and that it is tried again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from cluster.cache.queues import queue_from_object
from cluster.cache.unreadable_objects import UnreadableObject
from cluster.key_backoff import Failure, FailureKind
from cluster.object_reference import ObjectReference
from cluster.objects import Condition, QueueObject
from cluster.recorder import EventRecorder
from controller.context import ControllerContext, queue_subject
from queues import labels as names
from queues.drain.progress import DRAINED, DrainProgress
from queues.status.changes import describe_change, new_changes, parse_history
from queues.status.conditions import ACTIVE
from queues.status.parent_cycles import Cycle, cycle_text, find_cycles
from queues.text import printable
from queues.tree import Tree

#: The account of events on queues for what they did not do themselves.
INHERITED = "inherited by queues"
DRAIN_EVENTS: Mapping[str, str] = {
    DrainProgress.DRAINING: "DrainBegun",
    DrainProgress.DRAINED: "DrainEnded",
    DrainProgress.BLOCKED: "DrainBlocked",
    DrainProgress.OVERDUE: "DrainOverdue",
}


class QueueEvents:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def record_changes(self, before: QueueObject, after: QueueObject) -> None:
        subject = queue_subject(after)
        # What an ancestor does to a thousand queues below it is no reason for a thousand events.
        own_doing = before.status.observed_generation != after.status.observed_generation
        budget = "" if own_doing else INHERITED
        for line in new_changes(before.status.changes or (), after.status.changes or ()):
            self._context.recorder.record(
                subject, reason="QueueChanged", message=describe_change(line), again_after=0.0
            )
        if before.status.state != after.status.state:
            self._context.recorder.record(
                subject,
                reason=f"Queue{after.status.state}",
                message=f"the queue is {after.status.state}, it was {before.status.state or 'new'}",
                again_after=0.0,
                budget=budget,
            )
        self._record_drain(before, after)
        active = after.status.condition(ACTIVE)
        if active and _is_news(before.status.condition(ACTIVE), active):
            self._context.recorder.record(
                subject,
                reason=f"Active{active.status}",
                message=active.message,
                again_after=0.0,
                budget=budget,
            )

    def _record_drain(self, before: QueueObject, after: QueueObject) -> None:
        found, held = after.status.condition(DRAINED), before.status.condition(DRAINED)
        if found is None or (held is not None and held.reason == found.reason):
            return
        own_doing = (
            self._context.store.snapshot.decision(after.metadata.name).policy_by == after.metadata.name
        )
        self._context.recorder.record(
            queue_subject(after),
            reason=DRAIN_EVENTS.get(found.reason, "DrainChanged"),
            message=found.message,
            warning=found.reason in {DrainProgress.BLOCKED, DrainProgress.OVERDUE},
            again_after=0.0,
            budget="" if own_doing else INHERITED,
        )


def _is_news(before: Condition | None, after: Condition) -> bool:
    """A stop that is acknowledged anew, for other specs, is none."""
    held = before.status if before else ""
    return after.status not in {held, "Unknown"} and (held, after.status) != ("Unknown", "False")


MAX_NAMED = 3
#: Characters of an object's name.
NAME_LIMIT = 140
#: The account of these events.
UNREADABLE_BUDGET = "unreadable"
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
                queue_subject(obj),
                reason="Unreadable",
                message=unreadable_text(faults),
                warning=True,
                budget=UNREADABLE_BUDGET,
            )
        self._looked_at = changes


def unreadable_text(faults: list[UnreadableObject]) -> str:
    """Which objects, what of them, and the way out."""
    first = sorted(faults, key=lambda fault: (fault.kind, fault.namespace, fault.name))[:MAX_NAMED]
    more = f" and {len(faults) - MAX_NAMED} more" if len(faults) > MAX_NAMED else ""
    named = ", ".join(f"{_name(fault)} ({fault.text})" for fault in first)
    return f"{named}{more} cannot be read in full, and count by what can be read; correct or delete them"


def _name(fault: UnreadableObject) -> str:
    kind = _KINDS.get(fault.kind, fault.kind.partition(".")[0].removesuffix("s"))
    return printable(f"{kind} {fault.namespace}/{fault.name}", limit=NAME_LIMIT)


class ParentCycleEvents:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._recorded: frozenset[Cycle] = frozenset()
        #: The tree of which every cycle was recorded.
        self._recorded_tree: Tree | None = None

    def record_events(self) -> None:
        """Record an event on every queue of each cycle that is new."""
        snapshot = self._context.store.snapshot
        if snapshot.tree is self._recorded_tree:
            return
        cycles = find_cycles(snapshot.tree, snapshot.stopped_queues())
        queues = {cycle: objects for cycle in cycles if (objects := self._objects(cycle, snapshot.tree))}
        self._context.store.backoff.attempt_each(
            "cycle", queues.keys() - self._recorded, lambda cycle: self._record(cycle, queues[cycle]), key=str
        )
        self._recorded = frozenset(queues)
        self._recorded_tree = snapshot.tree if len(queues) == len(cycles) else None

    def _objects(self, cycle: Cycle, tree: Tree) -> Mapping[str, QueueObject]:
        """Return the Queues of a cycle; none while one of them is newer or older than the tree."""
        queues = {name: obj for name in cycle if (obj := self._context.store.queues.get(name)) is not None}
        same = len(queues) == len(cycle) and all(
            queue_from_object(obj) == tree.get(name) for name, obj in queues.items()
        )
        return queues if same else {}

    def _record(self, cycle: Cycle, objects: Mapping[str, QueueObject]) -> None:
        histories = {
            name: parse_history(obj.metadata.annotation(names.CHANGES)) for name, obj in objects.items()
        }
        text = cycle_text(cycle, histories)
        for obj in objects.values():
            self._context.recorder.record(
                queue_subject(obj), reason="ParentCycle", message=text, warning=True, again_after=0
            )


#: The account of these events: there may be as many failures as objects.
FAILURE_BUDGET = "failures"


def record_failure(recorder: EventRecorder, failure: Failure, subject: ObjectReference) -> None:
    """One event, the same again at most every five minutes, however often it fails."""
    record = partial(recorder.record, subject, warning=True, budget=FAILURE_BUDGET)
    what, why = failure.step, failure.message
    if failure.kind is FailureKind.WRITE:
        record(reason="WriteRefused", message=f"{what} was refused and is tried again: {why}")
    else:
        record(reason="StepFailed", message=f"{what} failed and is tried again: {why}")
