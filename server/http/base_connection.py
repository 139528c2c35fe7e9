"""What HTTP/1.1 and HTTP/2 connections share: reading, calling the app, sending, closing.

Invariants
- Received bytes are processed in slices of time (`run_queue`). While more than `READ_AHEAD` bytes wait for
  that, nothing is read from the socket.
- The transport is given at most `WRITTEN_AT_ONCE` bytes beyond what it has room for. So nearly all unsent
  bytes are in `_unsent`, and the connection table knows their number, with those in the transport.
- While the client reads nothing of what it is sent, nothing more is read from it.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from server.http.authorization import EVERYTHING, Access
from server.http.connection_table import ConnectionPhase, ConnectionTable
from server.http.large_bodies import LargeBodies
from server.http.limits import SLOW_READER_FACTOR, Limits
from server.http.refusals import Refusals
from server.http.request_parser import HttpRequest, RequestError
from server.http.responses import Environ, HttpResponse, WsgiApp, build_environ, call_app, error_response
from server.http.run_queue import RunQueue

READ_AHEAD = 64 * 1024
WRITTEN_AT_ONCE = 64 * 1024
_APP_FAILED = RequestError(500, "internal error")


@dataclass(kw_only=True, slots=True)
class ConnectionContext:
    """What all connections of a worker share. Owned by the loop's thread."""

    app: WsgiApp
    limits: Limits
    connections: ConnectionTable
    base_environ: Environ
    log: Any  # gunicorn's Logger, which is no logging.Logger
    run_queue: RunQueue
    large_bodies: LargeBodies
    refusals: Refusals
    #: The loop's clock, which it reads once per turn.
    clock: Callable[[], float]
    #: A clock that also advances while a callback runs.
    perf_counter: Callable[[], float]
    date: str = ""
    stopping: bool = False


class BaseConnection(asyncio.Protocol):
    """One client's connection, on the loop.

    The app is called on the loop's thread and may not wait for anything. A request that could take long is
    answered in another thread (`large_bodies`).

    `environ`: the part of the WSGI environ that all its requests share. `socket_transport`: the transport
    below TLS, where encrypted bytes wait to be sent; without TLS it is the transport itself. `access`: what
    the client may call.
    """

    def __init__(
        self,
        *,
        context: ConnectionContext,
        environ: Environ,
        socket_transport: asyncio.Transport,
        access: Access = EVERYTHING,
    ) -> None:
        self._context = context
        self._access = access
        self._environ = environ
        self._socket_transport = socket_transport
        self._transport: asyncio.Transport | None = None
        self._opened_at = context.clock()
        #: No further request is served.
        self._finished = False
        #: The transport is closed once `_unsent` is empty.
        self._closing = False
        self._write_paused = False
        self._reading = True
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._unsent_since = 0.0

    # A protocol implements these.

    @abstractmethod
    def work(self, until: float) -> bool:
        """Process what has been received until the clock reaches `until`; whether something is left."""

    @property
    @abstractmethod
    def _unread_bytes(self) -> int:
        """Bytes that were received and not processed yet."""

    @property
    def _protocol_unsent_bytes(self) -> int:
        """Bytes of responses that the protocol keeps back, besides `_unsent`."""
        return 0

    # The loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's does not inherit from asyncio's

    def connection_lost(self, exc: Exception | None) -> None:
        self._finished = True
        self._transport = None
        self._unsent.clear()
        self._context.connections.remove(self)
        self._context.run_queue.remove(self)
        self._context.large_bodies.cancel(self)

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._transport is not None and not self._finished:
            self._context.connections.set_phase(self, ConnectionPhase.SENDING)
            self._update_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        longest = SLOW_READER_FACTOR * self._context.limits.response_timeout
        if self._unsent and self._context.clock() - self._unsent_since > longest:
            self.abort()
            return
        self._write_unsent()
        if self._transport is not None and not self._write_paused:
            self._update_reading()
            self._context.run_queue.submit(self, background=self._access.background)

    # The connection table and the worker call these.

    @abstractmethod
    def on_phase_timeout(self, phase: ConnectionPhase) -> None:
        """The connection has been in this phase for too long."""

    def abort(self) -> None:
        """Close at once, and drop what was not sent."""
        self._finished = True
        self._unsent.clear()
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close once what was written has been sent."""
        self._finished = self._closing = True
        if self._transport is not None:
            self._write_unsent()
            phase = ConnectionPhase.SENDING if self._write_paused else ConnectionPhase.LINGERING
            self._context.connections.set_phase(self, phase)

    def unsent_bytes(self) -> int:
        """Bytes of responses that wait to be sent, including those in the transports."""
        size = self._unsent_bytes + self._protocol_unsent_bytes
        if self._transport is not None:
            size += self._transport.get_write_buffer_size()
        if self._socket_transport is not self._transport:
            size += self._socket_transport.get_write_buffer_size()
        return size

    # From a request to its response.

    def _answer(self, request: HttpRequest, *, done: Callable[[HttpResponse], None]) -> HttpResponse | None:
        """The response; None if another thread makes it, and `done` will be called with it on the loop."""
        large_bodies = self._context.large_bodies
        try:
            if request.error is not None:
                raise request.error
            if not large_bodies.is_large(request.body):
                return self._app_response(request)
            size = request.body.tell()
            large_bodies.submit(self, size, answer=lambda: self._app_response(request), done=done)
        except RequestError as error:
            self._record_refusal(error, request)
            return error_response(error)
        return None

    def _app_response(self, request: HttpRequest) -> HttpResponse:
        """The app's response.

        If the app fails: a 500 without details for the client, and a traceback in the log.
        """
        try:
            return call_app(self._context.app, build_environ(request, base=self._environ))
        except RequestError as error:
            self._record_refusal(error, request)
            return error_response(error)
        except Exception:
            target = request.target.decode("latin-1")
            self._context.log.exception("the app failed at %s %s", request.method, target)
            return error_response(_APP_FAILED)

    # Reading and sending.

    def _update_reading(self) -> None:
        """Read on, unless enough is waiting already."""
        wanted = not self._write_paused and self._unread_bytes <= READ_AHEAD
        transport = self._transport
        if transport is None or transport.is_closing() or wanted is self._reading:
            return
        self._reading = wanted
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def _send(self, data: bytes) -> None:
        """Send after what was sent before, as fast as the client reads."""
        if self._transport is None or self._transport.is_closing():
            return
        if not self._unsent and not self._write_paused and len(data) <= WRITTEN_AT_ONCE:
            self._transport.write(data)
        else:
            if not self._unsent:
                self._unsent_since = self._context.clock()
            self._unsent.append(memoryview(data))
            self._unsent_bytes += len(data)
            self._write_unsent()
        self._context.connections.set_unsent(self, self.unsent_bytes())

    def _write_unsent(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        while self._unsent and not self._write_paused:
            piece, rest = self._unsent[0][:WRITTEN_AT_ONCE], self._unsent[0][WRITTEN_AT_ONCE:]
            self._unsent_bytes -= len(piece)
            if rest:
                self._unsent[0] = rest
            else:
                self._unsent.popleft()
            transport.write(piece)
        if self._closing and not self._unsent:
            transport.close()

    def _record_refusal(self, error: RequestError, request: HttpRequest | None) -> None:
        self._context.refusals.record(error, address=self._environ.get("REMOTE_ADDR", ""), request=request)

    def _should_close(self) -> bool:
        """Whether the next response is the last: the worker stops, or the connection is old.

        It is too old as well once other authorities of clients are in use than when it was opened.
        """
        age = self._context.clock() - self._opened_at
        is_old = age > self._context.limits.connection_age
        return self._context.stopping or is_old or self._access.outdated()
