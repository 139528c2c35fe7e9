"""What was heard of and is not looked at yet, and what is to be looked at again, and when.

Invariants
- Nothing that was heard is lost: it is taken once, and whoever fails at it puts it back (`again`).
- `heard`, `noticed`, `told`, `wake` and `stop` are for any thread and never wait; the rest is the
  controller's thread's alone.
- What is due is taken no earlier, and by `take` at the latest when the time that it was given has come.
- What was `heard` is taken at once, and all the rest with it. What was `noticed` alone is taken no sooner
  than `PACE_SECONDS` after the look before ended, unless somebody waits for it (`at_once`): where much
  happens it is looked at together, and where little does, at once. (A thousand pods that start are four
  thousand events; a look for each took an eighth of the processor time that the server takes to resume them.)
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
Noted = dict[str, set[What]]


class WorkQueue:
    """Owner: the controller."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._noted: Noted = {}
        self._changed = threading.Condition()
        #: Whether somebody waits for what is noted.
        self._urgent = False
        self._stopped = threading.Event()
        #: When a queue is to be looked at again.
        self._due: dict[str, float] = {}
        #: Of those, the ones whose members are to be looked at too.
        self._whole: set[str] = set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def heard(self, queue: str, what: What) -> None:
        """Take note of a change that somebody waits for."""
        with self._changed:
            self._noted.setdefault(queue, set()).add(what)
            self._hurry()

    def noticed(self, queue: str, what: What) -> None:
        """Take note of a change that can wait for others like it."""
        with self._changed:
            is_first = not self._noted
            self._noted.setdefault(queue, set()).add(what)
            if is_first:  # else whoever waits in `take` knows already until when
                self._changed.notify()

    def told(self, queue: str, what: What) -> None:
        """By the store: what a queue is to be is waited for; what becomes of its pods and status is not."""
        (self.heard if what == WHOLE else self.noticed)(queue, what)

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
        """`take` returns at once from now on, and `rest` too."""
        self._stopped.set()
        self.wake()

    def rest(self, seconds: float) -> None:
        """Wait that long, unless it is stopped."""
        self._stopped.wait(seconds)

    def again(self, noted: Mapping[str, Iterable[What]]) -> None:
        """Put back what was taken."""
        for queue, whats in noted.items():
            for what in whats:
                self.heard(queue, what)

    def soon(self, queue: str, seconds: float, *, members: bool) -> None:
        """Have the queue looked at again in so many seconds, and its `members` too, if it is not sooner."""
        if members:
            self._whole.add(queue)
        when = self._clock() + seconds
        self._due[queue] = min(when, self._due.get(queue, when))

    def take(self, times: Iterable[float], *, at_once: bool = False) -> Noted:
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
            noted, self._noted, self._urgent = self._noted, {}, False
        now = self._clock()
        for queue in [queue for queue, when in self._due.items() if when <= now]:
            del self._due[queue]
            noted.setdefault(queue, set()).add(WHOLE if queue in self._whole else STATUS)
            self._whole.discard(queue)
        return noted
