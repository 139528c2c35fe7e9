"""One action for a burst of requests.

`Trigger` takes the requests; `Debouncer` acts on them in its own thread.

Invariants
- An action begins after each `fire`: `QUIET_SECONDS` after the last request of a burst, and at most
  `MAX_BURST_SECONDS` after its first, unless the former action is not done or its rest is not over.
- An action does not begin before the former one is done and `REST` times its duration has passed. So all
  actions together take at most a fifth of the time.
- An action that raises does not prevent the next one.
- A request is made for a version. `pending_up_to(version)` is False only once each request for that version
  or an earlier one was followed by an action that has ended. Requests for later versions do not count,
  however many they are. A caller that waits for this may end the burst (`end_burst`); the rest after the
  former action is kept all the same.

Threads: any thread may fire a trigger and read `pending`.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

from cluster.background_thread import BackgroundThread

QUIET_SECONDS = 0.5
MAX_BURST_SECONDS = 5.0
REST = 4.0
#: Between two checks whether an action is done.
CHECK_SECONDS = 0.05

log = logging.getLogger(__name__)

#: Begins an action. Returns a function that says whether all of it is done.
DebouncedCall = Callable[[], Callable[[], bool]]


class Trigger:
    """The requests that are not served yet. It may be fired before a `Debouncer` exists."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        #: When the first and the last request of the present burst came, in monotonic seconds.
        self._first: float | None = None
        self._last = 0.0
        #: The lowest version that the present burst is for, and the one that an action under way is for.
        self._lowest: int | None = None
        self._acting: int | None = None
        #: Whether the present burst was ended.
        self._is_over = False

    @property
    def pending(self) -> bool:
        """Whether an action is requested or not done."""
        return self.pending_up_to(math.inf)

    def pending_up_to(self, version: float) -> bool:
        """Whether an action that was requested for this version, or an earlier one, is not done."""
        lowest = self._lowest  # read before the other: `take` writes them the other way round
        acting = self._acting
        return (lowest is not None and lowest <= version) or (acting is not None and acting <= version)

    def fire(self, version: int = 0) -> None:
        """Request an action for this version; returns at once."""
        with self._changed:
            self._last = self._clock()
            self._lowest = version if self._lowest is None else min(version, self._lowest)
            if self._first is None:
                self._first = self._last
                self._changed.notify_all()

    def end_burst(self) -> None:
        """Make the action for the present burst, if there is one, begin without waiting for its end."""
        with self._changed:
            if self._first is not None and not self._is_over:
                self._is_over = True
                self._changed.notify_all()

    def seconds_until_due(self) -> float | None:
        """Return the seconds until the present burst is over; None if nothing is requested."""
        if self._first is None:
            return None
        if self._is_over:
            return 0.0
        return max(0.0, min(self._last + QUIET_SECONDS, self._first + MAX_BURST_SECONDS) - self._clock())

    def take(self, *, stopped: Callable[[], bool]) -> bool:
        """Wait for the end of a burst and take it, so that its action may begin; False once `stopped`."""
        with self._changed:
            while not stopped():
                left = self.seconds_until_due()
                if left == 0.0:
                    self._acting = self._lowest  # before the other is cleared: it stays pending
                    self._lowest = self._first = None
                    self._is_over = False
                    return True
                self._changed.wait(left)
        return False

    def finish(self) -> None:
        """Record that the action that was taken is done."""
        self._acting = None

    def wake(self) -> None:
        """Make `take` check `stopped` again."""
        with self._changed:
            self._changed.notify_all()


class Debouncer:
    """The thread that acts. Its owner starts and stops it."""

    def __init__(
        self, trigger: Trigger, act: DebouncedCall, *, name: str, clock: Callable[[], float]
    ) -> None:
        self._trigger = trigger
        self._act = act
        self._name = name
        self._clock = clock
        self._stopped = threading.Event()
        self._thread = BackgroundThread(self._run, name=name)

    @property
    def alive(self) -> bool:
        return self._thread.alive

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._trigger.wake()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        while self._trigger.take(stopped=self._stopped.is_set):
            began = self._clock()
            try:
                done = self._act()
                while not done():
                    if self._stopped.wait(CHECK_SECONDS):
                        return
            except Exception:
                log.exception("%s failed", self._name)
            self._trigger.finish()
            if self._stopped.wait(REST * (self._clock() - began)):
                return
