"""A long computation in slices, so that the threads that answer requests have the interpreter in between."""

from __future__ import annotations

import time
from collections.abc import Callable

#: A slice.
SLICE_SECONDS = 0.002
#: Between two slices: long enough for a thread that waits for the interpreter to be woken and to take it.
PAUSE_SECONDS = 0.0002


class Slices:
    """For one thread. `clock`: monotonic seconds."""

    def __init__(self, clock: Callable[[], float], *, sleep: Callable[[float], object] = time.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._began = clock()

    def begin(self) -> None:
        """The computation begins."""
        self._began = self._clock()

    def pause(self) -> None:
        """Called between two steps: pauses once the slice is over."""
        if self._clock() - self._began >= SLICE_SECONDS:
            self._sleep(PAUSE_SECONDS)
            self._began = self._clock()
