"""One client's HTTP/2 connection, on the loop: between the socket and the session."""

from __future__ import annotations

import asyncio

from server.http.authorization import EVERYTHING, Access
from server.http.base_connection import BaseConnection, ConnectionContext
from server.http.connection_table import ConnectionPhase
from server.http.http2.headers import build_fields
from server.http.http2.session import Http2Session
from server.http.request_parser import HttpRequest
from server.http.responses import BODILESS_STATUSES, Environ, HttpResponse

#: Seconds between checks for responses that the client leaves unread.
EXPIRY_CHECK_SECONDS = 1.0


class Http2Connection(BaseConnection):
    """Reads requests and has the app answer them in the order in which they became complete.

    While another thread answers a large request, other requests of the connection are answered.
    """

    def __init__(
        self,
        *,
        context: ConnectionContext,
        environ: Environ,
        socket_transport: asyncio.Transport,
        access: Access = EVERYTHING,
    ) -> None:
        super().__init__(context=context, environ=environ, socket_transport=socket_transport, access=access)
        self._session = Http2Session(limits=context.limits, clock=context.clock, authorize=access.authorize)
        self._oldest_incomplete = 0
        self._expiry_checked_at = self._opened_at

    # The loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._context.connections.set_phase(self, ConnectionPhase.NEW)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._finished:
            return
        self._session.receive(data)
        self._update_reading()
        self._context.run_queue.submit(self, background=self._access.background)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._session.discard()

    # The connection table and the worker call these.

    def on_phase_timeout(self, phase: ConnectionPhase) -> None:
        if phase in (ConnectionPhase.NEW, ConnectionPhase.IDLE):
            self.close()
        elif phase is ConnectionPhase.LINGERING or self._write_paused or not self._expire():
            self.abort()
        else:
            self._flush_and_update(answered=False)

    def abort(self) -> None:
        super().abort()
        self._session.discard()

    def close(self) -> None:
        """Close once the requests that have begun are answered; GOAWAY tells the client which these are."""
        self._session.send_goaway()
        self._flush()
        if self._session.idle:
            super().close()

    # The run queue calls this.

    def work(self, until: float) -> bool:
        answered = False
        while not self._finished and not self._write_paused:
            if self._session.ready:
                self._answer_next()
                answered = True
            elif not self._advance():
                self._flush_and_update(answered=answered)
                return False
            if self._context.perf_counter() >= until:
                self._flush_and_update(answered=answered)
                return not self._finished and not self._write_paused
        return False

    def _advance(self) -> bool:
        goes_on = self._session.advance()
        self._record_refusals()
        return goes_on

    def _expire(self) -> bool:
        goes_on = self._session.expire()
        self._record_refusals()
        return goes_on

    def _record_refusals(self) -> None:
        refusals = self._session.refusals
        if refusals:
            for error, request in refusals:
                self._record_refusal(error, request)
            refusals.clear()

    @property
    def _unread_bytes(self) -> int:
        return self._session.unread_bytes

    @property
    def _protocol_unsent_bytes(self) -> int:
        return self._session.unsent_bytes

    def _flush_and_update(self, *, answered: bool) -> None:
        """Send what can be sent, and set the phase for what the connection waits for now."""
        session, connections = self._session, self._context.connections
        if self._should_close() and (answered or self._context.stopping):
            session.send_goaway()  # with an answer: a request that is being read would be lost
        self._flush()
        self._update_reading()
        now = self._context.clock()
        if session.blocked_bytes and now - self._expiry_checked_at >= EXPIRY_CHECK_SECONDS:
            self._expiry_checked_at = now
            if not self._expire():
                self.abort()  # even if the client is active otherwise
                return
        if self._finished or self._write_paused or self._transport is None:
            return
        if session.closed or (session.draining and session.idle):
            self.close()
        elif session.ready:
            if connections.phase(self) in (ConnectionPhase.NEW, ConnectionPhase.IDLE):
                # An idle connection could be evicted before its requests are answered.
                connections.set_phase(self, ConnectionPhase.RECEIVING)
        else:
            self._update_phase(answered=answered)

    def _update_phase(self, *, answered: bool) -> None:
        """The phase follows the oldest request: newer ones that come and go do not restart its time-out."""
        connections, session = self._context.connections, self._session
        phase, oldest = connections.phase(self), session.oldest_incomplete
        if session.receiving:
            if phase is not ConnectionPhase.RECEIVING or (oldest and oldest != self._oldest_incomplete):
                connections.set_phase(self, ConnectionPhase.RECEIVING)
            connections.set_buffered(self, session.buffered_bytes + session.unread_bytes)
        elif session.blocked_since is not None:
            if phase is not ConnectionPhase.SENDING:
                connections.set_phase(self, ConnectionPhase.SENDING)
        elif answered or phase not in (ConnectionPhase.NEW, ConnectionPhase.IDLE):
            connections.set_phase(self, ConnectionPhase.IDLE)
        self._oldest_incomplete = oldest

    def _flush(self) -> None:
        """Give the transport as many bytes as it has room for."""
        while not self._write_paused and not self._unsent:
            chunk = self._session.take()
            if not chunk or self._transport is None or self._transport.is_closing():
                break
            self._send(chunk)
        self._context.connections.set_unsent(self, self.unsent_bytes())

    # From a request to its response.

    def _answer_next(self) -> None:
        stream, request = self._session.ready.popleft()
        response = self._answer(
            request, done=lambda response: self._on_thread_response(stream, request, response)
        )
        if response is not None:
            self._send_response(stream, request, response)

    def _on_thread_response(self, stream: int, request: HttpRequest, response: HttpResponse) -> None:
        self._send_response(stream, request, response)
        if self._transport is not None:
            self._flush_and_update(answered=True)
            self._context.run_queue.submit(self, background=self._access.background)

    def _send_response(self, stream: int, request: HttpRequest, response: HttpResponse) -> None:
        bodiless = request.method == "HEAD" or response.status.startswith(BODILESS_STATUSES)
        fields = build_fields(response, date=self._context.date)
        self._session.answer(stream, fields, b"" if bodiless else response.body)
        if response.closes_connection:
            self._session.send_goaway()
