"""Requests whose bodies could take long to decode: a thread answers them, or nobody does.

| the body                                                     | who answers                         |
|--------------------------------------------------------------|-------------------------------------|
| up to `INLINE_VALUES` values and `INLINE_BYTES`              | the loop's thread                   |
| more                                                         | the thread `large-bodies`           |
| more than `VALUE_LIMIT` values                               | 413 before it is decoded            |
| large, while `QUEUED_PER_CONNECTION` or `QUEUED_BYTES` wait   | 503                                 |

A value costs four microseconds at most, decoded and looked at (most cost a quarter of one); a byte of text
costs next to nothing. The interpreter lets no other thread run while it decodes, so `VALUE_LIMIT` bounds that
too, to 40 ms. An object of 1.5 MiB, the largest that etcd takes, has about 40,000 values, and a review has it
twice.
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
    """About how many JSON values there are, or could be: what is in strings counts too."""
    return body.count(b",") + body.count(b"{") + body.count(b"[")


class LargeBodies:
    """Owned by the loop's thread, as are all methods; `answer` of `submit` runs on the other one.

    Callers have their turn one after the other, so that one with many does not keep the others waiting.
    """

    def __init__(self, *, call_soon_threadsafe: Callable[..., Any]) -> None:
        self._call_soon_threadsafe = call_soon_threadsafe
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-bodies")
        #: Of each caller, in the order of their turns: how to begin its next ones.
        self._protocol_unsent_bytes: dict[object, deque[partial[None]]] = {}
        self._queued_bytes = 0
        self._busy = False

    def is_large(self, body: BytesIO) -> bool:
        """Whether it is one of those. Raises Refused for one that nobody decodes."""
        size = body.tell()
        if size <= INLINE_VALUES:
            return False
        values = values_in(body.getvalue())
        if values > VALUE_LIMIT:
            raise RequestError(413, f"the body may have {VALUE_LIMIT:,} values")
        return values > INLINE_VALUES or size > INLINE_BYTES

    def submit(
        self, caller: object, size: int, *, answer: Callable[[], T], done: Callable[[T], None]
    ) -> None:
        """Have `answer` called by the thread, and then `done` by the loop. Neither may raise.

        Raises Refused if too much waits for the thread already.
        """
        own = self._protocol_unsent_bytes.get(caller, ())
        if len(own) >= QUEUED_PER_CONNECTION or self._queued_bytes + size > QUEUED_BYTES:
            raise RequestError(503, "too many large requests at once")
        self._queued_bytes += size
        self._protocol_unsent_bytes.setdefault(caller, deque()).append(
            partial(self._begin, size, answer, done)
        )
        self._begin_next()

    def _begin_next(self) -> None:
        if self._busy or not self._protocol_unsent_bytes:
            return
        self._busy = True
        caller = next(iter(self._protocol_unsent_bytes))
        own = self._protocol_unsent_bytes.pop(caller)
        begin = own.popleft()
        if own:
            self._protocol_unsent_bytes[caller] = own
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

    def cancel(self, caller: object) -> None:
        """The caller is gone: what it waits for is not begun."""
        for begin in self._protocol_unsent_bytes.pop(caller, ()):
            self._queued_bytes -= begin.args[0]

    def stop(self) -> None:
        """Take nothing more; what is under way is not waited for."""
        self._thread.shutdown(wait=False, cancel_futures=True)
