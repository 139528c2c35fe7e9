"""What is the same for a caller of either protocol: reading, sending, going, and being sent away.

Invariants
- What has arrived is worked on in slices of time (`server.http.run_queue`). While more than `READ_AHEAD`
  bytes wait for that, nothing is read from the socket.
- No more than `WRITTEN_AT_ONCE` bytes are given to the transport beyond what it says it has room for, so
  nearly all that waits to be sent waits here, and is known to the crowd, with what the transport has.
- While the caller takes nothing of what it is sent, nothing more is read from it.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import deque
from typing import Any, cast

from server.http.connections import Phase
from server.http.context import ConnectionContext
from server.http.limits import SLOW_READER_FACTOR

READ_AHEAD = 64 * 1024
WRITTEN_AT_ONCE = 64 * 1024


class BaseConnection(asyncio.Protocol):
    """One connection of the crowd, on the loop."""

    def __init__(self, *, context: ConnectionContext) -> None:
        self.handshake_task: asyncio.Task[Any] | None = None  # the handshake; its owner sets it
        #: Below TLS, where what was encrypted waits to be sent; its owner sets it.
        self.socket_transport: asyncio.Transport | None = None
        self._context = context
        self._transport: asyncio.Transport | None = None
        self._since = context.clock()
        self._finished = False
        self._closing = False
        self._write_paused = False
        self._reading = True
        self._unsent: deque[memoryview] = deque()
        self._unsent_bytes = 0
        self._unsent_since = 0.0

    # What a protocol adds.

    @abstractmethod
    def work(self, until: float) -> bool:
        """Take steps until the clock says so or nothing is left to do; whether something is left."""

    @property
    @abstractmethod
    def _unread_bytes(self) -> int:
        """Bytes that have arrived and were not worked on."""

    @property
    def _protocol_unsent_bytes(self) -> int:
        """Bytes of answers that the protocol keeps back, beside `_unsent`."""
        return 0

    # What the loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but ancestry

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
            self._context.connections.set_phase(self, Phase.SENDING)
            self._update_reading()

    def resume_writing(self) -> None:
        self._write_paused = False
        if (
            self._unsent
            and self._context.clock() - self._unsent_since
            > SLOW_READER_FACTOR * self._context.limits.response_timeout
        ):
            self.abort()
            return
        self._write_unsent()
        if self._transport is not None and not self._write_paused:
            self._update_reading()
            self._context.run_queue.submit(self)

    # What the crowd calls.

    @abstractmethod
    def on_phase_timeout(self, phase: Phase) -> None:
        """Its time in the phase is over."""

    def abort(self) -> None:
        self._finished = True
        self._unsent.clear()
        if self._transport is not None:
            self._transport.abort()
        elif self.handshake_task is not None:
            self.handshake_task.cancel()

    def close(self) -> None:
        """Close once what was written has been sent."""
        self._finished = self._closing = True
        if self._transport is not None:
            self._write_unsent()
            self._context.connections.set_phase(
                self, Phase.SENDING if self._write_paused else Phase.LINGERING
            )

    def unsent_bytes(self) -> int:
        """Bytes of answers that wait to be sent, the transport's part included."""
        size = self._unsent_bytes + self._protocol_unsent_bytes
        if self._transport is not None:
            size += self._transport.get_write_buffer_size()
        if self.socket_transport is not None and self.socket_transport is not self._transport:
            size += self.socket_transport.get_write_buffer_size()
        return size

    # The order of things.

    def _update_reading(self) -> None:
        """Read on, unless enough waits already."""
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
        """What is said, in its order; as much of it at a time as is taken."""
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

    def _should_close(self) -> bool:
        return (
            self._context.stopping
            or self._context.clock() - self._since > self._context.limits.connection_age
        )
