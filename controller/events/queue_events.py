"""Events on queues: what the write of a status has changed.

Invariant: an event is recorded only after the write that it tells of succeeded.
"""

from __future__ import annotations

from collections.abc import Mapping

from cluster.objects import Condition, QueueObject
from controller.context import ControllerContext, queue_subject
from queues.drain.progress import DRAINED, DrainProgress
from queues.status.changes import describe_change, new_changes
from queues.status.conditions import ACTIVE

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
