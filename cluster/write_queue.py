"""Sends many small writes with a few threads, the most urgent first.

Invariants
- At most one write for each key waits or is under way; submitting the same key again changes nothing. What is
  sent next is what `cluster.waiting_writes` says, by the ranks of `cluster.write_ranks`.
- With `slow_start` a burst begins narrow: that many writes are under way at once, and one more after every
  `WRITES_PER_STEP` that have succeeded. So the consequence of the first of a thousand writes, such as a bind,
  competes with few of the others. After `SLOW_START_SECONDS` all threads write, so that a write that hangs
  does not delay the others.
- With `gives_way` no event is sent while it holds, for at most `PATIENCE_SECONDS` each.
- A write for which the API server is too busy (429, 5xx, no answer) is tried up to `MAX_TRIES` times, each
  time after the delay that the server asks for. A write that it refuses (404, 409, ...) is given up. The
  caller learns the outcome from `done(ok)`.
- While the server itself is busy or gone, the thread waits, so that it is not asked for more. A 500 may
  concern this object alone, such as a webhook that fails for it. Then no thread waits, and all other writes
  are sent.
- The key backs off (`backoff`) after a write that is refused for its content (any 4xx but 404, 409 and 410,
  or too large), or that fails in another way. Until then no write for this key is accepted (`wait`). The
  failure is named in the log, in the metrics, and in an event on `subject`. The same holds from the
  `MANY_OUTDATED`th time in a row on where writes for a key are answered that the object has changed or is
  gone: webhooks deny with any status.
- `stop()` ends each thread after the write that it has under way, and waits `STOP_SECONDS` at most.
  Waiting writes are dropped: all of them are derived from the cluster and will be derived again.
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable
from typing import Any

from cluster.backoff import Backoff
from cluster.exceptions import ClusterError, Overloaded, Refused, Unreachable
from cluster.key_backoff import FailureKind, KeyBackoff, key_text
from cluster.metrics import Metrics
from cluster.object_reference import ObjectReference
from cluster.waiting_writes import OnWritten, PendingWrite, SendWrite, WaitingWrites, WriteKey
from cluster.write_ranks import WriteRank

MAX_TRIES = 6
#: No write waits longer than this for its next try.
LONGEST_PAUSE_SECONDS = 5.0
#: The wait where the API server did not answer.
UNREACHABLE_BACKOFF = Backoff(0.2, LONGEST_PAUSE_SECONDS)
#: Answers that do not refuse the content: the object is gone, or has changed.
OUTDATED_STATUSES = frozenset({404, 409, 410})
#: No object changes before so many writes in a row, each made for what it was last; and how many keys are
#: remembered for that.
MANY_OUTDATED, MAX_OUTDATED = 10, 10_000
#: Parts of the message, with any status, for an object that is too large for the API server or etcd.
TOO_LARGE = ("request is too large", "entity too large", "larger than max", "trying to send message larger")
#: The status of an API server that fails at one object, its webhooks included.
OBJECT_FAULT_STATUS = 500
WRITES_PER_STEP = 4
PATIENCE_SECONDS = 30.0
#: How often it is looked whether these still give way.
GIVE_WAY_SECONDS = 0.05
#: Enough to reach the full width, except on a very busy API server.
SLOW_START_SECONDS = 0.1
#: How long `stop` waits for all writes that are under way together.
STOP_SECONDS = 5.0

log = logging.getLogger(__name__)


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
        longest_wait: float = math.inf,
    ) -> None:
        """`slow_start`: with how many writes at once a burst begins; None: as many as there are threads.
        `gives_way`: whether others are more urgent than events; called from any thread. `longest_wait`: after
        so many seconds a write goes before those of smaller ranks (`WaitingWrites`); at least
        `PATIENCE_SECONDS` where `gives_way` is given.
        """
        self._metrics = metrics
        self._backoff = backoff or KeyBackoff()
        self._name = name
        self._waiting = WaitingWrites(longest_wait=longest_wait)
        self._arrivals = itertools.count()
        self._changed = threading.Condition()
        self._stopped = threading.Event()
        #: By key: how many writes in a row were answered that the object had changed or was gone.
        self._outdated: dict[WriteKey, int] = {}
        #: How many writes are under way at most.
        self.width = threads
        self._first_width = slow_start or threads
        self._gives_way = gives_way
        #: How many writes of this burst have succeeded, and when all threads may write.
        self._succeeded = 0
        self._full_at = math.inf
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        for number in range(self.width):
            thread = threading.Thread(target=self._run, name=f"{self._name}-{number}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopped.set()
        with self._changed:
            self._waiting.clear()
            self._changed.notify_all()
        end = time.monotonic() + STOP_SECONDS
        for thread in self._threads:
            thread.join(timeout=max(0.0, end - time.monotonic()))

    def dead(self) -> list[str]:
        """Return the names of the threads that were started and have ended."""
        return [thread.name for thread in self._threads if not thread.is_alive()]

    def submit(
        self,
        key: WriteKey,
        write: SendWrite,
        *,
        rank: WriteRank,
        order: tuple[Any, ...] = (),
        done: OnWritten | None = None,
        lane: Hashable = None,
        queue: str | None = None,
        subject: ObjectReference | None = None,
    ) -> bool:
        """Submit a write. Returns False if one for this key waits or is under way, or if the key backs off.

        `order`: of writes of one rank; the smaller goes first. `queue`: is reconciled again after the
        back-off. `subject`: the written object, which gets an event if the write is refused.
        """
        if self.wait(key) > 0:
            return False
        with self._changed:
            if key in self._waiting or self._stopped.is_set():
                return False
            now = time.monotonic()
            entry = PendingWrite(
                rank, order, next(self._arrivals), key, write, done, lane, queue, subject, since=now
            )
            self._waiting.add(entry, now=now)
            self._changed.notify()
        return True

    def withdraw(self, key: WriteKey) -> bool:
        """Drop the write for this key if it waits, without calling its `done`. Returns whether it did."""
        with self._changed:
            return self._waiting.withdraw(key)

    def count_before(self, rank: WriteRank) -> int:
        """Return how many writes of smaller ranks wait or are under way."""
        with self._changed:
            return self._waiting.count_before(rank)

    def wait(self, key: WriteKey) -> float:
        """Return for how many seconds no write for this key is accepted, after the last one was refused."""
        return self._backoff.seconds_left(key[0], key[1], kind=FailureKind.WRITE)

    def pause(self, seconds: float) -> bool:
        """Wait inside a write; return True if the threads are being stopped."""
        return self._stopped.wait(seconds)

    def __len__(self) -> int:
        return len(self._waiting)

    def _run(self) -> None:
        while (entry := self._next_entry()) is not None:
            self._carry_out(entry)

    def _carry_out(self, entry: PendingWrite) -> None:
        ok = self._attempt(entry)
        with self._changed:
            if ok is not None:
                self._waiting.end(entry)
            self._record_end(ok=ok)
            if entry.lane is not None:
                self._changed.notify()
        if ok is not None and entry.done is not None:
            self._call_done(entry.key, entry.done, ok=ok)

    def _next_entry(self) -> PendingWrite | None:
        """Wait for the first write whose lane is free; None after `stop`."""
        with self._changed:
            while not self._stopped.is_set():
                now = time.monotonic()
                first = self._waiting.first(now=now)
                if first is None:
                    self._changed.wait(self._waiting.seconds_until_due(now=now))
                elif not self._has_room():
                    self._changed.wait(max(0.0, self._full_at - time.monotonic()))
                elif self._must_give_way(first):
                    self._changed.wait(GIVE_WAY_SECONDS)
                else:
                    self._record_begin(first)
                    return first
        return None

    def _has_room(self) -> bool:
        """Whether one more write may be under way now."""
        width = self._first_width + self._succeeded // WRITES_PER_STEP
        return self._waiting.under_way < width or time.monotonic() >= self._full_at

    def _must_give_way(self, first: PendingWrite) -> bool:
        """`first`: the one that would be sent now, so that all others are of its rank or later."""
        if self._gives_way is None or first.rank < WriteRank.EVENT:
            return False
        return time.monotonic() < first.since + PATIENCE_SECONDS and self._gives_way()

    def _record_begin(self, entry: PendingWrite) -> None:
        if not self._waiting.under_way and self._full_at == math.inf:
            self._full_at = time.monotonic() + SLOW_START_SECONDS
        self._waiting.begin(entry)

    def _record_end(self, *, ok: bool | None) -> None:
        """A write has ended; with the last one the burst ends."""
        if not self._waiting.under_way and self._waiting.first(now=time.monotonic()) is None:
            self._succeeded, self._full_at = 0, math.inf
        elif ok:
            self._succeeded += 1
            if not self._succeeded % WRITES_PER_STEP:
                self._changed.notify()

    def _retry_later(self, entry: PendingWrite, seconds: float) -> None:
        """Try the write again in so many seconds."""
        with self._changed:
            self._waiting.put_back(entry, arrival=next(self._arrivals), at=time.monotonic() + seconds)
            self._changed.notify()

    def _call_done(self, key: WriteKey, done: OnWritten, *, ok: bool) -> None:
        try:
            done(ok)
        except Exception:
            log.exception("the callback for %s of %s failed", key[0], key[1])

    def _attempt(self, entry: PendingWrite) -> bool | None:
        """Send a write; return whether it succeeded, or None if it will be tried again."""
        what, name = entry.key
        try:
            entry.write()
        except Exception as exc:  # no exception ends the thread
            return self._handle_failure(entry, exc)
        self._metrics.writes.labels(what, "done").inc()
        self._outdated.pop(entry.key, None)
        self._backoff.forget(what, name, kind=FailureKind.WRITE)
        return True

    def _handle_failure(self, entry: PendingWrite, exc: Exception) -> bool | None:
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
            is_outdated = isinstance(exc, Refused) and exc.status in OUTDATED_STATUSES
            if is_outdated and not self._is_outdated_again(entry.key):
                count(what, "outdated").inc()
                return False
            count(what, "refused" if isinstance(exc, Refused) else "failed").inc()
        self._backoff.record_failure(
            what, name, exc, kind=FailureKind.WRITE, queue=entry.queue, subject=subject
        )
        return False

    def _is_outdated_again(self, key: WriteKey) -> bool:
        """Count it; whether that is so many times in a row that it is no change of the object."""
        with self._changed:
            times = self._outdated.pop(key, 0) + 1
            self._outdated[key] = times
            if len(self._outdated) > MAX_OUTDATED:
                del self._outdated[next(iter(self._outdated))]
        return times >= MANY_OUTDATED

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
