"""The controller's work queue: which queues have changed, when a queue is synced again, and the results of
requests that other threads have sent for the controller.

Invariants
- No change is lost: `get` returns it once, and a caller that fails puts it back (`requeue`).
- No result is lost: `get` passes each on once, in the order of delivery, on the controller's thread, before
  it returns. An exception in one of them is logged and counted, and does not stop the others.
- `add`, `add_batched`, `add_change`, `deliver`, `wake` and `stop` may be called from any thread and never
  wait. All other methods are for the controller's thread alone.
- A change that was added with a delay (`add_after`) is not returned earlier. `get` returns at the latest at
  the time that it was given.
- Each kind of change of a queue has a due time of its own: a status that is due soon does not use up the
  look at the members that is due later. Of two times for one kind the sooner counts, as in client-go. So a
  part that is called before its own time must add it again.
- An urgent change (`add`) is returned at once, together with all others. Batched changes (`add_batched`) are
  returned no sooner than `PACE_SECONDS` after the previous `get`, unless `at_once` is given. So many changes
  are handled in one sync, and few changes at once. (A thousand pods that start are four thousand events. A
  sync for each took an eighth of the processor time that the server takes to resume them.) The same holds for
  results.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping

from cluster.cache.changes import ClusterChange, QueueChange, StoreChange
from cluster.key_backoff import KeyBackoff

PACE_SECONDS = 0.02

#: Of the changes that the store reports: many objects that change do not cause many of these.
URGENT = frozenset[StoreChange](
    {
        QueueChange.SPEC,
        QueueChange.RESYNC,
        QueueChange.MEMBERS,
        QueueChange.COMMANDS,
        ClusterChange.NAMESPACES,
    }
)

#: By queue; of `NO_QUEUE` too.
ChangesByPart = dict[str, set[StoreChange]]
#: Passes a result on to the part that asked for it.
Result = Callable[[], object]


#: A queue, and what of it is due.
DueKey = tuple[str, QueueChange]
#: Outdated entries of a heap, at least, before it is built again.
MIN_OUTDATED = 64


class _DueTimes:
    """When which change of a queue is due.

    A heap: of thousands of queues only those that are due are looked at.
    """

    def __init__(self) -> None:
        self._due: dict[DueKey, float] = {}
        #: Time, a number that makes entries comparable, key. Outdated where `_due` has another time.
        self._heap: list[tuple[float, int, DueKey]] = []
        self._numbers = itertools.count()

    def add(self, key: DueKey, when: float) -> None:
        """Have it due then, unless it is due sooner."""
        if when >= self._due.get(key, math.inf):
            return
        self._due[key] = when
        heapq.heappush(self._heap, (when, next(self._numbers), key))
        if len(self._heap) > 2 * len(self._due) + MIN_OUTDATED:
            self._heap = [entry for entry in self._heap if self._is_current(entry)]
            heapq.heapify(self._heap)

    def next(self) -> float:
        """The earliest time; infinity for none."""
        while self._heap and not self._is_current(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else math.inf

    def take(self, now: float) -> list[DueKey]:
        """Remove and return what is due."""
        taken = []
        while self.next() <= now:
            _, _, key = heapq.heappop(self._heap)
            del self._due[key]
            taken.append(key)
        return taken

    def _is_current(self, entry: tuple[float, int, DueKey]) -> bool:
        when, _, key = entry
        return self._due.get(key) == when


class WorkQueue:
    """Owner: the server; shared by the controller, its parts, and the threads that work for them."""

    def __init__(self, clock: Callable[[], float], *, backoff: KeyBackoff | None = None) -> None:
        """`clock`: monotonic seconds. `backoff`: counts and logs results that could not be passed on."""
        self._clock = clock
        self._backoff = backoff or KeyBackoff(clock=clock)
        self._changes: ChangesByPart = {}
        self._results: deque[Result] = deque()
        self._condition = threading.Condition()
        #: Whether one of the changes or of the results is not batched.
        self._urgent = False
        self._stopped = threading.Event()
        self._due = _DueTimes()

    @property
    def stopped(self) -> bool:
        return self._stopped.is_set()

    def add(self, queue: str, change: StoreChange) -> None:
        """Add an urgent change."""
        with self._condition:
            self._changes.setdefault(queue, set()).add(change)
            self._make_urgent()

    def add_batched(self, queue: str, change: StoreChange) -> None:
        """Add a change that may wait for others like it."""
        with self._condition:
            is_first = not self._changes
            self._changes.setdefault(queue, set()).add(change)
            if is_first:  # else the thread that waits in `get` already knows until when
                self._condition.notify()

    def add_change(self, queue: str, change: StoreChange) -> None:
        """Add a change that the store reports: one of a single object may wait for others like it."""
        (self.add if change in URGENT else self.add_batched)(queue, change)

    def add_after(self, queue: str, change: QueueChange, *, seconds: float) -> None:
        """Add the change in so many seconds, if it is not due sooner."""
        self._due.add((queue, change), self._clock() + seconds)

    def requeue(self, changes: Mapping[str, Iterable[StoreChange]]) -> None:
        """Put back what `get` returned."""
        for queue, changes_of_queue in changes.items():
            for change in changes_of_queue:
                self.add(queue, change)

    def deliver(self, result: Result, *, batched: bool = False) -> None:
        """Call `result` on the controller's thread, soon. `batched`: it may wait for others like it."""
        with self._condition:
            is_first = not self._changes and not self._results
            self._results.append(result)
            if not batched:
                self._make_urgent()
            elif is_first:
                self._condition.notify()

    def wake(self, queues: Iterable[str] = ()) -> None:
        """Begin a sync now. The status of these queues is part of it."""
        with self._condition:
            for queue in queues:
                self._changes.setdefault(queue, set()).add(QueueChange.STATUS)
            self._make_urgent()

    def _make_urgent(self) -> None:
        self._urgent = True
        self._condition.notify()

    def stop(self) -> None:
        """`get` returns at once from now on, and `pause` too."""
        self._stopped.set()
        self.wake()

    def pause(self, seconds: float) -> None:
        """Wait for so many seconds, or until `stop`."""
        self._stopped.wait(seconds)

    def get(self, times: Iterable[float], *, at_once: bool = False) -> ChangesByPart:
        """Wait until there is a change or a result, a queue is due, or the earliest of `times` has come. Pass
        the results on; return the changes.

        `at_once`: batched changes and results are urgent as well.
        """
        self._wait(min([self._due.next(), *times]), at_once=at_once)
        self._pass_results_on()
        with self._condition:
            changes, self._changes = self._changes, {}
            self._urgent = bool(self._results)
        for queue, change in self._due.take(self._clock()):
            changes.setdefault(queue, set()).add(change)
        return changes

    def _wait(self, until: float, *, at_once: bool) -> None:
        batch_until = self._clock() + (0.0 if at_once else PACE_SECONDS)
        with self._condition:
            while not self._urgent and not self.stopped:
                has_work = self._changes or self._results
                wait = (min(until, batch_until) if has_work else until) - self._clock()
                if wait <= 0:
                    break
                self._condition.wait(wait)

    def _pass_results_on(self) -> None:
        """Pass on the results that there are now. What these deliver is for the next `get`."""
        for _ in range(len(self._results)):
            result = self._results.popleft()
            try:
                result()
            except Exception as exc:
                self._backoff.record_failure("result", "", exc)
