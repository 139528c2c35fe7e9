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
    call,
    environ_of,
    error_response,
    render,
)

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
#: Bytes that are parsed before the clock is looked at: two milliseconds of the worst that can be sent.
PIECE = 16 * 1024
#: What is sent, and whether the connection stays.
Reply = tuple[bytes, bool]
_TOO_SLOW = RequestError(408, "the request did not become complete in time")
_BROKEN = RequestError(500, "internal error")


class Connection(BaseConnection):
    """Reads requests, has the app answer them one after the other, and says at each moment what it waits for.

    The app runs inline, on the loop's thread: it may not wait for anything. What could take it long is
    answered by another thread (`http_large_bodies`), and nothing more of this caller meanwhile.
    """

    def __init__(self, *, site: ConnectionContext) -> None:
        super().__init__(site=site)
        self._reader = RequestParser(limits=site.limits)
        self._shared: Environ = site.shared
        self._incoming = bytearray()
        self._answered = False
        self._elsewhere = False

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        address = peer if isinstance(peer, tuple) else ("", 0)
        self._shared = {**self._site.shared, "REMOTE_ADDR": address[0], "REMOTE_PORT": str(address[1])}
        if _speaks_http2(transport):
            self._give_way(transport)
        else:
            self._site.crowd.enter(self, Phase.FRESH)
            self._site.run_queue.submit(self)

    def _give_way(self, transport: asyncio.BaseTransport) -> None:
        """What comes is HTTP/2: another reads it from now on."""
        self._parting = True
        self._site.crowd.leave(self)
        other = http2_connection.Connection(site=self._site, shared=self._shared)
        other.socket_transport = self.socket_transport
        self._site.crowd.join(other)
        cast(asyncio.Transport, transport).set_protocol(other)
        other.connection_made(transport)
        if self._incoming:
            other.data_received(bytes(self._incoming))

    def data_received(self, data: bytes) -> None:
        if self._parting:
            return
        self._incoming += data
        if self._transport is None:
            return  # it came with the end of the handshake
        self._read_or_wait()
        self._site.run_queue.submit(self)

    # What the crowd calls.

    def overdue(self, phase: Phase) -> None:
        if phase is Phase.RECEIVING:
            self._refuse(_TOO_SLOW)
        elif phase in (Phase.FRESH, Phase.IDLE):
            self.part()
        else:
            self.drop()

    # The order of things.

    @property
    def _unread(self) -> int:
        return len(self._incoming)

    def work(self, until: float) -> bool:
        while self._step():
            if self._site.stopwatch() >= until:
                break
        if self._parting or self._choked or self._elsewhere or self._transport is None:
            return False
        self._read_or_wait()
        if self._reader.ready or self._reader.refused is not None or self._incoming:
            if self._site.crowd.phase(self) in (Phase.FRESH, Phase.IDLE):
                self._site.crowd.enter(self, Phase.RECEIVING)  # it is not to be sent away meanwhile
            return True
        self._wait()
        self._answered = False
        return False

    def _step(self) -> bool:
        """Answer one request, or read some more of the next; False if there is nothing to do."""
        reader = self._reader
        if self._parting or self._choked or self._unsent or self._elsewhere or self._transport is None:
            return False
        if reader.ready:
            self._answer(reader.ready.popleft())
            self._answered = True
            return True
        if reader.refused is not None:
            self._refuse(reader.refused)
            return False
        if not self._incoming:
            return False
        reader.feed(bytes(self._incoming[:PIECE]))
        del self._incoming[:PIECE]
        return True

    def _wait(self) -> None:
        crowd, reader = self._site.crowd, self._reader
        if reader.owes_continue and self._transport is not None:
            reader.owes_continue = False
            self._send(CONTINUE)
        if not reader.midway:
            if self._answered or crowd.phase(self) not in (Phase.FRESH, Phase.IDLE):  # else: empty lines
                crowd.enter(self, Phase.IDLE)
            return
        if self._answered or crowd.phase(self) is not Phase.RECEIVING:
            crowd.enter(self, Phase.RECEIVING)
        crowd.hold(self, reader.held)

    def _answer(self, request: Request) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        large_bodies = self._site.large_bodies
        try:
            if not large_bodies.concern(request.body):
                self._say(self._reply(request))
                return
            large_bodies.submit(
                self, request.body.tell(), answer=lambda: self._reply(request), done=self._replied
            )
        except RequestError as refused:
            self._say(self._rendered(error_response(refused), request))
            return
        self._elsewhere = True
        self._site.crowd.enter(self, Phase.RECEIVING)

    def _replied(self, reply: Reply) -> None:
        """What another thread was asked for is there."""
        self._elsewhere = False
        if not self._parting:
            self._say(reply)
            self._answered = True
            self._site.run_queue.submit(self)

    def _say(self, reply: Reply) -> None:
        data, keep_alive = reply
        self._send(data)
        if not keep_alive:
            self.part()

    def _reply(self, request: Request) -> Reply:
        """What the app says; if the app fails, a 500 that tells the caller nothing and the log everything."""
        try:
            return self._rendered(call(self._site.app, environ_of(request, shared=self._shared)), request)
        except RequestError as refused:
            return self._rendered(error_response(refused), request)
        except Exception:
            target = request.target.decode("latin-1")
            self._site.log.exception("the app failed at %s %s", request.method, target)
            return self._rendered(error_response(_BROKEN), request)

    def _rendered(self, said: Response, request: Request) -> Reply:
        stays = request.keep_alive and not self._must_end() and not said.closing
        to_head = request.method == "HEAD"
        return render(said, date=self._site.date, keep_alive=stays, to_head=to_head), stays

    def _refuse(self, refused: RequestError) -> None:
        """Say why, and read on without looking: closing on unread bytes would take back the reply."""
        if self._transport is not None:
            said = error_response(refused)
            self._send(render(said, date=self._site.date, keep_alive=False, to_head=False))
            self._parting = True
            self._incoming.clear()
            self._site.crowd.enter(self, Phase.PARTING)


def _speaks_http2(transport: asyncio.BaseTransport) -> bool:
    secured = transport.get_extra_info("ssl_object")
    return secured is not None and secured.selected_alpn_protocol() == "h2"
