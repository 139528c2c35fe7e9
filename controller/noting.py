"""What was heard of and is not looked at yet, and what is to be looked at again, and when.

Invariants
- Nothing that was heard is lost: it is taken once, and whoever fails at it puts it back (`again`).
- `heard`, `wake` and `stop` are for any thread and never wait; the rest is the controller's thread's alone.
- What is due is taken no earlier, and by `take` at the latest when the time that it was given has come.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from cluster.store import STATUS, WHOLE

#: By queue, what changed: a member's UID, or WHOLE, STATUS, or GROUP and a PodGroup.
Noted = dict[str, set[str]]


class Notes:
    """Owner: the controller."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds."""
        self._clock = clock
        self._noted: Noted = {}
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        #: When a queue is to be looked at again.
        self._due: dict[str, float] = {}
        #: Of those, the ones whose members are to be looked at too.
        self._whole: set[str] = set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def heard(self, queue: str, what: str) -> None:
        """Take note of a change."""
        with self._changed:
            self._noted.setdefault(queue, set()).add(what)
            self._changed.notify()

    def wake(self, queues: Iterable[str] = ()) -> None:
        """Look about now, at the status of these queues too."""
        with self._changed:
            for queue in queues:
                self._noted.setdefault(queue, set()).add(STATUS)
            self._changed.notify()

    def stop(self) -> None:
        """`take` returns at once from now on, and `rest` too."""
        self._stopped.set()
        self.wake()

    def rest(self, seconds: float) -> None:
        """Wait that long, unless it is stopped."""
        self._stopped.wait(seconds)

    def again(self, noted: Mapping[str, Iterable[str]]) -> None:
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

    def take(self, times: Iterable[float]) -> Noted:
        """What was heard or is due, once there is any, or the earliest of `times` has come."""
        until = min([*times, *self._due.values()])
        with self._changed:
            while not self._noted and not self.stopped:
                wait = until - self._clock()
                if wait <= 0:
                    break
                self._changed.wait(wait)
            noted, self._noted = self._noted, {}
        now = self._clock()
        for queue in [queue for queue, when in self._due.items() if when <= now]:
            del self._due[queue]
            noted.setdefault(queue, set()).add(WHOLE if queue in self._whole else STATUS)
            self._whole.discard(queue)
        return noted
