"""Many small writes, most urgent first, by a few threads.

Invariants
- At most one write a key is waiting or under way; asking again for the same key changes nothing.
- Order: by the rank given (smaller first), then by arrival.
- Of the writes of one lane one is under way at a time; the others make room for whatever has none.
- A write that the API server is too busy for (429, 5xx, no answer) is tried again up to `MAX_TRIES`
  times, after the time it asks for; one it refuses (404, 409, ...) is given up. Either way whoever
  asked is told by the return of `done(key, ok)`.
- Where the server itself is busy or gone the thread waits, so that nobody asks more of it. A 500 may be of
  this object alone, such as a webhook that fails for it: then no thread waits, and all others are written.
- A write that is refused for what it says (any 4xx but 404, 409 and 410, or that it is too large), or that
  fails in another way, has its key back off (`backoff`): until then none of this key is taken (`wait`).
  It is named in the log, the metrics, and an event on its `subject`.
- `stop()` ends the threads after the write each has under way; what waits is dropped, for all of it
  is derived from the cluster and will be derived again.
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

from cluster.exceptions import ClusterError, Overloaded, Refused, Unreachable
from cluster.key_backoff import KeyBackoff, key_text
from cluster.metrics import Metrics
from cluster.object_reference import ObjectReference

MAX_TRIES = 6
#: Answers that say nothing against what was written: the object is gone, or another one by now.
OUTDATED_STATUSES = frozenset({404, 409, 410})
#: What the API server says of an object that it or etcd does not take for its size, with whatever status.
TOO_LARGE = ("request is too large", "entity too large", "larger than max", "trying to send message larger")
#: What the API server says where it fails at an object, a webhook for it included.
OBJECT_FAULT_STATUS = 500
#: Before the key of a write, in `backoff`.
STEP = "write"

log = logging.getLogger(__name__)

Key = tuple[str, Hashable]
Write = Callable[[], object]
Done = Callable[[bool], None]


class _Entry(msgspec.Struct, frozen=True, order=True):
    """A write that waits; `tries`: how often it has been tried."""

    rank: tuple[Any, ...]
    arrival: int
    key: Key
    write: Write
    done: Done | None
    lane: Hashable
    queue: str | None = None
    subject: ObjectReference | None = None
    tries: int = 0


class WriteQueue:
    """The threads. Owner: the server."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        threads: int = 4,
        name: str = "writer",
        backoff: KeyBackoff | None = None,
    ) -> None:
        self._metrics = metrics
        self._backoff = backoff or KeyBackoff()
        self._name = name
        self._heap: list[_Entry] = []
        #: The lanes with a write under way, and what waits for them.
        self._busy: set[Hashable] = set()
        self._blocked: dict[Hashable, list[_Entry]] = {}
        #: Those to be tried again, and when, in monotonic seconds; by arrival where that is the same.
        self._later: list[tuple[float, int, _Entry]] = []
        self._keys: set[Key] = set()
        self._arrivals = itertools.count()
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        self._number = threads
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for number in range(self._number):
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
        for thread in self._threads:
            thread.join(timeout=5)

    def dead(self) -> list[str]:
        """The threads that were started and have ended."""
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
        """Ask for a write; False if one of this key is waiting or under way already, or the key backs off.

        `queue`: is looked at again when the back-off is over. `subject`: the object that is written, for an
        event if the write is refused.
        """
        if self.wait(key) > 0:
            return False
        with self._changed:
            if key in self._keys or self._stopped.is_set():
                return False
            self._keys.add(key)
            entry = _Entry(rank, next(self._arrivals), key, write, done, lane, queue, subject)
            heapq.heappush(self._heap, entry)
            self._changed.notify()
        return True

    def wait(self, key: Key) -> float:
        """For how many seconds no write of this key is taken, since the last one was refused."""
        return self._backoff.seconds_left(f"{STEP} {key[0]}", key[1])

    def pause(self, seconds: float) -> bool:
        """Wait inside a write; True if the writers are being stopped."""
        return self._stopped.wait(seconds)

    def __len__(self) -> int:
        return len(self._keys)

    def _run(self) -> None:
        while (entry := self._next()) is not None:
            self._carry_out(entry)

    def _carry_out(self, entry: _Entry) -> None:
        ok = self._attempt(entry)
        with self._changed:
            if ok is not None:
                self._keys.discard(entry.key)
            self._free_lane(entry.lane)
        if ok is not None and entry.done is not None:
            self._call_done(entry.key, entry.done, ok=ok)

    def _next(self) -> _Entry | None:
        """The first whose lane is free, waited for; None at the end."""
        with self._changed:
            while not self._stopped.is_set():
                self._enqueue_due()
                if not self._heap:
                    self._changed.wait(self._seconds_until_due())
                    continue
                entry = heapq.heappop(self._heap)
                if entry.lane is None:
                    return entry
                if entry.lane not in self._busy:
                    self._busy.add(entry.lane)
                    return entry
                heapq.heappush(self._blocked.setdefault(entry.lane, []), entry)
        return None

    def _enqueue_due(self) -> None:
        """Put what is to be tried again now among what waits."""
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            heapq.heappush(self._heap, heapq.heappop(self._later)[2])

    def _seconds_until_due(self) -> float | None:
        return max(0.0, self._later[0][0] - time.monotonic()) if self._later else None

    def _retry_later(self, entry: _Entry, seconds: float) -> None:
        """Try it again in so many seconds."""
        again = msgspec.structs.replace(entry, tries=entry.tries + 1)
        with self._changed:
            if not self._stopped.is_set():
                heapq.heappush(self._later, (time.monotonic() + seconds, entry.arrival, again))
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
            log.exception("whoever asked for %s of %s failed on hearing of it", key[0], key[1])

    def _attempt(self, entry: _Entry) -> bool | None:
        """Whether it was written; None if it will be tried again."""
        what, name = entry.key
        try:
            entry.write()
        except Exception as exc:  # whatever it is, the thread goes on
            return self._failed(entry, exc)
        self._metrics.writes.labels(what, "done").inc()
        self._backoff.forget(f"{STEP} {what}", name)
        return True

    def _failed(self, entry: _Entry, exc: Exception) -> bool | None:
        """False if it is given up; None if it will be tried again."""
        what, name = entry.key
        count = self._metrics.writes.labels
        subject = entry.subject
        if isinstance(exc, Overloaded | Unreachable) and not _is_too_large(exc):
            count(what, "retried").inc()
            if entry.tries + 1 < MAX_TRIES:
                self._retry_later(entry, self._waited(_pause(exc, tries=entry.tries), exc))
                return None
            log.warning("%s of %s was given up after %d tries: %s", what, key_text(name), MAX_TRIES, exc)
            subject = subject if isinstance(exc, Overloaded) else None
        else:
            if isinstance(exc, Refused) and exc.status in OUTDATED_STATUSES:
                count(what, "outdated").inc()
                return False
            count(what, "refused" if isinstance(exc, Refused) else "failed").inc()
        self._backoff.record_failure(f"{STEP} {what}", name, exc, queue=entry.queue, subject=subject)
        return False

    def _waited(self, seconds: float, exc: ClusterError) -> float:
        """The seconds that are left to wait, after the thread has, where it is to."""
        if isinstance(exc, Refused) and exc.status == OBJECT_FAULT_STATUS:
            return seconds
        self._stopped.wait(seconds)
        return 0.0


def _pause(exc: Overloaded | Unreachable, *, tries: int) -> float:
    """Seconds until the next try: what a busy server asks for; longer each time where it cannot say."""
    if isinstance(exc, Unreachable):
        return min(0.2 * 2.0**tries, 5.0)
    return min(exc.retry_after * (1.0 if exc.status == 429 else 2.0**tries), 5.0)


def _is_too_large(exc: ClusterError) -> bool:
    return isinstance(exc, Refused) and any(words in exc.message for words in TOO_LARGE)
