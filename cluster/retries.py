"""What is tried again and again without success: since when, how often and why.

Each loop that retries by itself reports its failures and its successes here, so that none is silent.

| who says it                       | what                                                                   |
|-----------------------------------|------------------------------------------------------------------------|
| metric                            | since when each loop fails; no series for one that succeeds            |
| log                               | a loop has failed for `SAID_SECONDS`, or for `LOG_AGAIN_SECONDS` more; |
|                                   | it succeeds again                                                      |
| the replica's Lease (`lasting`)   | the same, for `kubectl queue status`                                   |

Invariants
- A loop fails from its first failure until all of a try succeeds. A part that succeeds ends nothing.
- A loop whose failure is `urgent` is said at once.
- A single object that fails is none of this: `cluster.key_backoff` counts and logs it.

Threads: any. The lock is held for moments.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

from queues.text import printable

#: A loop that fails for so long is said.
SAID_SECONDS = 60.0
LOG_AGAIN_SECONDS = 600.0
#: Characters of a reason.
WHY_LIMIT = 300

log = logging.getLogger(__name__)


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """A loop that fails. `since`: its first failure, in monotonic seconds. `why`: of the last one. `times`:
    failures since then. `ends_at`: it counts as succeeding from then on, unless it fails before.
    """

    loop: str
    since: float
    why: str
    times: int = 1
    is_urgent: bool = False
    logged_at: float | None = None
    ends_at: float | None = None

    def is_lasting(self, now: float) -> bool:
        return self.is_urgent or now >= self.since + SAID_SECONDS


class Retries(Collector):
    """Owner: the metrics of the server."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time
    ) -> None:
        """`clock`: monotonic seconds. `wall`: seconds since 1970, for the metric."""
        self._clock = clock
        self._wall = wall
        self._lock = threading.Lock()
        self._retries: dict[str, Retry] = {}

    def failed(self, loop: str, why: object, *, urgent: bool = False) -> None:
        """Record a failed try of the loop."""
        text, now = printable(str(why) or type(why).__name__, limit=WHY_LIMIT), self._clock()
        with self._lock:
            self._drop_ended(now)
            before = self._retries.get(loop) or Retry(loop=loop, since=now, why=text, times=0)
            self._retries[loop] = msgspec.structs.replace(
                before, why=text, times=before.times + 1, is_urgent=urgent, ends_at=None
            )
            self._log_lasting(now)

    def succeeded(self, loop: str, *, unless_within: float = 0.0) -> None:
        """Record that all of a try succeeded; if it may still fail, unless it does within so many seconds."""
        if loop not in self._retries:
            return
        now = self._clock()
        with self._lock:
            if (retry := self._retries.get(loop)) is not None:
                self._retries[loop] = msgspec.structs.replace(retry, ends_at=now + unless_within)
            self._drop_ended(now)

    def forget(self, loop: str) -> None:
        """Record that the loop is tried no more; nothing is said."""
        with self._lock:
            self._retries.pop(loop, None)

    def lasting(self) -> list[Retry]:
        """The loops that are said, those that fail for longest first."""
        now = self._clock()
        with self._lock:
            self._drop_ended(now)
            self._log_lasting(now)
            said = [retry for retry in self._retries.values() if retry.is_lasting(now)]
        return sorted(said, key=lambda retry: (retry.since, retry.loop))

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(
            "sluice_retrying_since_timestamp_seconds",
            "Since when a loop of this replica fails and is tried again; no series for one that succeeds",
            labels=["loop"],
        )
        now, wall = self._clock(), self._wall()
        with self._lock:
            self._drop_ended(now)
            for retry in self._retries.values():
                family.add_metric([retry.loop], wall - (now - retry.since))
        yield family

    def _drop_ended(self, now: float) -> None:
        for retry in [each for each in self._retries.values() if _has_ended(each, now)]:
            del self._retries[retry.loop]
            if retry.logged_at is not None:
                log.warning("%s succeeds again, after %.0f s", retry.loop, now - retry.since)

    def _log_lasting(self, now: float) -> None:
        for retry in self._retries.values():
            is_due = retry.logged_at is None or now >= retry.logged_at + LOG_AGAIN_SECONDS
            if is_due and retry.is_lasting(now):
                self._retries[retry.loop] = msgspec.structs.replace(retry, logged_at=now)
                words = "%s has failed for %.0f s (%d times), and is tried again: %s"
                values: tuple[Any, ...] = (retry.loop, now - retry.since, retry.times, retry.why)
                log.error(words, *values)


def _has_ended(retry: Retry, now: float) -> bool:
    return retry.ends_at is not None and now >= retry.ends_at
