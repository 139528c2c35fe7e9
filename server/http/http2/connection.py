"""One caller's connection of HTTP/2, on the loop; see `http_connection` for how the two are chosen."""

from __future__ import annotations

import asyncio

from server.http.base_connection import BaseConnection
from server.http.connections import Phase
from server.http.context import ConnectionContext
from server.http.http2.headers import build_fields
from server.http.http2.session import Http2Session
from server.http.request_parser import Request, RequestError
from server.http.responses import (
    BODILESS_STATUSES,
    Environ,
    Response,
    build_environ,
    call_app,
    error_response,
)

_BROKEN = RequestError(500, "internal error")
#: Seconds between looks at what a caller makes no room for.
EXPIRY_CHECK_SECONDS = 1.0


class Http2Connection(BaseConnection):
    """Reads requests, has the app answer them one after the other, and says at each moment what it waits for.

    The app runs inline, on the loop's thread: it may not wait for anything. What could take it long is
    answered by another thread (`http_large_bodies`), and others of the same caller meanwhile.
    """

    def __init__(self, *, context: ConnectionContext, shared: Environ) -> None:
        super().__init__(context=context)
        self._shared = shared
        self._session = Http2Session(limits=context.limits, clock=context.clock)
        self._oldest_incomplete = 0
        self._expiry_checked_at = self._since

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._context.connections.set_phase(self, Phase.NEW)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._finished:
            return
        self._session.receive(data)
        self._update_reading()
        self._context.run_queue.submit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._session.discard()

    # What the crowd calls.

    def abort(self) -> None:
        super().abort()
        self._session.discard()

    def on_phase_timeout(self, phase: Phase) -> None:
        if phase in (Phase.NEW, Phase.IDLE):
            self.close()
        elif phase is Phase.LINGERING or self._write_paused or not self._session.expire():
            self.abort()
        else:
            self._flush_and_update(answered=False)

    def close(self) -> None:
        """Close once what was begun has been answered and sent; who asks meanwhile knows that it was not."""
        self._session.send_goaway()
        self._flush()
        if self._session.idle:
            super().close()

    # The order of things.

    @property
    def _unread_bytes(self) -> int:
        return self._session.unread_bytes

    @property
    def _protocol_unsent_bytes(self) -> int:
        return self._session.unsent_bytes

    def work(self, until: float) -> bool:
        answered = False
        while not self._finished and not self._write_paused:
            if self._session.ready:
                self._answer(*self._session.ready.popleft())
                answered = True
            elif not self._session.advance():
                return self._flush_and_update(answered=answered)
            if self._context.perf_counter() >= until:
                self._flush_and_update(answered=answered)
                return not self._finished and not self._write_paused
        return False

    def _flush_and_update(self, *, answered: bool) -> bool:
        """Send what can be, and say what it waits for now; False, for there is nothing else to do."""
        session, connections = self._session, self._context.connections
        if self._should_close():
            session.send_goaway()
        self._flush()
        self._update_reading()
        now = self._context.clock()
        if session.blocked_bytes and now - self._expiry_checked_at >= EXPIRY_CHECK_SECONDS:
            self._expiry_checked_at = now
            if not session.expire():
                self.abort()  # whatever else it does meanwhile
                return False
        if self._finished or self._write_paused or self._transport is None:
            return False
        if session.closed or (session.draining and session.idle):
            self.close()
        elif session.ready:
            if connections.phase(self) in (Phase.NEW, Phase.IDLE):
                connections.set_phase(self, Phase.RECEIVING)  # it is not to be sent away meanwhile
        else:
            self._update_phase(answered=answered)
        return False

    def _update_phase(self, *, answered: bool) -> None:
        """It waits for what its oldest request waits for: others that come and go change nothing."""
        connections, session = self._context.connections, self._session
        phase, oldest = connections.phase(self), session.oldest_incomplete
        if session.receiving:
            if phase is not Phase.RECEIVING or (oldest and oldest != self._oldest_incomplete):
                connections.set_phase(self, Phase.RECEIVING)
            connections.set_buffered(self, session.buffered_bytes + session.unread_bytes)
        elif session.blocked_since is not None:
            if phase is not Phase.SENDING:
                connections.set_phase(self, Phase.SENDING)
        elif answered or phase not in (Phase.NEW, Phase.IDLE):
            connections.set_phase(self, Phase.IDLE)
        self._oldest_incomplete = oldest

    def _flush(self) -> None:
        """Give the transport what it has room for."""
        while not self._write_paused and not self._unsent:
            waiting = self._session.take()
            if not waiting or self._transport is None or self._transport.is_closing():
                break
            self._send(waiting)
        self._context.connections.set_unsent(self, self.unsent_bytes())

    def _answer(self, stream: int, request: Request) -> None:
        large_bodies = self._context.large_bodies
        try:
            if request.error is not None:
                raise request.error
            if not large_bodies.is_large(request.body):
                self._send_response(stream, request, self._app_response(request))
                return
            large_bodies.submit(
                self,
                request.body.tell(),
                answer=lambda: self._app_response(request),
                done=lambda response: self._on_thread_response(stream, request, response),
            )
        except RequestError as refused:
            self._send_response(stream, request, error_response(refused))

    def _on_thread_response(self, stream: int, request: Request, response: Response) -> None:
        """What another thread was asked for is there."""
        self._send_response(stream, request, response)
        if self._transport is not None:
            self._flush_and_update(answered=True)
            self._context.run_queue.submit(self)

    def _send_response(self, stream: int, request: Request, response: Response) -> None:
        """If it cannot be said, a 500 that tells the caller nothing and the log everything."""
        try:
            fields = build_fields(response, date=self._context.date)
        except ValueError:
            self._context.log.exception("the app failed at %s %s", request.method, _target_of(request))
            response = error_response(_BROKEN)
            fields = build_fields(response, date=self._context.date)
        bodiless = request.method == "HEAD" or response.status.startswith(BODILESS_STATUSES)
        self._session.answer(stream, fields, b"" if bodiless else response.body)
        if response.closes_connection:
            self._session.send_goaway()

    def _app_response(self, request: Request) -> Response:
        """What the app says; if the app fails, a 500."""
        try:
            return call_app(self._context.app, build_environ(request, shared=self._shared))
        except RequestError as refused:
            return error_response(refused)
        except Exception:
            self._context.log.exception("the app failed at %s %s", request.method, _target_of(request))
            return error_response(_BROKEN)


def _target_of(request: Request) -> str:
    return request.target.decode("latin-1")
