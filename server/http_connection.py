"""One caller's connection, on the loop."""

import asyncio
from typing import cast

from server import http2_connection
from server.http_answering import Environ, Said, call, environ_of, render, words
from server.http_caller import Caller
from server.http_crowd import Phase
from server.http_reading import Reader, Refused, Request
from server.http_site import Site

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_TOO_SLOW = Refused(408, "the request did not become complete in time")
_BROKEN = Refused(500, "internal error")


class Connection(Caller):
    """Reads requests, has the app answer them one after the other, and says at each moment what it waits for.

    The app runs inline, on the loop's thread: it may not wait for anything.
    """

    def __init__(self, *, site: Site) -> None:
        super().__init__(site=site)
        self._reader = Reader(limits=site.limits)
        self._shared: Environ = site.shared

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but ancestry
        peer = transport.get_extra_info("peername")
        address = peer if isinstance(peer, tuple) else ("", 0)
        self._shared = {**self._site.shared, "REMOTE_ADDR": address[0], "REMOTE_PORT": str(address[1])}
        if _speaks_http2(transport):
            self._give_way(self._transport)
        else:
            self._site.crowd.enter(self, Phase.FRESH)

    def _give_way(self, transport: asyncio.Transport) -> None:
        """What comes is HTTP/2: another reads it from now on."""
        self._parting = True
        self._site.crowd.leave(self)
        other = http2_connection.Connection(site=self._site, shared=self._shared)
        self._site.crowd.join(other)
        transport.set_protocol(other)
        other.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._parting:
            return
        self._reader.feed(data)
        self._proceed(received=len(data))

    # What the crowd calls.

    def overdue(self, phase: Phase) -> None:
        if phase is Phase.RECEIVING:
            self._refuse(_TOO_SLOW)
        elif phase in (Phase.FRESH, Phase.IDLE):
            self.part()
        else:
            self.drop()

    # The order of things.

    def _proceed(self, *, received: int) -> None:
        """Answer one request, if one is ready, and settle what we wait for next."""
        reader = self._reader
        answered = bool(reader.ready)
        if answered:
            self._answer(reader.ready.popleft())
        if self._parting or self._choked or self._transport is None:
            return
        if reader.ready:
            self._answer_rest_later(self._transport)
        elif reader.refused is not None:
            self._refuse(reader.refused)
        else:
            self._wait(received=received, answered=answered)

    def _wait(self, *, received: int, answered: bool) -> None:
        crowd, reader = self._site.crowd, self._reader
        if reader.owes_continue and self._transport is not None:
            reader.owes_continue = False
            self._transport.write(CONTINUE)
        if not reader.midway:
            if answered or crowd.phase(self) not in (Phase.FRESH, Phase.IDLE):  # else it sent empty lines
                crowd.enter(self, Phase.IDLE)
            return
        if answered or crowd.phase(self) is not Phase.RECEIVING:
            crowd.enter(self, Phase.RECEIVING)
        crowd.hold(self, received)

    def _answer(self, request: Request) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        reply, keep_alive = self._reply(request)
        self._transport.write(reply)
        if not keep_alive:
            self.part()

    def _reply(self, request: Request) -> tuple[bytes, bool]:
        """What the app says, and whether the connection stays; if the app fails, a 500 that tells the caller
        nothing and the log everything."""
        site = self._site
        keep_alive = request.keep_alive and not self._must_end()

        def rendered(said: Said) -> tuple[bytes, bool]:
            stays = keep_alive and not said.closing
            return render(said, date=site.date, keep_alive=stays, to_head=request.method == "HEAD"), stays

        try:
            return rendered(call(site.app, environ_of(request, shared=self._shared)))
        except Refused as refused:
            return rendered(words(refused))
        except Exception:
            site.log.exception("the app failed at %s %s", request.method, request.target.decode("latin-1"))
            return rendered(words(_BROKEN))

    def _refuse(self, refused: Refused) -> None:
        """Say why, and read on without looking: closing on unread bytes would take back the reply."""
        if self._transport is not None:
            said = words(refused)
            self._transport.write(render(said, date=self._site.date, keep_alive=False, to_head=False))
            self._parting = True
            self._site.crowd.enter(self, Phase.PARTING)


def _speaks_http2(transport: asyncio.BaseTransport) -> bool:
    secured = transport.get_extra_info("ssl_object")
    return secured is not None and secured.selected_alpn_protocol() == "h2"
