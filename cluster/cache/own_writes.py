"""The versions of our own writes: once a cache has one, it has what was stored before that write was begun.

Threads: any. Leases and markers are written by different ones; readers take no lock.
"""

from __future__ import annotations

import threading

#: Writes that are remembered. A Lease is renewed every second or two; a pod event arrives sooner.
MAX_WRITES = 64


class OwnWrites:
    """Owner: the store."""

    def __init__(self) -> None:
        #: The versions, and when each write was begun; replaced under the lock, never changed.
        self._writes: tuple[tuple[int, float], ...] = ()
        self._lock = threading.Lock()

    def record(self, at: float, version: int) -> None:
        """Record that a write was stored as this version, begun at `at` (monotonic seconds) or later."""
        with self._lock:
            self._writes = (*self._writes[1 - MAX_WRITES :], (version, at))

    @property
    def last(self) -> int:
        """The highest version of our own writes; 0 before the first one."""
        return max((version for version, _ in self._writes), default=0)

    def begun_up_to(self, version: int) -> float | None:
        """Return when the last write was begun whose version is not above this one; None without one."""
        return max((begun for stored, begun in self._writes if stored <= version), default=None)
