"""Sends many small writes with a few threads, the most urgent first.

Invariants
- At most one write for each key waits or is under way; submitting the same key again changes nothing.
- Writes are sent by rank (the smaller first), then by arrival. One that is tried again arrives anew: those of
  its rank that were not tried yet come before it, so that many that fail hold up no other.
- Where `slow_start` is given, a burst begins narrow: so many writes are under way at once, and one more after
  every `WRITES_PER_STEP` that have succeeded. All threads write after `SLOW_START_SECONDS`, so that a write
  that hangs holds up no other. What follows from the first of a thousand writes, such as a bind, competes
  with few of the others.
- Where `gives_way` is given, writes of `PATIENT_RANK` or later, such as events, are not sent while it holds,
  for `PATIENCE_SECONDS` each at most.
- Of the writes of one lane, one at a time is under way. The others do not block writes of other lanes.
- A write for which the API server is too busy (429, 5xx, no answer) is tried up to `MAX_TRIES` times, each
  time after the delay that the server asks for. A write that it refuses (404, 409, ...) is given up. The
  caller learns the outcome from `done(ok)`.
- While the server itself is busy or gone, the thread waits, so that it is not asked for more. A 500 may
  concern this object alone, such as a webhook that fails for it. Then no thread waits, and all other writes
  are sent.
- The key backs off (`backoff`) after a write that is refused for its content (any 4xx but 404, 409 and 410,
  or too large), or that fails in another way. Until then no write for this key is accepted (`wait`). The
  failure is named in the log, in the metrics, and in an event on `subject`.
- `stop()` ends each thread after the write that it has under way, and waits `STOP_SECONDS` at most.
  Waiting writes are dropped: all of them are derived from the cluster and will be derived again.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from cluster.backoff import Backoff
from cluster.exceptions import ClusterError, Overloaded, Refused, Unreachable
from cluster.key_backoff import FailureKind, KeyBackoff, key_text
from cluster.metrics import Metrics
from cluster.object_reference import ObjectReference

MAX_TRIES = 6
#: No write waits longer than this for its next try.
LONGEST_PAUSE_SECONDS = 5.0
#: The wait where the API server did not answer.
UNREACHABLE_BACKOFF = Backoff(0.2, LONGEST_PAUSE_SECONDS)
#: Answers that do not refuse the content: the object is gone, or has changed.
OUTDATED_STATUSES = frozenset({404, 409, 410})
#: Parts of the message, with any status, for an object that is too large for the API server or etcd.
TOO_LARGE = ("request is too large", "entity too large", "larger than max", "trying to send message larger")
#: The status of an API server that fails at one object, its webhooks included.
OBJECT_FAULT_STATUS = 500
WRITES_PER_STEP = 4
#: Nobody waits for what is written with this rank or a later one.
PATIENT_RANK = 9
PATIENCE_SECONDS = 30.0
#: How often it is looked whether these still give way.
GIVE_WAY_SECONDS = 0.05
#: So many writes as a full width takes are sent in less, but on a very busy API server.
SLOW_START_SECONDS = 0.1
#: For as long a stop waits for the writes that are under way, all of them together.
STOP_SECONDS = 5.0

log = logging.getLogger(__name__)

Key = tuple[str, Hashable]
Write = Callable[[], object]
Done = Callable[[bool], None]


class _Entry(msgspec.Struct, frozen=True, order=True):
    """A write that waits; `tries`: the number of tries so far; `since`: when it was submitted, in monotonic
    seconds.
    """

    rank: tuple[Any, ...]
    arrival: int
    key: Key
    write: Write
    done: Done | None
    lane: Hashable
    queue: str | None = None
    subject: ObjectReference | None = None
    tries: int = 0
    since: float = 0.0


class WriteQueue:
    """The waiting writes and the threads that send them. Owner: the server."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        threads: int = 4,
        name: str = "writer",
        backoff: KeyBackoff | None = None,
        slow_start: int | None = None,
        gives_way: Callable[[], bool] | None = None,
    ) -> None:
        """`slow_start`: with how many writes at once a burst begins; None: as many as there are threads.
        `gives_way`: whether others are more urgent than the last ranks; called from any thread.
        """
        self._metrics = metrics
        self._backoff = backoff or KeyBackoff()
        self._name = name
        self._heap: list[_Entry] = []
        #: The lanes with a write under way, and the writes that wait for each of them.
        self._busy: set[Hashable] = set()
        self._blocked: dict[Hashable, list[_Entry]] = {}
        #: Writes to be tried again, with their time in monotonic seconds; equal times are ordered by arrival.
        self._later: list[tuple[float, int, _Entry]] = []
        self._keys: set[Key] = set()
        self._arrivals = itertools.count()
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        #: How many writes are under way at most.
        self.width = threads
        self._first_width = slow_start or threads
        self._gives_way = gives_way
        #: How many writes of this burst have succeeded and are under way, and when all threads may write.
        self._succeeded = self._under_way = 0
        self._full_at = float("inf")
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for number in range(self.width):
            thread = threading.Thread(target=self._run, name=f"{self._name}-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopped.set()
        with self._changed:
            self._heap.clear()
            self._later.clear()
            self._blocked.clear()
            self._changed.notify_all()
        end = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, end - time.monotonic()))

    def dead(self) -> list[str]:
        """Return the names of the threads that were started and have ended."""
        return [thread.name for thread in self._threads if not thread.is_alive()]

    def submit(
        self,
        key: Key,
        write: Write,
        *,
        rank: tuple[Any, ...] = (),
        done: Done | None = None,
        lane: Hashable = None,
        queue: str | None = None,
        subject: ObjectReference | None = None,
    ) -> bool:
        """Submit a write. Returns False if one for this key waits or is under way, or if the key backs off.

        `queue`: is reconciled again after the back-off. `subject`: the written object, which gets an event
        if the write is refused.
        """
        if self.wait(key) > 0:
            return False
        with self._changed:
            if key in self._keys or self._stopped.is_set():
                return False
            self._keys.add(key)
            entry = _Entry(
                rank,
                next(self._arrivals),
                key,
                write,
                done,
                lane,
                queue,
                subject,
                since=time.monotonic(),
            )
            heapq.heappush(self._heap, entry)
            self._changed.notify()
        return True

    def wait(self, key: Key) -> float:
        """Return for how many seconds no write for this key is accepted, after the last one was refused."""
        return self._backoff.seconds_left(key[0], key[1], kind=FailureKind.WRITE)

    def pause(self, seconds: float) -> bool:
        """Wait inside a write; return True if the threads are being stopped."""
        return self._stopped.wait(seconds)

    def __len__(self) -> int:
        return len(self._keys)

    def _run(self) -> None:
        while (entry := self._next_entry()) is not None:
            self._carry_out(entry)

    def _carry_out(self, entry: _Entry) -> None:
        ok = self._attempt(entry)
        with self._changed:
            if ok is not None:
                self._keys.discard(entry.key)
            self._free_lane(entry.lane)
            self._record_end(ok=ok)
        if ok is not None and entry.done is not None:
            self._call_done(entry.key, entry.done, ok=ok)

    def _next_entry(self) -> _Entry | None:
        """Wait for the first write whose lane is free; None after `stop`."""
        with self._changed:
            while not self._stopped.is_set():
                self._enqueue_due()
                if not self._heap:
                    self._changed.wait(self._seconds_until_due())
                    continue
                if not self._has_room():
                    self._changed.wait(max(0.0, self._full_at - time.monotonic()))
                    continue
                if self._must_give_way(self._heap[0]):
                    self._changed.wait(GIVE_WAY_SECONDS)
                    continue
                entry = heapq.heappop(self._heap)
                if entry.lane is None or entry.lane not in self._busy:
                    self._record_begin(entry)
                    return entry
                heapq.heappush(self._blocked.setdefault(entry.lane, []), entry)
        return None

    def _has_room(self) -> bool:
        """Whether one more write may be under way now."""
        width = self._first_width + self._succeeded // WRITES_PER_STEP
        return self._under_way < width or time.monotonic() >= self._full_at

    def _must_give_way(self, first: _Entry) -> bool:
        """`first`: the one that would be sent now, so that all others are of its rank or later."""
        if self._gives_way is None or first.rank < (PATIENT_RANK,):
            return False
        return time.monotonic() < first.since + PATIENCE_SECONDS and self._gives_way()

    def _record_begin(self, entry: _Entry) -> None:
        if entry.lane is not None:
            self._busy.add(entry.lane)
        if not self._under_way and self._full_at == float("inf"):
            self._full_at = time.monotonic() + SLOW_START_SECONDS
        self._under_way += 1

    def _record_end(self, *, ok: bool | None) -> None:
        """A write has ended; with the last one the burst ends."""
        self._under_way -= 1
        if not self._under_way and not self._heap:
            self._succeeded, self._full_at = 0, float("inf")
        elif ok:
            self._succeeded += 1
            if not self._succeeded % WRITES_PER_STEP:
                self._changed.notify()

    def _enqueue_due(self) -> None:
        """Move the writes whose next try is due to the waiting ones."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            heapq.heappush(self._heap, heapq.heappop(self._later)[2])

    def _seconds_until_due(self) -> float | None:
        return max(0.0, self._later[0][0] - time.monotonic()) if self._later else None

    def _retry_later(self, entry: _Entry, seconds: float) -> None:
        """Try the write again in so many seconds."""
        again = msgspec.structs.replace(entry, tries=entry.tries + 1, arrival=next(self._arrivals))
        with self._changed:
            if not self._stopped.is_set():
                heapq.heappush(self._later, (time.monotonic() + seconds, again.arrival, again))
                self._changed.notify()

    def _free_lane(self, lane: Hashable) -> None:
        if lane is None:
            return
        self._busy.discard(lane)
        blocked = self._blocked.get(lane)
        if blocked:
            heapq.heappush(self._heap, heapq.heappop(blocked))
            self._changed.notify()
        else:
            self._blocked.pop(lane, None)

    def _call_done(self, key: Key, done: Done, *, ok: bool) -> None:
        try:
            done(ok)
        except Exception:
            log.exception("the callback for %s of %s failed", key[0], key[1])

    def _attempt(self, entry: _Entry) -> bool | None:
        """Send a write; return whether it succeeded, or None if it will be tried again."""
        what, name = entry.key
        try:
            entry.write()
        except Exception as exc:  # no exception ends the thread
            return self._handle_failure(entry, exc)
        self._metrics.writes.labels(what, "done").inc()
        self._backoff.forget(what, name, kind=FailureKind.WRITE)
        return True

    def _handle_failure(self, entry: _Entry, exc: Exception) -> bool | None:
        """Handle a failed write; return False if it is given up, None if it will be tried again."""
        what, name = entry.key
        count = self._metrics.writes.labels
        subject = entry.subject
        if isinstance(exc, Overloaded | Unreachable) and not _is_too_large(exc):
            count(what, "retried").inc()
            if entry.tries + 1 < MAX_TRIES:
                self._retry_later(entry, self._wait_if_busy(_pause(exc, tries=entry.tries), exc))
                return None
            log.warning("%s of %s was given up after %d tries: %s", what, key_text(name), MAX_TRIES, exc)
            subject = subject if isinstance(exc, Overloaded) else None
        else:
            if isinstance(exc, Refused) and exc.status in OUTDATED_STATUSES:
                count(what, "outdated").inc()
                return False
            count(what, "refused" if isinstance(exc, Refused) else "failed").inc()
        self._backoff.record_failure(
            what, name, exc, kind=FailureKind.WRITE, queue=entry.queue, subject=subject
        )
        return False

    def _wait_if_busy(self, seconds: float, exc: ClusterError) -> float:
        """Wait in this thread if the server itself is busy or gone; return the seconds still to wait."""
        if isinstance(exc, Refused) and exc.status == OBJECT_FAULT_STATUS:
            return seconds
        self._stopped.wait(seconds)
        return 0.0


def _pause(exc: Overloaded | Unreachable, *, tries: int) -> float:
    """Return the seconds until the next try: the server's Retry-After, longer with each try but for 429."""
    if isinstance(exc, Unreachable):
        return UNREACHABLE_BACKOFF.seconds(tries + 1)
    backoff = Backoff(exc.retry_after, LONGEST_PAUSE_SECONDS)
    return backoff.seconds(1 if exc.status == 429 else tries + 1)


def _is_too_large(exc: ClusterError) -> bool:
    return isinstance(exc, Refused) and any(words in exc.message for words in TOO_LARGE)
