"""What is wrong with a queue such that whoever is on call should see it first."""

from __future__ import annotations

from enum import StrEnum

from kubectl_queue.views.queue_tree import TreeRow
from queues.drain.progress import DrainedReason
from queues.states import State


class Problem(StrEnum):
    """Most pressing first."""

    NOT_ACKNOWLEDGED = "StopNotAcknowledged"
    BROKEN = "ChainBroken"
    OVERDUE = "DrainOverdue"
    BLOCKED = "DrainBlocked"


def problem_of(row: TreeRow) -> Problem | None:
    """The most pressing problem of a queue; None where there is none."""
    if row.stop_pending:
        return Problem.NOT_ACKNOWLEDGED
    if row.state is State.UNKNOWN:
        return Problem.BROKEN
    if row.drained == DrainedReason.OVERDUE:
        return Problem.OVERDUE
    return Problem.BLOCKED if row.drained == DrainedReason.BLOCKED else None
