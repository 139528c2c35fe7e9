"""A long computation in slices, so that the threads that answer requests have the interpreter in between.

Only one thread at a time has the interpreter. Another one that wants it is given it after a while
(the switch interval of Python), and loses it again the first time that it waits for anything: a request
would wait several times. So a computation gives way as soon as it sees that it was interrupted: it has been
off the processor, though it did not pause. It then sleeps for about as long as a request takes.

Invariant: whatever else goes on, the computation has the interpreter for one step between two pauses.
"""

from __future__ import annotations

import time
from collections.abc import Callable

#: A slice.
SLICE_SECONDS = 0.002
#: Between two slices: long enough for a thread that waits for the interpreter to be woken and to take it.
PAUSE_SECONDS = 0.0002
#: Off the processor for so long: another thread has had the interpreter.
INTERRUPTED_SECONDS = 0.00002
#: For how long it is left to that one: about what a request takes.
GIVE_WAY_SECONDS = 0.0004


class Slices:
    """For one thread. `clock`: monotonic seconds. `busy`: seconds of the processor that this thread had."""

    def __init__(
        self,
        clock: Callable[[], float] = time.perf_counter,
        *,
        busy: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._clock = clock
        self._busy = busy
        self._sleep = sleep
        self.begin()

    def begin(self) -> None:
        """The computation begins."""
        self._began = self._last = self._clock()
        self._off = self._began - self._busy()

    def pause(self) -> None:
        """Called between two steps: pauses once the slice is over, or others want the interpreter."""
        now = self._clock()
        took, self._last = now - self._last, now
        # What took less was not interrupted. To ask the system takes as long as a step.
        if took >= INTERRUPTED_SECONDS and now - self._busy() - self._off >= INTERRUPTED_SECONDS:
            self._sleep(GIVE_WAY_SECONDS)
        elif now - self._began >= SLICE_SECONDS:
            self._sleep(PAUSE_SECONDS)
        else:
            return
        self.begin()
