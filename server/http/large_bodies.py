"""Requests whose bodies could take long to decode are answered in a thread of their own, or refused.

| the body                                                     | answered by                         |
|--------------------------------------------------------------|-------------------------------------|
| up to `INLINE_VALUES` values and `INLINE_BYTES`              | the loop's thread                   |
| more                                                         | the thread `large-bodies`           |
| more than `VALUE_LIMIT` values                               | 413 before it is decoded            |
| large, while `QUEUED_PER_CONNECTION` or `QUEUED_BYTES` wait   | 503                                 |

Decoding a value and handling it costs four microseconds at most, and mostly a quarter of one; a byte of text
costs next to nothing. No other thread runs while the decoder runs, so `VALUE_LIMIT` bounds that too, to 40
ms. An object of 1.5 MiB, the largest that etcd stores, has about 40,000 values, and a review has it twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from io import BytesIO
from typing import Any, TypeVar

from server.http.request_parser import RequestError

T = TypeVar("T")

INLINE_VALUES = 10_000
INLINE_BYTES = 1024 * 1024
VALUE_LIMIT = 150_000
QUEUED_PER_CONNECTION = 8
QUEUED_BYTES = 64 * 1024 * 1024


def values_in(body: bytes) -> int:
    """At least the number of JSON values: signs within strings are counted too."""
    return body.count(b",") + body.count(b"{") + body.count(b"[")


class LargeBodies:
    """All methods are called on the loop's thread; `answer` of `submit` is called on the other thread.

    Connections take turns, so that one with many large requests does not keep the others waiting.
    """

    def __init__(self, *, call_soon_threadsafe: Callable[..., Any]) -> None:
        self._call_soon_threadsafe = call_soon_threadsafe
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-bodies")
        #: By connection, in the order of their turns: starts its next requests.
        self._queued: dict[object, deque[partial[None]]] = {}
        self._queued_bytes = 0
        self._busy = False

    def is_large(self, body: BytesIO) -> bool:
        """Whether another thread has to answer. Raises RequestError for a body with too many values."""
        size = body.tell()
        if size <= INLINE_VALUES:
            return False
        values = values_in(body.getvalue())
        if values > VALUE_LIMIT:
            raise RequestError(413, f"the body may have {VALUE_LIMIT:,} values")
        return values > INLINE_VALUES or size > INLINE_BYTES

    def submit(
        self, connection: object, size: int, *, answer: Callable[[], T], done: Callable[[T], None]
    ) -> None:
        """Call `answer` on the thread, and then `done` on the loop. Neither may raise.

        Raises RequestError if too much waits for the thread already.
        """
        own = self._queued.get(connection, ())
        if len(own) >= QUEUED_PER_CONNECTION or self._queued_bytes + size > QUEUED_BYTES:
            raise RequestError(503, "too many large requests at once")
        self._queued_bytes += size
        self._queued.setdefault(connection, deque()).append(partial(self._begin, size, answer, done))
        self._begin_next()

    def _begin_next(self) -> None:
        if self._busy or not self._queued:
            return
        self._busy = True
        connection = next(iter(self._queued))
        own = self._queued.pop(connection)
        begin = own.popleft()
        if own:
            self._queued[connection] = own
        begin()

    def _begin(self, size: int, answer: Callable[[], T], done: Callable[[T], None]) -> None:
        future = self._thread.submit(answer)
        future.add_done_callback(partial(self._return_to_loop, size, done))

    def _return_to_loop(self, size: int, done: Callable[[T], None], future: Future[T]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._call_soon_threadsafe(self._finish, size, done, future)

    def _finish(self, size: int, done: Callable[[T], None], future: Future[T]) -> None:
        self._queued_bytes -= size
        self._busy = False
        if not future.cancelled():
            done(future.result())
            self._begin_next()

    def cancel(self, connection: object) -> None:
        """The connection is gone: its requests that wait are not started."""
        for begin in self._queued.pop(connection, ()):
            self._queued_bytes -= begin.args[0]

    def stop(self) -> None:
        """Take no more requests; does not wait for the one under way."""
        self._thread.shutdown(wait=False, cancel_futures=True)
