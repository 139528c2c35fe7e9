"""Events on queues, and on objects that something failed for.

- `QueueEvents`: what a status write has changed. An event is recorded only after that write succeeded.
- `UnreadableEvents`: on each queue, which of its objects cannot be read in full, and the way out. An event is
  recorded when these objects differ from those that were reported, and by each new leader. It names
  `MAX_NAMED` of them at most.
- `ParentCycleEvents`: on each queue of a cycle of parents, who made the cycle, and the way out. An event is
  recorded once while the cycle exists, again if it is made again, and by each new leader; and only when the
  stored Queues are as new as the snapshot, so that both edits are in the history.
- `record_failure`: on an object, what failed, why, and that it is tried again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

import msgspec

from cluster.cache.queues import queue_from_object
from cluster.cache.unreadable_objects import UnreadableObject
from cluster.key_backoff import Failure, FailureKind
from cluster.object_reference import ObjectReference
from cluster.objects import Condition, QueueObject, QueueStatus
from cluster.recorder import EventRecorder
from controller.context import ControllerContext, queue_subject
from controller.parts import Part
from queues import well_known
from queues.drain.progress import DRAINED, DrainedReason
from queues.status.changes import describe_change, new_changes, parse_history
from queues.status.conditions import ACTIVE
from queues.status.parent_cycles import Cycle, cycle_text, find_cycles
from queues.status.policy_condition import POLICY_RESOLVED
from queues.text import printable
from queues.tree import Tree

#: The rate limit key of events on queues for what was not done to these queues themselves.
INHERITED_KEY = "inherited by queues"
#: The same of events that a change of the scheduling policies brings: they take none from those of stops.
POLICY_KEY = "scheduling policies"
DRAIN_EVENTS: Mapping[str, str] = {
    DrainedReason.DRAINING: "DrainBegun",
    DrainedReason.DRAINED: "DrainEnded",
    DrainedReason.BLOCKED: "DrainBlocked",
    DrainedReason.OVERDUE: "DrainOverdue",
}


class QueueEvent(msgspec.Struct, frozen=True):
    """An event on a queue.

    `inherited`: its cause is at a queue above. Such events of all queues share a rate limit, so that an edit
    of one queue does not bring a thousand events; those of one `shared_limit` share it.
    """

    reason: str
    message: str
    inherited: bool = False
    warning: bool = False
    shared_limit: str = INHERITED_KEY


class QueueEvents:
    """Owner: the controller's thread."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def record_changes(self, before: QueueObject, after: QueueObject) -> None:
        """Record what the write has changed. `before`: the object that was written over."""
        name = after.metadata.name
        drains_itself = self._context.store.snapshot.decision(name).policy_by == name
        for event in queue_events(before.status, after.status, drains_itself=drains_itself):
            self._context.recorder.record(
                queue_subject(after),
                reason=event.reason,
                message=event.message,
                warning=event.warning,
                repeat_after=0.0,
                rate_limit_key=event.shared_limit if event.inherited else "",
            )


def queue_events(before: QueueStatus, after: QueueStatus, *, drains_itself: bool) -> Iterator[QueueEvent]:
    """Yield the events for a status that has changed. `drains_itself`: the drain is the queue's own."""
    inherited = before.observed_generation == after.observed_generation
    for line in new_changes(before.changes or (), after.changes or ()):
        yield QueueEvent("QueueChanged", describe_change(line))
    if before.state != after.state:
        message = f"the queue is {after.state}, it was {before.state or 'new'}"
        yield QueueEvent(f"Queue{after.state}", message, inherited)
    drained, drained_before = after.condition(DRAINED), before.condition(DRAINED)
    if drained and (drained_before is None or drained_before.reason != drained.reason):
        reason = DRAIN_EVENTS.get(drained.reason, "DrainChanged")
        warning = drained.reason in {DrainedReason.BLOCKED, DrainedReason.OVERDUE}
        yield QueueEvent(reason, drained.message, not drains_itself, warning)
    active = after.condition(ACTIVE)
    if active and is_active_news(before.condition(ACTIVE), active):
        yield QueueEvent(f"Active{active.status}", active.message, inherited)
    policy = after.condition(POLICY_RESOLVED)
    if policy and is_policy_news(before.condition(POLICY_RESOLVED), policy):
        is_bad = policy.status == "False"
        yield QueueEvent(f"{POLICY_RESOLVED}{policy.status}", policy.message, inherited, is_bad, POLICY_KEY)


def is_active_news(before: Condition | None, after: Condition) -> bool:
    """Return whether condition Active changed in a way that users want an event for.

    It is no news that a stop is not acknowledged for changed specs yet, nor that it is acknowledged again.
    """
    status_before = before.status if before else ""
    if after.status in {status_before, "Unknown"}:
        return False
    return (status_before, after.status) != ("Unknown", "False")


def is_policy_news(before: Condition | None, after: Condition) -> bool:
    """Return whether condition PolicyResolved became False, or True again."""
    was_false = before is not None and before.status == "False"
    return was_false is (after.status == "True")


MAX_NAMED = 3
#: Characters of an object's name.
NAME_LIMIT = 140
#: The rate limit key of these events.
UNREADABLE_KEY = "unreadable"
#: What an object is called, by the kind of its reflector.
_KINDS = {"podgroups": "podgroup", "queues": "queue", "pods": "pod"}


class UnreadableEvents(Part):
    """Owner: the controller's thread."""

    name = "unreadable"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        #: UIDs of the objects that were reported, by queue.
        self._reported: dict[str, frozenset[str]] = {}
        #: How many changes of unreadable objects had been counted at the last report.
        self._reported_changes = 0

    def step(self) -> None:
        """Record an event on each queue whose unreadable objects have changed."""
        store = self._context.store
        changes = store.unreadable.changes
        if changes == self._reported_changes:
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
                rate_limit_key=UNREADABLE_KEY,
            )
        self._reported_changes = changes


def unreadable_text(faults: list[UnreadableObject]) -> str:
    """Return which objects cannot be read, which of their fields, and the way out."""
    first = sorted(faults, key=lambda fault: (fault.kind, fault.namespace, fault.name))[:MAX_NAMED]
    more = f" and {len(faults) - MAX_NAMED} more" if len(faults) > MAX_NAMED else ""
    named = ", ".join(f"{_name(fault)} ({fault.text})" for fault in first)
    return f"{named}{more} cannot be read in full, and count by what can be read; correct or delete them"


def _name(fault: UnreadableObject) -> str:
    kind = _KINDS.get(fault.kind, fault.kind.partition(".")[0].removesuffix("s"))
    return printable(f"{kind} {fault.namespace}/{fault.name}", limit=NAME_LIMIT)


class ParentCycleEvents(Part):
    """Owner: the controller's thread."""

    name = "cycles"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._recorded: frozenset[Cycle] = frozenset()
        #: The tree of which every cycle was recorded.
        self._recorded_tree: Tree | None = None

    def step(self) -> None:
        """Record an event on every queue of each cycle that is new."""
        snapshot = self._context.store.snapshot
        if self._recorded_tree is not None and snapshot.tree.is_shaped_as(self._recorded_tree):
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
            (known := tree.get(name)) is not None and known.revision == queue_from_object(obj).revision
            for name, obj in queues.items()
        )
        return queues if same else {}

    def _record(self, cycle: Cycle, objects: Mapping[str, QueueObject]) -> None:
        histories = {
            name: parse_history(obj.metadata.annotation(well_known.CHANGES)) for name, obj in objects.items()
        }
        text = cycle_text(cycle, histories)
        for obj in objects.values():
            self._context.recorder.record(
                queue_subject(obj), reason="ParentCycle", message=text, warning=True, repeat_after=0
            )


#: The rate limit key of these events: there may be as many failures as objects.
FAILURE_KEY = "failures"


class FailureEvents(Part):
    """Owner: the controller's thread."""

    name = "failures"

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    def step(self) -> None:
        """Record an event on each object that something failed for."""
        for failure in self._context.store.backoff.take_failures():
            if failure.subject is not None:
                record_failure(self._context.recorder, failure, failure.subject)


def record_failure(recorder: EventRecorder, failure: Failure, subject: ObjectReference) -> None:
    """Record an event on the object. The recorder repeats it every five minutes at most."""
    record = partial(recorder.record, subject, warning=True, rate_limit_key=FAILURE_KEY)
    what, why = failure.step, failure.message
    if failure.kind is FailureKind.WRITE:
        record(reason="WriteRefused", message=f"{what} was refused and is tried again: {why}")
    else:
        record(reason="StepFailed", message=f"{what} failed and is tried again: {why}")
