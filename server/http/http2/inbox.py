"""What a caller of HTTP/2 has sent, measured and cut into pieces for the h2 library.

Invariants
- A piece is a few whole frames, `FRAMES_AT_ONCE` at most: about a millisecond of h2's time. Whoever takes
  pieces can look at the clock in between.
- No frame is longer than `FRAME_BYTES`, or than its kind allows. A block of headers, in however many frames,
  has at most `Limits.head_bytes`.
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

FRAMES_AT_ONCE = 8


class Fault(Exception):
    """The connection cannot go on."""

    def __init__(self, error: ErrorCodes, reason: str) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason


class Piece(NamedTuple):
    """What h2 is given next, and whether the caller's GOAWAY follows it. Neither: nothing whole is there."""

    data: bytes
    leaves: bool


class Inbox:
    """Not thread-safe."""

    def __init__(self, *, limits: Limits, allowance: Allowance, clock: Callable[[], float]) -> None:
        #: Since when the frame that is not whole yet has been coming, and headers in several frames have.
        self.coming: float | None = None
        self.block_began: float | None = None
        self._head_bytes = limits.head_bytes
        self._allowance = allowance
        self._clock = clock
        self._data = bytearray()
        self._greeted = False
        self._block_bytes = 0

    def __len__(self) -> int:
        return len(self._data)

    def receive(self, data: bytes) -> None:
        self._data += data
        if self.coming is None:
            self.coming = self._clock()

    def clear(self) -> None:
        self._data.clear()
        self.coming = self.block_began = None

    def next(self) -> Piece:
        """Raises Fault."""
        if not self._greeted:
            return Piece(self._greeting(), leaves=False)
        size, leaves = self._measure()
        data = self._take(size)
        if leaves:
            self._take(frames.head_of(self._data).whole)
        return Piece(data, leaves)

    def _greeting(self) -> bytes:
        length = len(frames.PREFACE)
        if not frames.PREFACE.startswith(bytes(self._data[:length])):
            raise Fault(ErrorCodes.PROTOCOL_ERROR, "this is not how HTTP/2 begins")
        self._greeted = len(self._data) >= length
        return self._take(length) if self._greeted else b""

    def _take(self, size: int) -> bytes:
        if not size:
            return b""
        data = bytes(self._data[:size])
        del self._data[:size]
        self.coming = self._clock() if self._data else None
        return data

    def _measure(self) -> tuple[int, bool]:
        """The bytes of the next piece, and whether a GOAWAY follows them."""
        at, count, data = 0, 0, self._data
        while len(data) - at >= frames.HEAD_BYTES and count < FRAMES_AT_ONCE:
            head = frames.head_of(data, at)
            if head.size > frames.FRAME_BYTES or not frames.fits(head):
                raise Fault(ErrorCodes.FRAME_SIZE_ERROR, f"a frame of {head.size} bytes is none of its kind")
            if len(data) - at < head.whole:
                break
            if not self._allowance.spend(frames.cost(head)):
                raise Fault(ErrorCodes.ENHANCE_YOUR_CALM, "much is said, and nothing asked")
            if head.kind == Kind.GOAWAY and head.stream == 0 and self.block_began is None:
                return at, True
            self._measure_block(head)
            at += head.whole
            count += 1
        return at, False

    def _measure_block(self, head: frames.Head) -> None:
        """Headers in several frames are decoded once they are whole: they are bounded before."""
        if head.kind not in (Kind.HEADERS, Kind.CONTINUATION):
            return
        self._block_bytes = head.size + (self._block_bytes if head.kind == Kind.CONTINUATION else 0)
        if self._block_bytes > self._head_bytes:
            reason = f"the head of a request may have {self._head_bytes} bytes"
            raise Fault(ErrorCodes.ENHANCE_YOUR_CALM, reason)
        if head.flags & frames.END_HEADERS:
            self.block_began, self._block_bytes = None, 0
        elif self.block_began is None:
            self.block_began = self._clock()
