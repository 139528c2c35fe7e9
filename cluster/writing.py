"""Many small writes, most urgent first, by a few threads.

Invariants
- At most one write a key is waiting or under way; asking again for the same key changes nothing.
- Order: by the rank given (smaller first), then by arrival.
- Of the writes of one lane one is under way at a time; the others make room for whatever has none.
- A write that the API server is too busy for (429, 5xx, no answer) is tried again up to `TRIES`
  times, after the time it asks for; one it refuses (404, 409, ...) is given up. Either way whoever
  asked is told by the return of `done(key, ok)`.
- `stop()` ends the threads after the write each has under way; what waits is dropped, for all of it
  is derived from the cluster and will be derived again.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable, Hashable
from typing import Any

import msgspec

from cluster.counting import Counting
from cluster.exceptions import ClusterError, Overloaded, Refused, Unreachable

TRIES = 6

log = logging.getLogger(__name__)

Key = tuple[str, Hashable]
Write = Callable[[], object]
Done = Callable[[bool], None]


class _Entry(msgspec.Struct, frozen=True, order=True):
    """A write that waits."""

    rank: tuple[Any, ...]
    arrival: int
    key: Key
    write: Write
    done: Done | None
    lane: Hashable


class Writers:
    """The threads. Owner: the server."""

    def __init__(self, *, counting: Counting, threads: int = 4, name: str = "writer") -> None:
        self._counting = counting
        self._name = name
        self._heap: list[_Entry] = []
        #: The lanes with a write under way, and what waits for them.
        self._busy: set[Hashable] = set()
        self._behind: dict[Hashable, list[_Entry]] = {}
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
            self._behind.clear()
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
    ) -> bool:
        """Ask for a write; False if one of this key is waiting or under way already."""
        with self._changed:
            if key in self._keys or self._stopped.is_set():
                return False
            self._keys.add(key)
            heapq.heappush(self._heap, _Entry(rank, next(self._arrivals), key, write, done, lane))
            self._changed.notify()
        return True

    def pause(self, seconds: float) -> bool:
        """Wait inside a write; True if the writers are being stopped."""
        return self._stopped.wait(seconds)

    def __len__(self) -> int:
        return len(self._keys)

    def _run(self) -> None:
        while (entry := self._next()) is not None:
            ok = self._attempt(entry.key, entry.write)
            with self._changed:
                self._keys.discard(entry.key)
                self._leave(entry.lane)
            if entry.done is not None:
                self._tell(entry.key, entry.done, ok=ok)

    def _next(self) -> _Entry | None:
        """The first whose lane is free, waited for; None at the end."""
        with self._changed:
            while not self._stopped.is_set():
                if not self._heap:
                    self._changed.wait()
                    continue
                entry = heapq.heappop(self._heap)
                if entry.lane is None:
                    return entry
                if entry.lane not in self._busy:
                    self._busy.add(entry.lane)
                    return entry
                heapq.heappush(self._behind.setdefault(entry.lane, []), entry)
        return None

    def _leave(self, lane: Hashable) -> None:
        if lane is None:
            return
        self._busy.discard(lane)
        behind = self._behind.get(lane)
        if behind:
            heapq.heappush(self._heap, heapq.heappop(behind))
            self._changed.notify()
        else:
            self._behind.pop(lane, None)

    def _tell(self, key: Key, done: Done, *, ok: bool) -> None:
        try:
            done(ok)
        except Exception:
            log.exception("whoever asked for %s of %s failed on hearing of it", key[0], key[1])

    def _attempt(self, key: Key, write: Write) -> bool:
        for number in range(TRIES):
            try:
                write()
            except (Overloaded, Unreachable) as exc:
                self._counting.writes.labels(key[0], "retried").inc()
                wait = exc.retry_after if isinstance(exc, Overloaded) else 0.2 * 2.0**number
                if self._stopped.wait(min(wait, 5.0)):
                    return False
            except Refused as exc:
                self._counting.writes.labels(key[0], "refused").inc()
                if exc.status not in {404, 409}:
                    log.warning("%s of %s was refused: %s", key[0], key[1], exc)
                return False
            except ClusterError as exc:
                self._counting.writes.labels(key[0], "failed").inc()
                log.warning("%s of %s failed: %s", key[0], key[1], exc)
                return False
            except Exception:
                self._counting.writes.labels(key[0], "failed").inc()
                log.exception("%s of %s failed", key[0], key[1])
                return False
            else:
                self._counting.writes.labels(key[0], "done").inc()
                return True
        log.warning("%s of %s was given up after %d tries", key[0], key[1], TRIES)
        return False
