"""What is the same for a caller of either protocol: being choked, going, and being sent away."""

import asyncio
from abc import abstractmethod
from typing import Any

from server.http_crowd import Phase
from server.http_site import Site


class Caller(asyncio.Protocol):
    """One connection of the crowd, on the loop."""

    def __init__(self, *, site: Site) -> None:
        self.greeting: asyncio.Task[Any] | None = None  # the handshake; its owner sets it
        self._site = site
        self._transport: asyncio.Transport | None = None
        self._since = site.clock()
        self._parting = False
        self._choked = False

    @abstractmethod
    def _proceed(self, *, received: int) -> None:
        """Go on, now that so many bytes have come, or that there is room for a reply again."""

    # What the loop calls.

    def connection_lost(self, exc: Exception | None) -> None:
        self._parting = True
        self._transport = None
        self._site.crowd.leave(self)

    def pause_writing(self) -> None:
        self._choked = True
        if self._transport is not None and not self._parting:
            self._transport.pause_reading()
            self._site.crowd.enter(self, Phase.SENDING)

    def resume_writing(self) -> None:
        self._choked = False
        if self._transport is not None and not self._parting:
            self._transport.resume_reading()
            self._proceed(received=0)

    # What the crowd calls.

    @abstractmethod
    def overdue(self, phase: Phase) -> None:
        """Its time in the phase is over."""

    def drop(self) -> None:
        self._parting = True
        if self._transport is not None:
            self._transport.abort()
        elif self.greeting is not None:
            self.greeting.cancel()

    def part(self) -> None:
        """Close once what was written has been sent."""
        self._parting = True
        if self._transport is not None:
            self._site.crowd.enter(self, Phase.SENDING if self._choked else Phase.PARTING)
            self._transport.close()

    # The order of things.

    def _answer_rest_later(self, transport: asyncio.Transport) -> None:
        """Others go between two requests of one caller."""
        transport.pause_reading()
        self._site.soon(self._resume)

    def _resume(self) -> None:
        if self._transport is None or self._parting or self._choked:
            return
        self._transport.resume_reading()
        self._proceed(received=0)

    def _must_end(self) -> bool:
        return self._site.stopping or self._site.clock() - self._since > self._site.limits.age
