"""Answers of HTTP/2 on their way: as much as the caller's windows and the transport have room for.

Invariants
- Nothing is sent beyond the caller's windows.
- `take` gives `CHUNK_BYTES` bytes; h2 is asked for frames only while fewer wait.
- What a caller took earns it a little (`server.http.http2.frame_costs`).
"""

from __future__ import annotations

from collections.abc import Callable

from h2.connection import H2Connection

from server.http.http2 import frame_costs as frames
from server.http.http2.frame_costs import Allowance

CHUNK_BYTES = 64 * 1024


class Outbox:
    """Not thread-safe. What sends gives the streams whose answers have been said to their ends."""

    def __init__(self, connection: H2Connection, *, allowance: Allowance, clock: Callable[[], float]) -> None:
        #: Bytes of answers for which the caller has to make room.
        self.blocked_bytes = 0
        #: Since when nothing could be sent of them.
        self.blocked_since: float | None = None
        self._connection = connection
        self._allowance = allowance
        self._clock = clock
        self._output = bytearray()
        #: Of answers of which not all could be sent.
        self._unsent_bodies: dict[int, memoryview] = {}
        #: Whether some of them wait for `take` rather than for the caller.
        self._chunk_full = False

    @property
    def size(self) -> int:
        """Bytes that wait to be sent: `blocked_bytes`, and what `take` will give."""
        return self.blocked_bytes + len(self._output)

    def collect(self) -> None:
        """What h2 has to say of its own."""
        self._output += self._connection.data_to_send()

    def append(self, data: bytes) -> None:
        self._output += data

    def begin(self, number: int, body: bytes) -> list[int]:
        """The head of the answer is said."""
        self.collect()
        self._unsent_bodies[number] = memoryview(body)
        self.blocked_bytes += len(body)
        return self.send(number)

    def drop(self, number: int) -> None:
        """No more of this answer is to be sent."""
        self.blocked_bytes -= len(self._unsent_bodies.pop(number, b""))
        if not self.blocked_bytes:
            self.blocked_since = None

    def clear(self, *, unsent: bool) -> None:
        """Drop all answers, and `unsent`: what would have been sent next too."""
        self._unsent_bodies.clear()
        self.blocked_bytes, self.blocked_since, self._chunk_full = 0, None, False
        if unsent:
            self._output.clear()

    def take(self) -> tuple[bytes, list[int]]:
        """What is to be sent next, once; empty if nothing can be."""
        ended = []
        if self._chunk_full and len(self._output) < CHUNK_BYTES:
            self._chunk_full = False
            ended = self.send_all()
        taken = bytes(self._output[:CHUNK_BYTES])
        del self._output[:CHUNK_BYTES]
        return taken, ended

    def send_all(self) -> list[int]:
        ended = []
        for number in list(self._unsent_bodies):
            ended += self.send(number)
            if self._chunk_full or self._connection.outbound_flow_control_window <= 0:
                break
        return ended

    def send(self, number: int) -> list[int]:
        """As much of the answer as there is room for."""
        rest = self._unsent_bodies.get(number)
        if rest is None:
            return []
        before, rest = len(rest), self._send(number, rest)
        sent = before - len(rest)
        self.blocked_bytes -= sent
        self._allowance.earn(sent * frames.ALLOWANCE_PER_BYTE)
        if sent or not self.blocked_bytes:
            self.blocked_since = None
        if self.blocked_bytes and self.blocked_since is None and not self._chunk_full:
            self.blocked_since = self._clock()
        if rest:
            self._unsent_bodies[number] = rest
            return []
        del self._unsent_bodies[number]
        return [number]

    def _send(self, number: int, rest: memoryview) -> memoryview:
        """What is left."""
        connection = self._connection
        while rest and not self._chunk_full:
            room = min(
                connection.local_flow_control_window(number),
                connection.max_outbound_frame_size,
                CHUNK_BYTES,
            )
            if room <= 0:
                break
            piece, rest = rest[:room], rest[room:]
            connection.send_data(number, bytes(piece), end_stream=not rest)
            self.collect()
            self._chunk_full = bool(rest) and len(self._output) >= CHUNK_BYTES
        return rest
