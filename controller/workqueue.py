"""The controller's work queue: which queues of the cluster have changed, when each is looked at again, and
what came of the requests that other threads sent for the controller.

Invariants
- No change is lost: `get` returns it once, and a caller that fails at it puts it back (`requeue`).
- No result is lost: each that was delivered is passed on by `get`, once, in the order of delivery, on the
  controller's thread, before `get` returns. What one of them raises is logged and counted, and concerns no
  other one.
- `add`, `add_batched`, `add_change`, `deliver`, `wake` and `stop` may be called from any thread and never
  wait. All other methods are for the controller's thread alone.
- A queue that was added with a delay is returned no earlier, and by `get` at the latest at the time that
  `get` was given.
- A change that was added by `add` is returned at once, together with all others. Changes that were only added
  by `add_batched` are returned no sooner than `PACE_SECONDS` after the previous look ended, unless `at_once`
  is given. So where much happens it is looked at together, and where little happens, at once. (A thousand
  pods that start are four thousand events; a look for each took an eighth of the processor time that the
  server takes to resume them.) The same holds for results.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from cluster.cache.changes import Change, QueueChange
from cluster.key_backoff import KeyBackoff

PACE_SECONDS = 0.02

#: By queue.
Changes = dict[str, set[Change]]
#: Passes a result on to the part that asked for it.
Result = Callable[[], object]


class WorkQueue:
    """Owner: the server; shared by the controller, its parts, and the threads that work for them."""

    def __init__(self, clock: Callable[[], float], *, backoff: KeyBackoff | None = None) -> None:
        """`clock`: monotonic seconds. `backoff`: counts and logs results that could not be passed on."""
        self._clock = clock
        self._backoff = backoff or KeyBackoff(clock=clock)
        self._changes: Changes = {}
        self._results: deque[Result] = deque()
        self._condition = threading.Condition()
        #: Whether somebody waits for the changes or the results.
        self._urgent = False
        self._stopped = threading.Event()
        #: When a queue is to be looked at again.
        self._due: dict[str, float] = {}
        #: Of those, the ones whose members are to be looked at too.
        self._whole: set[str] = set()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def add(self, queue: str, change: Change) -> None:
        """Add a change that somebody waits for."""
        with self._condition:
            self._changes.setdefault(queue, set()).add(change)
            self._hurry()

    def add_batched(self, queue: str, change: Change) -> None:
        """Add a change that can wait for others like it."""
        with self._condition:
            is_first = not self._changes
            self._changes.setdefault(queue, set()).add(change)
            if is_first:  # else the thread that waits in `get` already knows until when
                self._condition.notify()

    def add_change(self, queue: str, change: Change) -> None:
        """As the store tells it: specs and Commands are waited for; pods, PodGroups and statuses are not."""
        is_urgent = change is QueueChange.SPEC or change is QueueChange.COMMANDS
        (self.add if is_urgent else self.add_batched)(queue, change)

    def add_after(self, queue: str, seconds: float, *, members: bool) -> None:
        """Have the queue looked at again in so many seconds, and its `members` too, if it is not sooner."""
        if members:
            self._whole.add(queue)
        when = self._clock() + seconds
        self._due[queue] = min(when, self._due.get(queue, when))

    def requeue(self, changes: Mapping[str, Iterable[Change]]) -> None:
        """Put back what `get` returned."""
        for queue, each in changes.items():
            for change in each:
                self.add(queue, change)

    def deliver(self, result: Result, *, batched: bool = False) -> None:
        """Have `result` called on the controller's thread. `batched`: it can wait for others like it."""
        with self._condition:
            is_first = not self._changes and not self._results
            self._results.append(result)
            if not batched:
                self._hurry()
            elif is_first:
                self._condition.notify()

    def wake(self, queues: Iterable[str] = ()) -> None:
        """Have a look begin now, at the status of these queues too."""
        with self._condition:
            for queue in queues:
                self._changes.setdefault(queue, set()).add(QueueChange.STATUS)
            self._hurry()

    def _hurry(self) -> None:
        self._urgent = True
        self._condition.notify()

    def stop(self) -> None:
        """`get` returns at once from now on, and `pause` too."""
        self._stopped.set()
        self.wake()

    def pause(self, seconds: float) -> None:
        """Wait that long, unless it is stopped."""
        self._stopped.wait(seconds)

    def get(self, times: Iterable[float], *, at_once: bool = False) -> Changes:
        """Wait until there is a change, a result or a queue that is due, or the earliest of `times` has come.
        Pass the results on; return the changes.

        `at_once`: somebody waits for batched changes, too.
        """
        self._wait(min([*times, *self._due.values()]), at_once=at_once)
        self._pass_results_on()
        with self._condition:
            changes, self._changes = self._changes, {}
            self._urgent = bool(self._results)
        now = self._clock()
        for queue in [queue for queue, when in self._due.items() if when <= now]:
            del self._due[queue]
            whole = queue in self._whole
            changes.setdefault(queue, set()).add(QueueChange.SPEC if whole else QueueChange.STATUS)
            self._whole.discard(queue)
        return changes

    def _wait(self, until: float, *, at_once: bool) -> None:
        paced = self._clock() + (0.0 if at_once else PACE_SECONDS)
        with self._condition:
            while not self._urgent and not self.stopped:
                is_any = self._changes or self._results
                wait = (min(until, paced) if is_any else until) - self._clock()
                if wait <= 0:
                    break
                self._condition.wait(wait)

    def _pass_results_on(self) -> None:
        """Those that there are now; what they lead to is for the next time."""
        for _ in range(len(self._results)):
            result = self._results.popleft()
            try:
                result()
            except Exception as exc:
                self._backoff.record_failure("result", "", exc)
