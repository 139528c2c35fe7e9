"""Answers of HTTP/2 on their way: as much as the caller's windows and the transport have room for.

Invariants
- Nothing is sent beyond the caller's windows.
- `take` gives `TAKEN_AT_ONCE` bytes; h2 is asked for frames only while fewer wait.
- What a caller took earns it a little (`server.http.http2.frame_costs`).
"""

from __future__ import annotations

from collections.abc import Callable

from h2.connection import H2Connection

from server.http.http2 import frame_costs as frames
from server.http.http2.frame_costs import Allowance

TAKEN_AT_ONCE = 64 * 1024


class Outbox:
    """Not thread-safe. What sends gives the streams whose answers have been said to their ends."""

    def __init__(self, connection: H2Connection, *, allowance: Allowance, clock: Callable[[], float]) -> None:
        #: Bytes of answers for which the caller has to make room.
        self.rests = 0
        #: Since when nothing could be sent of them.
        self.blocked: float | None = None
        self._connection = connection
        self._allowance = allowance
        self._clock = clock
        self._out = bytearray()
        #: Of answers of which not all could be sent.
        self._rest_of: dict[int, memoryview] = {}
        #: Whether some of them wait for `take` rather than for the caller.
        self._cut = False

    @property
    def size(self) -> int:
        """Bytes that wait to be sent: `rests`, and what `take` will give."""
        return self.rests + len(self._out)

    def collect(self) -> None:
        """What h2 has to say of its own."""
        self._out += self._connection.data_to_send()

    def append(self, data: bytes) -> None:
        self._out += data

    def begin(self, number: int, body: bytes) -> list[int]:
        """The head of the answer is said."""
        self.collect()
        self._rest_of[number] = memoryview(body)
        self.rests += len(body)
        return self.send(number)

    def drop(self, number: int) -> None:
        """No more of this answer is to be sent."""
        self.rests -= len(self._rest_of.pop(number, b""))
        if not self.rests:
            self.blocked = None

    def clear(self, *, unsent: bool) -> None:
        """Drop all answers, and `unsent`: what would have been sent next too."""
        self._rest_of.clear()
        self.rests, self.blocked, self._cut = 0, None, False
        if unsent:
            self._out.clear()

    def take(self) -> tuple[bytes, list[int]]:
        """What is to be sent next, once; empty if nothing can be."""
        ended = []
        if self._cut and len(self._out) < TAKEN_AT_ONCE:
            self._cut = False
            ended = self.send_all()
        taken = bytes(self._out[:TAKEN_AT_ONCE])
        del self._out[:TAKEN_AT_ONCE]
        return taken, ended

    def send_all(self) -> list[int]:
        ended = []
        for number in list(self._rest_of):
            ended += self.send(number)
            if self._cut or self._connection.outbound_flow_control_window <= 0:
                break
        return ended

    def send(self, number: int) -> list[int]:
        """As much of the answer as there is room for."""
        rest = self._rest_of.get(number)
        if rest is None:
            return []
        before, rest = len(rest), self._send(number, rest)
        sent = before - len(rest)
        self.rests -= sent
        self._allowance.earn(sent * frames.A_BYTE)
        if sent or not self.rests:
            self.blocked = None
        if self.rests and self.blocked is None and not self._cut:
            self.blocked = self._clock()
        if rest:
            self._rest_of[number] = rest
            return []
        del self._rest_of[number]
        return [number]

    def _send(self, number: int, rest: memoryview) -> memoryview:
        """What is left."""
        connection = self._connection
        while rest and not self._cut:
            room = min(
                connection.local_flow_control_window(number),
                connection.max_outbound_frame_size,
                TAKEN_AT_ONCE,
            )
            if room <= 0:
                break
            piece, rest = rest[:room], rest[room:]
            connection.send_data(number, bytes(piece), end_stream=not rest)
            self.collect()
            self._cut = bool(rest) and len(self._out) >= TAKEN_AT_ONCE
        return rest
