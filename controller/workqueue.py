"""The controller's work queue: which queues of the cluster have changed, and when each is looked at again.

Invariants
- No change is lost: `get` returns it once, and a caller that fails at it puts it back (`requeue`).
- `add`, `add_batched`, `add_change`, `wake` and `stop` may be called from any thread and never wait. All
  other methods are for the controller's thread alone.
- A queue that was added with a delay is returned no earlier, and by `get` at the latest at the time that
  `get` was given.
- A change that was added by `add` is returned at once, together with all others. Changes that were only added
  by `add_batched` are returned no sooner than `PACE_SECONDS` after the previous look ended, unless `at_once`
  is given. So where much happens it is looked at together, and where little happens, at once. (A thousand
  pods that start are four thousand events; a look for each took an eighth of the processor time that the
  server takes to resume them.)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from cluster.cache.store import (
    STATUS,
    WHOLE,
    What,
)

PACE_SECONDS = 0.02

#: By queue, what changed.
Changes = dict[str, set[What]]


class WorkQueue:
    """Owner: the controller."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._noted: Changes = {}
        self._changed = threading.Condition()
        #: Whether somebody waits for them.
        self._urgent = False
        self._stopped = threading.Event()
        #: When a queue is to be looked at again.
        self._due: dict[str, float] = {}
        #: Of those, the ones whose members are to be looked at too.
        self._whole: set[str] = set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def add(self, queue: str, what: What) -> None:
        """Take note of a change that somebody waits for."""
        with self._changed:
            self._noted.setdefault(queue, set()).add(what)
            self._hurry()

    def add_batched(self, queue: str, what: What) -> None:
        """Take note of a change that can wait for others like it."""
        with self._changed:
            is_first = not self._noted
            self._noted.setdefault(queue, set()).add(what)
            if is_first:  # else whoever waits in `get` knows already until when
                self._changed.notify()

    def add_change(self, queue: str, what: What) -> None:
        """By the store: what a queue is to be is waited for; what becomes of its pods and status is not."""
        (self.add if what == WHOLE else self.add_batched)(queue, what)

    def wake(self, queues: Iterable[str] = ()) -> None:
        """Look about now, at the status of these queues too."""
        with self._changed:
            for queue in queues:
                self._noted.setdefault(queue, set()).add(STATUS)
            self._hurry()

    def _hurry(self) -> None:
        self._urgent = True
        self._changed.notify()

    def stop(self) -> None:
        """`get` returns at once from now on, and `pause` too."""
        self._stopped.set()
        self.wake()

    def pause(self, seconds: float) -> None:
        """Wait that long, unless it is stopped."""
        self._stopped.wait(seconds)

    def requeue(self, changes: Mapping[str, Iterable[What]]) -> None:
        """Put back what was taken."""
        for queue, whats in changes.items():
            for what in whats:
                self.add(queue, what)

    def add_after(self, queue: str, seconds: float, *, members: bool) -> None:
        """Have the queue looked at again in so many seconds, and its `members` too, if it is not sooner."""
        if members:
            self._whole.add(queue)
        when = self._clock() + seconds
        self._due[queue] = min(when, self._due.get(queue, when))

    def get(self, times: Iterable[float], *, at_once: bool = False) -> Changes:
        """What was heard or is due, once there is any, or the earliest of `times` has come.

        `at_once`: somebody waits for whatever was noticed, too.
        """
        until = min([*times, *self._due.values()])
        paced = self._clock() + (0.0 if at_once else PACE_SECONDS)
        with self._changed:
            while not self._urgent and not self.stopped:
                wait = (min(until, paced) if self._noted else until) - self._clock()
                if wait <= 0:
                    break
                self._changed.wait(wait)
            changes, self._noted, self._urgent = self._noted, {}, False
        now = self._clock()
        for queue in [queue for queue, when in self._due.items() if when <= now]:
            del self._due[queue]
            changes.setdefault(queue, set()).add(WHOLE if queue in self._whole else STATUS)
            self._whole.discard(queue)
        return changes
