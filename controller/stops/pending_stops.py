"""The stops that are not acknowledged yet, and who wakes the controller for them."""

from __future__ import annotations

import msgspec

from controller.workqueue import WorkQueue


class Pending(msgspec.Struct, frozen=True, gc=False):
    """A stop that is not acknowledged: for which specs, known here from which version on, since when."""

    scope: str
    seen: int
    at: float


class PendingStops(dict[str, Pending]):
    """By queue. Written by the controller's thread alone."""

    def __init__(self, work_queue: WorkQueue) -> None:
        super().__init__()
        self._work_queue = work_queue

    def wake(self) -> None:
        """Have each looked at now: what it waits for may have come; from any thread."""
        self._work_queue.wake(list(self))
