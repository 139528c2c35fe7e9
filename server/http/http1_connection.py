"""One client's HTTP/1.1 connection, on the loop."""

from __future__ import annotations

import asyncio

from server.http.authorization import EVERYTHING, Access
from server.http.base_connection import BaseConnection, ConnectionContext
from server.http.connection_table import ConnectionPhase
from server.http.request_parser import HttpRequest, RequestError, RequestParser
from server.http.responses import Environ, HttpResponse, error_response, render

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
#: Bytes that are parsed before the clock is read again: the worst input of this size takes two milliseconds.
PARSED_AT_ONCE = 16 * 1024
_TOO_SLOW = RequestError(408, "the request did not become complete in time")


class Http1Connection(BaseConnection):
    """Reads requests and has the app answer one after the other.

    While another thread answers a large request, the client's next ones wait.
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
        self._parser = RequestParser(limits=context.limits, authorize=access.authorize)
        self._received = bytearray()
        #: Whether a request was answered since the phase was updated.
        self._answered = False
        self._in_thread = False

    # The loop calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._context.connections.set_phase(self, ConnectionPhase.NEW)

    def data_received(self, data: bytes) -> None:
        if self._finished:
            return
        self._received += data
        self._update_reading()
        self._context.run_queue.submit(self, background=self._access.background)

    # The connection table calls this.

    def on_phase_timeout(self, phase: ConnectionPhase) -> None:
        if phase is ConnectionPhase.RECEIVING:
            self._reject(_TOO_SLOW)
        elif phase in (ConnectionPhase.NEW, ConnectionPhase.IDLE):
            self.close()
        else:
            self.abort()

    # The run queue calls this.

    def work(self, until: float) -> bool:
        while self._step():
            if self._context.perf_counter() >= until:
                break
        if self._is_blocked():
            return False
        self._update_reading()
        if self._parser.ready or self._parser.error is not None or self._received:
            if self._context.connections.phase(self) in (ConnectionPhase.NEW, ConnectionPhase.IDLE):
                # An idle connection could be evicted before its request is answered.
                self._context.connections.set_phase(self, ConnectionPhase.RECEIVING)
            return True
        self._update_phase()
        self._answered = False
        return False

    @property
    def _unread_bytes(self) -> int:
        return len(self._received)

    def _is_blocked(self) -> bool:
        return self._finished or self._write_paused or self._in_thread or self._transport is None

    def _step(self) -> bool:
        """Answer one request, or parse some more of the next; False if there is nothing to do."""
        parser = self._parser
        if self._is_blocked() or self._unsent:
            return False
        if parser.ready:
            self._answer_next()
            self._answered = True
            return True
        if parser.error is not None:
            self._reject(parser.error)
            return False
        if not self._received:
            return False
        parser.feed(bytes(self._received[:PARSED_AT_ONCE]))
        del self._received[:PARSED_AT_ONCE]
        return True

    def _update_phase(self) -> None:
        connections, parser = self._context.connections, self._parser
        if parser.expects_continue and self._transport is not None:
            parser.expects_continue = False
            self._send(CONTINUE)
        if parser.unfinished is None:
            if self._answered or connections.phase(self) not in (
                ConnectionPhase.NEW,
                ConnectionPhase.IDLE,
            ):  # else: empty lines
                connections.set_phase(self, ConnectionPhase.IDLE)
            return
        if self._answered or connections.phase(self) is not ConnectionPhase.RECEIVING:
            connections.set_phase(self, ConnectionPhase.RECEIVING)
        connections.set_buffered(self, parser.buffered_bytes)

    # From a request to its response.

    def _answer_next(self) -> None:
        request = self._parser.ready.popleft()
        if self._transport is None or self._transport.is_closing():
            return
        response = self._answer(request, done=lambda response: self._on_thread_response(request, response))
        if response is None:
            self._in_thread = True
            self._context.connections.set_phase(self, ConnectionPhase.RECEIVING)
        else:
            self._send_response(request, response)

    def _on_thread_response(self, request: HttpRequest, response: HttpResponse) -> None:
        self._in_thread = False
        if not self._finished:
            self._send_response(request, response)
            self._answered = True
            self._context.run_queue.submit(self, background=self._access.background)

    def _send_response(self, request: HttpRequest, response: HttpResponse) -> None:
        keep_alive = request.keep_alive and not self._should_close() and not response.closes_connection
        date, to_head = self._context.date, request.method == "HEAD"
        self._send(render(response, date=date, keep_alive=keep_alive, to_head=to_head))
        if not keep_alive:
            self.close()

    def _reject(self, error: RequestError) -> None:
        """Send the error, and read on without parsing.

        Closing with unread bytes would discard the response.
        """
        if self._transport is not None:
            self._record_refusal(error, self._parser.unfinished)
            response = error_response(error)
            self._send(render(response, date=self._context.date, keep_alive=False, to_head=False))
            self._finished = True
            self._received.clear()
            self._update_reading()  # paused for too many bytes, it would not see that the client closes
            self._context.connections.set_phase(self, ConnectionPhase.LINGERING)
