"""What a caller of HTTP/2 has sent, measured and cut into pieces for the h2 library.

Invariants
- A piece is a few whole frames, `FRAMES_PER_BATCH` at most: about a millisecond of h2's time. Whoever takes
  pieces can look at the clock in between.
- No frame is longer than `FRAME_BYTES`, or than its kind allows. A block of headers, in however many frames,
  has at most `Limits.header_bytes`.
- Each frame costs (`server.http.http2.frame_costs`); a caller that cannot pay is at fault.
- A caller's GOAWAY is in no piece: h2 would not send another answer after it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from h2.errors import ErrorCodes

from server.http.http2 import frame_costs as frames
from server.http.http2.frame_costs import Allowance, Kind
from server.http.limits import Limits

FRAMES_PER_BATCH = 8


class ConnectionFault(Exception):
    """The connection cannot go on."""

    def __init__(self, error: ErrorCodes, reason: str) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason


class FrameBatch(NamedTuple):
    """What h2 is given next, and whether the caller's GOAWAY follows it. Neither: nothing whole is there."""

    data: bytes
    goaway_follows: bool


class Inbox:
    """Not thread-safe."""

    def __init__(self, *, limits: Limits, allowance: Allowance, clock: Callable[[], float]) -> None:
        #: Since when the frame that is not whole yet has been coming, and headers in several frames have.
        self.frame_since: float | None = None
        self.header_block_since: float | None = None
        self._head_bytes = limits.header_bytes
        self._allowance = allowance
        self._clock = clock
        self._data = bytearray()
        self._preface_read = False
        self._header_block_bytes = 0

    def __len__(self) -> int:
        return len(self._data)

    def receive(self, data: bytes) -> None:
        self._data += data
        if self.frame_since is None:
            self.frame_since = self._clock()

    def clear(self) -> None:
        self._data.clear()
        self.frame_since = self.header_block_since = None

    def next(self) -> FrameBatch:
        """Raises Fault."""
        if not self._preface_read:
            return FrameBatch(self._read_preface(), goaway_follows=False)
        size, goaway_follows = self._measure_batch()
        data = self._take(size)
        if goaway_follows:
            self._take(frames.parse_header(self._data).whole)
        return FrameBatch(data, goaway_follows)

    def _read_preface(self) -> bytes:
        length = len(frames.PREFACE)
        if not frames.PREFACE.startswith(bytes(self._data[:length])):
            raise ConnectionFault(ErrorCodes.PROTOCOL_ERROR, "this is not how HTTP/2 begins")
        self._preface_read = len(self._data) >= length
        return self._take(length) if self._preface_read else b""

    def _take(self, size: int) -> bytes:
        if not size:
            return b""
        data = bytes(self._data[:size])
        del self._data[:size]
        self.frame_since = self._clock() if self._data else None
        return data

    def _measure_batch(self) -> tuple[int, bool]:
        """The bytes of the next piece, and whether a GOAWAY follows them."""
        at, count, data = 0, 0, self._data
        while len(data) - at >= frames.FRAME_HEADER_BYTES and count < FRAMES_PER_BATCH:
            head = frames.parse_header(data, at)
            if head.size > frames.FRAME_BYTES or not frames.has_valid_size(head):
                raise ConnectionFault(
                    ErrorCodes.FRAME_SIZE_ERROR, f"a frame of {head.size} bytes is none of its kind"
                )
            if len(data) - at < head.whole:
                break
            if not self._allowance.spend(frames.cost(head)):
                raise ConnectionFault(ErrorCodes.ENHANCE_YOUR_CALM, "much is said, and nothing asked")
            if head.kind == Kind.GOAWAY and head.stream == 0 and self.header_block_since is None:
                return at, True
            self._count_header_block(head)
            at += head.whole
            count += 1
        return at, False

    def _count_header_block(self, head: frames.FrameHeader) -> None:
        """Headers in several frames are decoded once they are whole: they are bounded before."""
        if head.kind not in (Kind.HEADERS, Kind.CONTINUATION):
            return
        self._header_block_bytes = head.size + (
            self._header_block_bytes if head.kind == Kind.CONTINUATION else 0
        )
        if self._header_block_bytes > self._head_bytes:
            reason = f"the head of a request may have {self._head_bytes} bytes"
            raise ConnectionFault(ErrorCodes.ENHANCE_YOUR_CALM, reason)
        if head.flags & frames.END_HEADERS:
            self.header_block_since, self._header_block_bytes = None, 0
        elif self.header_block_since is None:
            self.header_block_since = self._clock()
