"""One caller's connection, on the loop."""

from __future__ import annotations

import asyncio
from typing import cast

from server.http.base_connection import BaseConnection
from server.http.connections import Phase
from server.http.context import ConnectionContext
from server.http.http2 import connection as http2_connection
from server.http.request_parser import (
    Request,
    RequestError,
    RequestParser,
)
from server.http.responses import (
    Environ,
    Response,
    build_environ,
    call_app,
    error_response,
    render,
)

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
#: Bytes that are parsed before the clock is looked at: two milliseconds of the worst that can be sent.
PARSED_AT_ONCE = 16 * 1024
#: What is sent, and whether the connection stays.
Reply = tuple[bytes, bool]
_TOO_SLOW = RequestError(408, "the request did not become complete in time")
_BROKEN = RequestError(500, "internal error")


class Http1Connection(BaseConnection):
    """Reads requests, has the app answer them one after the other, and says at each moment what it waits for.

    The app runs inline, on the loop's thread: it may not wait for anything. What could take it long is
    answered by another thread (`http_large_bodies`), and nothing more of this caller meanwhile.
    """

    def __init__(self, *, context: ConnectionContext) -> None:
        super().__init__(context=context)
        self._reader = RequestParser(limits=context.limits)
        self._shared: Environ = context.shared
        self._incoming = bytearray()
        self._answered = False
        self._in_thread = False

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        address = peer if isinstance(peer, tuple) else ("", 0)
        self._shared = {**self._context.shared, "REMOTE_ADDR": address[0], "REMOTE_PORT": str(address[1])}
        if _speaks_http2(transport):
            self._switch_to_http2(transport)
        else:
            self._context.connections.set_phase(self, Phase.NEW)
            self._context.run_queue.submit(self)

    def _switch_to_http2(self, transport: asyncio.BaseTransport) -> None:
        """What comes is HTTP/2: another reads it from now on."""
        self._finished = True
        self._context.connections.remove(self)
        other = http2_connection.Http2Connection(context=self._context, shared=self._shared)
        other.socket_transport = self.socket_transport
        self._context.connections.add(other)
        cast(asyncio.Transport, transport).set_protocol(other)
        other.connection_made(transport)
        if self._incoming:
            other.data_received(bytes(self._incoming))

    def data_received(self, data: bytes) -> None:
        if self._finished:
            return
        self._incoming += data
        if self._transport is None:
            return  # it came with the end of the handshake
        self._update_reading()
        self._context.run_queue.submit(self)

    # What the crowd calls.

    def on_phase_timeout(self, phase: Phase) -> None:
        if phase is Phase.RECEIVING:
            self._reject(_TOO_SLOW)
        elif phase in (Phase.NEW, Phase.IDLE):
            self.close()
        else:
            self.abort()

    # The order of things.

    @property
    def _unread_bytes(self) -> int:
        return len(self._incoming)

    def work(self, until: float) -> bool:
        while self._step():
            if self._context.perf_counter() >= until:
                break
        if self._finished or self._write_paused or self._in_thread or self._transport is None:
            return False
        self._update_reading()
        if self._reader.ready or self._reader.error is not None or self._incoming:
            if self._context.connections.phase(self) in (Phase.NEW, Phase.IDLE):
                # An idle connection could be evicted before its request is answered.
                self._context.connections.set_phase(self, Phase.RECEIVING)
            return True
        self._update_phase()
        self._answered = False
        return False

    def _step(self) -> bool:
        """Answer one request, or read some more of the next; False if there is nothing to do."""
        reader = self._reader
        if self._finished or self._write_paused or self._unsent or self._in_thread or self._transport is None:
            return False
        if reader.ready:
            self._answer(reader.ready.popleft())
            self._answered = True
            return True
        if reader.error is not None:
            self._reject(reader.error)
            return False
        if not self._incoming:
            return False
        reader.feed(bytes(self._incoming[:PARSED_AT_ONCE]))
        del self._incoming[:PARSED_AT_ONCE]
        return True

    def _update_phase(self) -> None:
        connections, reader = self._context.connections, self._reader
        if reader.expects_continue and self._transport is not None:
            reader.expects_continue = False
            self._send(CONTINUE)
        if not reader.in_request:
            if self._answered or connections.phase(self) not in (Phase.NEW, Phase.IDLE):  # else: empty lines
                connections.set_phase(self, Phase.IDLE)
            return
        if self._answered or connections.phase(self) is not Phase.RECEIVING:
            connections.set_phase(self, Phase.RECEIVING)
        connections.set_buffered(self, reader.buffered_bytes)

    def _answer(self, request: Request) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        large_bodies = self._context.large_bodies
        try:
            if not large_bodies.is_large(request.body):
                self._send_response(self._reply(request))
                return
            large_bodies.submit(
                self, request.body.tell(), answer=lambda: self._reply(request), done=self._on_thread_response
            )
        except RequestError as error:
            self._send_response(self._render(error_response(error), request))
            return
        self._in_thread = True
        self._context.connections.set_phase(self, Phase.RECEIVING)

    def _on_thread_response(self, reply: Reply) -> None:
        """What another thread was asked for is there."""
        self._in_thread = False
        if not self._finished:
            self._send_response(reply)
            self._answered = True
            self._context.run_queue.submit(self)

    def _send_response(self, reply: Reply) -> None:
        data, keep_alive = reply
        self._send(data)
        if not keep_alive:
            self.close()

    def _reply(self, request: Request) -> Reply:
        """What the app says; if the app fails, a 500 that tells the caller nothing and the log everything."""
        try:
            return self._render(
                call_app(self._context.app, build_environ(request, shared=self._shared)), request
            )
        except RequestError as error:
            return self._render(error_response(error), request)
        except Exception:
            target = request.target.decode("latin-1")
            self._context.log.exception("the app failed at %s %s", request.method, target)
            return self._render(error_response(_BROKEN), request)

    def _render(self, response: Response, request: Request) -> Reply:
        stays = request.keep_alive and not self._should_close() and not response.closes_connection
        to_head = request.method == "HEAD"
        return render(response, date=self._context.date, keep_alive=stays, to_head=to_head), stays

    def _reject(self, error: RequestError) -> None:
        """Say why, and read on without looking: closing on unread bytes would take back the reply."""
        if self._transport is not None:
            response = error_response(error)
            self._send(render(response, date=self._context.date, keep_alive=False, to_head=False))
            self._finished = True
            self._incoming.clear()
            self._context.connections.set_phase(self, Phase.LINGERING)


def _speaks_http2(transport: asyncio.BaseTransport) -> bool:
    secured = transport.get_extra_info("ssl_object")
    return secured is not None and secured.selected_alpn_protocol() == "h2"
