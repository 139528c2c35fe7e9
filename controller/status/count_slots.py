"""When the counts of a queue may be written, so that all of them together are a bounded load.

Counts alone are at most `RATE` writes a second, of all queues. Where few queues change each has its counts
written once in `COUNT_SECONDS`; where hundreds do, each in its turn: with n queues that change all the time
that is once in n / `RATE` seconds.

Times are monotonic seconds.
"""

from __future__ import annotations

#: Counts of a queue are not written more often than once in so many seconds.
COUNT_SECONDS = 1.0
#: Writes a second of all queues. Each costs the API server and its watchers 5 to 10 ms of CPU time.
RATE = 40.0
#: As many are written at once after a rest.
BURST = 40


class CountSlots:
    """Owner: the controller's thread."""

    def __init__(self, *, rate: float = RATE, burst: int = BURST) -> None:
        self._interval, self._burst = 1.0 / rate, burst
        self._next = 0.0

    def reserve(self, now: float) -> float:
        """Return the time from which one write may be sent; nobody else gets that slot."""
        self._next = max(self._next, now - self._interval * (self._burst - 1))
        slot, self._next = self._next, self._next + self._interval
        return max(slot, now)
