"""One caller's connection of HTTP/2, on the loop; see `http_connection` for how the two are chosen."""

from __future__ import annotations

import asyncio

from server.http.base_connection import BaseConnection
from server.http.connections import Phase
from server.http.context import ConnectionContext
from server.http.http2.headers import fields_of
from server.http.http2.session import Session
from server.http.request_parser import Request, RequestError
from server.http.responses import (
    BODILESS,
    Environ,
    Response,
    call,
    environ_of,
    error_response,
)

_BROKEN = RequestError(500, "internal error")
#: Seconds between looks at what a caller makes no room for.
LOOK_EVERY = 1.0


class Connection(BaseConnection):
    """Reads requests, has the app answer them one after the other, and says at each moment what it waits for.

    The app runs inline, on the loop's thread: it may not wait for anything. What could take it long is
    answered by another thread (`http_large_bodies`), and others of the same caller meanwhile.
    """

    def __init__(self, *, site: ConnectionContext, shared: Environ) -> None:
        super().__init__(site=site)
        self._shared = shared
        self._session = Session(limits=site.limits, clock=site.clock)
        self._oldest = 0
        self._looked = self._since

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._site.crowd.enter(self, Phase.FRESH)
        self._flush()

    def data_received(self, data: bytes) -> None:
        if self._parting:
            return
        self._session.receive(data)
        self._read_or_wait()
        self._site.run_queue.submit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._session.forget()

    # What the crowd calls.

    def drop(self) -> None:
        super().drop()
        self._session.forget()

    def overdue(self, phase: Phase) -> None:
        if phase in (Phase.FRESH, Phase.IDLE):
            self.part()
        elif phase is Phase.PARTING or self._choked or not self._session.expire():
            self.drop()
        else:
            self._settle(answered=False)

    def part(self) -> None:
        """Close once what was begun has been answered and sent; who asks meanwhile knows that it was not."""
        self._session.go()
        self._flush()
        if self._session.idle:
            super().part()

    # The order of things.

    @property
    def _unread(self) -> int:
        return self._session.unread

    @property
    def _waiting(self) -> int:
        return self._session.waiting

    def work(self, until: float) -> bool:
        answered = False
        while not self._parting and not self._choked:
            if self._session.ready:
                self._answer(*self._session.ready.popleft())
                answered = True
            elif not self._session.advance():
                return self._settle(answered=answered)
            if self._site.stopwatch() >= until:
                self._settle(answered=answered)
                return not self._parting and not self._choked
        return False

    def _settle(self, *, answered: bool) -> bool:
        """Send what can be, and say what it waits for now; False, for there is nothing else to do."""
        session, crowd = self._session, self._site.crowd
        if self._must_end():
            session.go()
        self._flush()
        self._read_or_wait()
        now = self._site.clock()
        if session.rests and now - self._looked >= LOOK_EVERY:
            self._looked = now
            if not session.expire():
                self.drop()  # whatever else it does meanwhile
                return False
        if self._parting or self._choked or self._transport is None:
            return False
        if session.over or (session.going and session.idle):
            self.part()
        elif session.ready:
            if crowd.phase(self) in (Phase.FRESH, Phase.IDLE):
                crowd.enter(self, Phase.RECEIVING)  # it is not to be sent away meanwhile
        else:
            self._wait(answered=answered)
        return False

    def _wait(self, *, answered: bool) -> None:
        """It waits for what its oldest request waits for: others that come and go change nothing."""
        crowd, session = self._site.crowd, self._session
        phase, oldest = crowd.phase(self), session.oldest
        if session.midway:
            if phase is not Phase.RECEIVING or (oldest and oldest != self._oldest):
                crowd.enter(self, Phase.RECEIVING)
            crowd.hold(self, session.held + session.unread)
        elif session.blocked is not None:
            if phase is not Phase.SENDING:
                crowd.enter(self, Phase.SENDING)
        elif answered or phase not in (Phase.FRESH, Phase.IDLE):
            crowd.enter(self, Phase.IDLE)
        self._oldest = oldest

    def _flush(self) -> None:
        """Give the transport what it has room for."""
        while not self._choked and not self._unsent:
            waiting = self._session.take()
            if not waiting or self._transport is None or self._transport.is_closing():
                break
            self._send(waiting)
        self._site.crowd.owe(self, self.owes())

    def _answer(self, stream: int, request: Request) -> None:
        large_bodies = self._site.large_bodies
        try:
            if request.refused is not None:
                raise request.refused
            if not large_bodies.concern(request.body):
                self._say(stream, request, self._said(request))
                return
            large_bodies.submit(
                self,
                request.body.tell(),
                answer=lambda: self._said(request),
                done=lambda said: self._replied(stream, request, said),
            )
        except RequestError as refused:
            self._say(stream, request, error_response(refused))

    def _replied(self, stream: int, request: Request, said: Response) -> None:
        """What another thread was asked for is there."""
        self._say(stream, request, said)
        if self._transport is not None:
            self._settle(answered=True)
            self._site.run_queue.submit(self)

    def _say(self, stream: int, request: Request, said: Response) -> None:
        """If it cannot be said, a 500 that tells the caller nothing and the log everything."""
        try:
            fields = fields_of(said, date=self._site.date)
        except ValueError:
            self._site.log.exception("the app failed at %s %s", request.method, _shown(request))
            said = error_response(_BROKEN)
            fields = fields_of(said, date=self._site.date)
        bodiless = request.method == "HEAD" or said.status.startswith(BODILESS)
        self._session.answer(stream, fields, b"" if bodiless else said.body)
        if said.closing:
            self._session.go()

    def _said(self, request: Request) -> Response:
        """What the app says; if the app fails, a 500."""
        try:
            return call(self._site.app, environ_of(request, shared=self._shared))
        except RequestError as refused:
            return error_response(refused)
        except Exception:
            self._site.log.exception("the app failed at %s %s", request.method, _shown(request))
            return error_response(_BROKEN)


def _shown(request: Request) -> str:
    return request.target.decode("latin-1")
