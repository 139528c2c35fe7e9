"""Sends the responses of an HTTP/2 connection as far as the client's windows and the transport have room.

Invariants
- Nothing is sent beyond the client's flow-control windows.
- `take` returns at most `CHUNK_BYTES`; h2 is asked for frames only while fewer bytes wait.
- Each byte of a response that the client takes adds to its allowance (`frame_reader`).
"""

from __future__ import annotations

from collections.abc import Callable

from h2.connection import H2Connection

from server.http.http2.frame_reader import ALLOWANCE_PER_BYTE, Allowance

CHUNK_BYTES = 64 * 1024


class SendBuffer:
    """Not thread-safe. Methods that send return the streams whose responses were sent to their ends."""

    def __init__(self, connection: H2Connection, *, allowance: Allowance, clock: Callable[[], float]) -> None:
        #: Bytes of responses for which the client has to open a window.
        self.blocked_bytes = 0
        #: Since when none of them could be sent.
        self.blocked_since: float | None = None
        self._connection = connection
        self._allowance = allowance
        self._clock = clock
        self._output = bytearray()
        #: The rest of each response that could not be sent completely, by stream.
        self._unsent_bodies: dict[int, memoryview] = {}
        #: Whether some of them wait for `take`, not for the client.
        self._chunk_full = False

    @property
    def size(self) -> int:
        """Bytes that wait to be sent: `blocked_bytes`, and what `take` will return."""
        return self.blocked_bytes + len(self._output)

    def collect(self) -> None:
        """Take over the frames that h2 has produced."""
        self._output += self._connection.data_to_send()

    def append(self, data: bytes) -> None:
        self._output += data

    def begin(self, stream: int, body: bytes) -> list[int]:
        """Send the body of a response whose headers h2 has been given."""
        self.collect()
        self._unsent_bodies[stream] = memoryview(body)
        self.blocked_bytes += len(body)
        return self.send(stream)

    def drop(self, stream: int) -> None:
        """Send no more of this response."""
        self.blocked_bytes -= len(self._unsent_bodies.pop(stream, b""))
        if not self.blocked_bytes:
            self.blocked_since = None

    def clear(self, *, unsent: bool) -> None:
        """Drop all responses; with `unsent`, also the frames that `take` would return."""
        self._unsent_bodies.clear()
        self.blocked_bytes, self.blocked_since, self._chunk_full = 0, None, False
        if unsent:
            self._output.clear()

    def take(self) -> tuple[bytes, list[int]]:
        """The next bytes to send; empty if nothing can be sent."""
        ended = []
        if self._chunk_full and len(self._output) < CHUNK_BYTES:
            self._chunk_full = False
            ended = self.send_all()
        chunk = bytes(self._output[:CHUNK_BYTES])
        del self._output[:CHUNK_BYTES]
        return chunk, ended

    def send_all(self) -> list[int]:
        ended = []
        for stream in list(self._unsent_bodies):
            ended += self.send(stream)
            if self._chunk_full or self._connection.outbound_flow_control_window <= 0:
                break
        return ended

    def send(self, stream: int) -> list[int]:
        """Send as much of the response as there is room for."""
        rest = self._unsent_bodies.get(stream)
        if rest is None:
            return []
        before, rest = len(rest), self._send(stream, rest)
        sent = before - len(rest)
        self.blocked_bytes -= sent
        self._allowance.earn(sent * ALLOWANCE_PER_BYTE)
        if sent or not self.blocked_bytes:
            self.blocked_since = None
        if self.blocked_bytes and self.blocked_since is None and not self._chunk_full:
            self.blocked_since = self._clock()
        if rest:
            self._unsent_bodies[stream] = rest
            return []
        del self._unsent_bodies[stream]
        return [stream]

    def _send(self, stream: int, rest: memoryview) -> memoryview:
        """Returns what could not be sent."""
        connection = self._connection
        while rest and not self._chunk_full:
            room = min(
                connection.local_flow_control_window(stream),
                connection.max_outbound_frame_size,
                CHUNK_BYTES,
            )
            if room <= 0:
                break
            piece, rest = rest[:room], rest[room:]
            connection.send_data(stream, bytes(piece), end_stream=not rest)
            self.collect()
            self._chunk_full = bool(rest) and len(self._output) >= CHUNK_BYTES
        return rest
