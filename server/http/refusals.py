"""Counts and logs the requests that are refused before they reach the app.

The API server tells a user little of them, so the reason has to be in our own log and metrics. Over HTTP/1.1
such a request is answered with an error. Over HTTP/2 its stream may be reset, or its connection ended: that
is counted by the status that HTTP/1.1 has for it.

Invariants
- Each refusal is counted.
- Clients cannot flood the log: of one address and status `BURST` lines are written at once, then one in
  `SECONDS_PER_LINE`; of all together `LINES_PER_SECOND`. The next line says how many were left out.
- What a client has sent is shortened to `TARGET_LENGTH` characters.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster.token_bucket import TokenBucket
from server.http.request_parser import HttpRequest, RequestError

BURST = 3
SECONDS_PER_LINE = 10.0
LINES_PER_SECOND = 2.0
LINES_AT_ONCE = 50
#: Addresses and statuses that are known at a time; the oldest is forgotten.
SOURCES = 1024
TARGET_LENGTH = 200

#: Counts one refusal: the path of the request, empty if it is not known, and the status.
Count = Callable[[str, int], object]


@dataclass(slots=True)
class _Source:
    """The refusals of one address with one status. `left_out`: without a line since the last line."""

    bucket: TokenBucket
    left_out: int = 0


class Refusals:
    """For all threads of the worker: a large body is refused in a thread of its own."""

    def __init__(self, *, count: Count, log: Any, clock: Callable[[], float]) -> None:
        self._count = count
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._all = TokenBucket(LINES_PER_SECOND, now=clock(), burst=LINES_AT_ONCE)
        self._sources: dict[tuple[str, int], _Source] = {}

    def record(self, error: RequestError, *, address: str, request: HttpRequest | None) -> None:
        """`request`: as far as it was read; None if none had begun."""
        target = b"" if request is None else request.target
        self._count(target.partition(b"?")[0].decode("latin-1"), error.status)
        left_out = self._left_out(address, error.status)
        if left_out is None:
            return
        method = "" if request is None else request.method
        words = [
            f"refused {method or 'a request'}",
            *([target[:TARGET_LENGTH].decode("latin-1")] if target else []),
            f"of {address or 'an unknown address'} with {error.status}: {error.reason}",
        ]
        more = f" ({left_out} more with {error.status} since the last line)" if left_out else ""
        self._log.warning("%s%s", " ".join(words), more)

    def _left_out(self, address: str, status: int) -> int | None:
        """How many refusals like this one had no line since the last line; None if this one has none."""
        with self._lock:
            now = self._clock()
            source = self._sources.get((address, status)) or self._add_source(address, status, now)
            if not (source.bucket.ready(now) and self._all.try_take(now)):
                source.left_out += 1
                return None
            source.bucket.take(1)
            left_out, source.left_out = source.left_out, 0
            return left_out

    def _add_source(self, address: str, status: int, now: float) -> _Source:
        if len(self._sources) >= SOURCES:
            del self._sources[next(iter(self._sources))]
        source = _Source(TokenBucket(1 / SECONDS_PER_LINE, now=now, burst=BURST))
        self._sources[address, status] = source
        return source
