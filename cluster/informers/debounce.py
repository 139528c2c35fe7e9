"""One action for a burst of reasons to act.

Invariants
- After each `trigger` an action begins: `QUIET_SECONDS` after the last of a burst, and at most `MOST_SECONDS`
  after its first, where the former action is done and has had its rest.
- An action is not begun while the former one is not done, nor before `REST` times what that took has passed:
  all of them together take a fifth of the time at most.
- Whatever an action raises, the next one comes.
- Threads: any may ask; a thread of our own acts.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

QUIET_SECONDS = 0.5
MOST_SECONDS = 5.0
REST = 4.0
#: Between two looks at whether an action is done.
LOOK_SECONDS = 0.05

log = logging.getLogger(__name__)

#: Begins, and returns what tells whether all of it is done.
Action = Callable[[], Callable[[], bool]]


class Debouncer:
    """Owner: whoever acts, who starts and stops it."""

    def __init__(self, act: Action, *, name: str, clock: Callable[[], float]) -> None:
        self._act = act
        self._name = name
        self._clock = clock
        self._changed = threading.Condition()
        #: When the first and the last of the present burst were asked for.
        self._first: float | None = None
        self._last = 0.0
        self._acting = False
        self._stopped = False
        self._thread: threading.Thread | None = None

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def pending(self) -> bool:
        """Whether there is something that was asked for and is not done."""
        return self._first is not None or self._acting

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def trigger(self) -> None:
        """There is reason to act; returns at once."""
        with self._changed:
            self._last = self._clock()
            if self._first is None:
                self._first = self._last
                self._changed.notify()

    def _run(self) -> None:
        while self._until_due():
            began = self._clock()
            try:
                done = self._act()
                while not done():
                    if self._pause(LOOK_SECONDS):
                        return
            except Exception:
                log.exception("%s failed", self._name)
            self._acting = False
            if self._pause(REST * (self._clock() - began)):
                return

    def _until_due(self) -> bool:
        """Wait for a burst and its end, and take it; False if we are stopped."""
        with self._changed:
            while not self._stopped:
                if self._first is None:
                    self._changed.wait()
                    continue
                due = min(self._last + QUIET_SECONDS, self._first + MOST_SECONDS)
                if (left := due - self._clock()) <= 0:
                    self._acting, self._first = True, None  # in this order: it is pending throughout
                    return True
                self._changed.wait(left)
        return False

    def _pause(self, seconds: float) -> bool:
        """Wait; True if we are stopped."""
        end = self._clock() + seconds
        with self._changed:
            while not self._stopped and (left := end - self._clock()) > 0:
                self._changed.wait(left)
            return self._stopped
