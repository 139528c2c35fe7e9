"""One caller's connection of HTTP/2, on the loop; see `http_connection` for how the two are chosen."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import cast

from server.http2_session import Session
from server.http_answering import BODILESS, OURS, Environ, Said, call, environ_of, words
from server.http_caller import Caller
from server.http_crowd import Phase
from server.http_reading import Refused, Request
from server.http_site import Site

_BROKEN = Refused(500, "internal error")


class Connection(Caller):
    """Reads requests, has the app answer them one after the other, and says at each moment what it waits for.

    The app runs inline, on the loop's thread: it may not wait for anything.
    """

    def __init__(self, *, site: Site, shared: Environ) -> None:
        super().__init__(site=site)
        self._shared = shared
        self._session = Session(limits=site.limits, clock=site.clock)
        self._held = self._oldest = 0

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but ancestry
        self._site.crowd.enter(self, Phase.FRESH)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._parting:
            return
        self._session.feed(data)
        self._proceed(received=len(data))

    # What the crowd calls.

    def overdue(self, phase: Phase) -> None:
        if phase in (Phase.FRESH, Phase.IDLE):
            self.part()
        elif phase is Phase.PARTING or self._choked or not self._session.expire():
            self.drop()
        else:
            self._proceed(received=0)

    def part(self) -> None:
        """Close once what was begun has been answered and sent; who asks meanwhile knows that it was not."""
        self._session.go()
        self._flush()
        if self._session.idle:
            super().part()

    # The order of things.

    def _proceed(self, *, received: int) -> None:
        """Answer one request, if one is ready, and settle what we wait for next."""
        session = self._session
        answered = bool(session.ready)
        if answered:
            self._answer(*session.ready.popleft())
        if self._must_end():
            session.go()
        self._flush()
        if session.rests and not session.expire():
            self.drop()  # whatever else it does meanwhile
            return
        self._site.crowd.owe(self, session.rests)
        if self._parting or self._choked or self._transport is None:
            return
        if session.over or (session.going and session.idle):
            self.part()
        elif session.ready:
            if self._site.crowd.phase(self) in (Phase.FRESH, Phase.IDLE):
                self._enter(Phase.RECEIVING)  # it is not to be sent away meanwhile
            self._answer_rest_later(self._transport)
        else:
            self._wait(answered=answered)

    def _wait(self, *, answered: bool) -> None:
        """It waits for what its oldest request waits for: others that come and go change nothing."""
        crowd, session = self._site.crowd, self._session
        phase, oldest = crowd.phase(self), session.oldest
        if session.midway:
            if phase is not Phase.RECEIVING or (oldest and oldest != self._oldest):
                self._enter(Phase.RECEIVING)
            grown, self._held = session.held - self._held, session.held
            crowd.hold(self, grown)
        elif session.blocked is not None:
            if phase is not Phase.SENDING:
                self._enter(Phase.SENDING)
        elif answered or phase not in (Phase.FRESH, Phase.IDLE):
            self._enter(Phase.IDLE)
        self._oldest = oldest

    def _enter(self, phase: Phase) -> None:
        """Nothing is held of whoever enters a phase, as far as the crowd knows."""
        self._site.crowd.enter(self, phase)
        self._held = 0

    def _flush(self) -> None:
        waiting = self._session.take()
        if waiting and self._transport is not None and not self._transport.is_closing():
            self._transport.write(waiting)

    def _answer(self, stream: int, request: Request) -> None:
        """What the app says; if the app fails, a 500 that tells the caller nothing and the log everything."""
        said = self._said(request)
        try:
            block = block_of(said, date=self._site.date)
        except ValueError:
            self._site.log.exception("the app failed at %s %s", request.method, _shown(request))
            said = words(_BROKEN)
            block = block_of(said, date=self._site.date)
        bodiless = request.method == "HEAD" or said.status.startswith(BODILESS)
        self._session.answer(stream, block, b"" if bodiless else said.body)
        if said.closing:
            self._session.go()

    def _said(self, request: Request) -> Said:
        if request.refused is not None:
            return words(request.refused)
        try:
            return call(self._site.app, environ_of(request, shared=self._shared))
        except Refused as refused:
            return words(refused)
        except Exception:
            self._site.log.exception("the app failed at %s %s", request.method, _shown(request))
            return words(_BROKEN)


def _shown(request: Request) -> str:
    return request.target.decode("latin-1")


def block_of(said: Said, *, date: str) -> bytes:
    """The head of an answer, in HPACK's plainest words: nothing of it is remembered by either side.

    Raises ValueError if a header of the app would end the line it is on.
    """
    parts = [_status(said.status[:3]), _field("date", date)]
    measured = said.status.startswith(BODILESS)
    for name, value in said.headers:
        lowered = name.lower()
        if lowered not in OURS:
            measured = measured or lowered == "content-length"
            parts.append(_field(lowered, value))
    if not measured:
        parts.append(_field("content-length", str(len(said.body))))
    return b"".join(parts)


@lru_cache(maxsize=64)
def _status(code: str) -> bytes:
    return b"\x88" if code == "200" else b"\x08\x03" + code.encode()  # the eighth name is `:status`


@lru_cache(maxsize=1024)
def _field(name: str, value: str) -> bytes:
    if any(broken in text for broken in "\r\n\0" for text in (name, value)):
        raise ValueError("a header of the app holds a line break")
    return b"\0" + _text(name) + _text(value)


def _text(text: str) -> bytes:
    """Its length in HPACK's integers, seven bits first, and itself."""
    encoded = text.encode("latin-1")
    size = len(encoded)
    if size < 127:
        return bytes([size]) + encoded
    size -= 127
    digits = bytearray([127])
    while size >= 128:
        digits.append(size % 128 + 128)
        size //= 128
    return bytes([*digits, size]) + encoded
