"""One action for a burst of requests.

`Trigger` takes the requests; `Debouncer` acts on them in its own thread.

Invariants
- An action begins after each `fire`: `QUIET_SECONDS` after the last request of a burst, and at most
  `MAX_BURST_SECONDS` after its first, unless the former action is not done or its rest is not over.
- An action does not begin before the former one is done and `REST` times its duration has passed. So all
  actions together take at most a fifth of the time.
- An action that raises does not prevent the next one.

Threads: any thread may fire a trigger and read `pending`.
"""

from __future__ import annotations

import logging
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
Action = Callable[[], Callable[[], bool]]


class Trigger:
    """The requests that are not served yet. It may be fired before a `Debouncer` exists."""

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        #: When the first and the last request of the present burst came, in monotonic seconds.
        self._first: float | None = None
        self._last = 0.0
        self._acting = False

    @property
    def pending(self) -> bool:
        """Whether an action is requested or not done."""
        return self._first is not None or self._acting

    def fire(self) -> None:
        """Request an action; returns at once."""
        with self._changed:
            self._last = self._clock()
            if self._first is None:
                self._first = self._last
                self._changed.notify_all()

    def seconds_until_due(self) -> float | None:
        """Return the seconds until the present burst is over; None if nothing is requested."""
        if self._first is None:
            return None
        return max(0.0, min(self._last + QUIET_SECONDS, self._first + MAX_BURST_SECONDS) - self._clock())

    def take(self, *, stopped: Callable[[], bool]) -> bool:
        """Wait for the end of a burst and take it, so that its action may begin; False once `stopped`."""
        with self._changed:
            while not stopped():
                left = self.seconds_until_due()
                if left == 0.0:
                    self._acting, self._first = True, None  # in this order `pending` stays True
                    return True
                self._changed.wait(left)
        return False

    def finish(self) -> None:
        """Record that the action that was taken is done."""
        self._acting = False

    def wake(self) -> None:
        """Make `take` check `stopped` again."""
        with self._changed:
            self._changed.notify_all()


class Debouncer:
    """The thread that acts. Its owner starts and stops it."""

    def __init__(self, trigger: Trigger, act: Action, *, name: str, clock: Callable[[], float]) -> None:
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
