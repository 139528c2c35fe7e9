"""Cuts the received bytes of an HTTP/2 connection into batches of frames for h2, and bounds what they cost.

h2 needs some 60 microseconds for a frame, however short it is: 256 KiB of resets would take more than a
second. So each frame has a cost, known from its header alone, and a client has an allowance for frames that
make work and ask nothing.

| frame                 | cost                                                              |
|-----------------------|-------------------------------------------------------------------|
| DATA                  | 0 with `USEFUL_DATA_BYTES` bytes or the end of a request, else 1  |
| HEADERS, CONTINUATION | 1, and 1 for each `USEFUL_DATA_BYTES` / 4 bytes                   |
| SETTINGS              | `SETTINGS_COST`, and as much for each setting in it               |
| all others            | 1, and 1 for each `USEFUL_DATA_BYTES` bytes                       |

Invariants
- A batch has `FRAMES_PER_BATCH` whole frames at most: about a millisecond of h2's time. The caller can read
  the clock between two batches.
- No frame is longer than `FRAME_BYTES`, or than its kind allows. A header block, in however many frames, has
  at most `Limits.header_bytes`.
- Every frame is paid for; a client whose allowance is used up has made a fault.
- A client's GOAWAY is in no batch: h2 would not send another response after it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple

from h2.errors import ErrorCodes

from server.http.limits import Limits

FRAMES_PER_BATCH = 8
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER_BYTES = 9
#: The least that every endpoint has to accept (RFC 9113 section 4.2), and the most that we accept.
FRAME_BYTES = 16_384

#: A DATA frame of this size or more costs nothing.
USEFUL_DATA_BYTES = 1_024
SETTINGS_COST = 5

#: What a client may spend on frames that ask nothing, what is added per second, per response that it takes,
#: and per byte of a response. An honest client needs it for headers, a reset or a ping now and then, and a
#: window update for every 4 KiB or more.
ALLOWANCE = 1_000.0
ALLOWANCE_PER_SECOND = 100.0
ALLOWANCE_PER_RESPONSE = 8.0
ALLOWANCE_PER_BYTE = 1 / 1_024


class Kind(IntEnum):
    """The type of a frame."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


END_STREAM = ACK = 0x1
END_HEADERS = 0x4

_header = struct.Struct(">HBBBL")
#: RFC 9113 section 6: the payload of frames with a fixed size.
_SIZES: Mapping[int, int] = {Kind.PRIORITY: 5, Kind.RST_STREAM: 4, Kind.PING: 8, Kind.WINDOW_UPDATE: 4}


class FrameHeader(NamedTuple):
    """The first nine bytes of a frame. `size`: bytes of its payload."""

    size: int
    kind: int
    flags: int
    stream: int

    @property
    def frame_bytes(self) -> int:
        """Bytes of the whole frame."""
        return FRAME_HEADER_BYTES + self.size


def parse_header(data: bytes | bytearray, at: int = 0) -> FrameHeader:
    """The header of the frame that begins at `at`; needs nine bytes there."""
    high, low, kind, flags, stream = _header.unpack_from(data, at)
    return FrameHeader(high << 8 | low, kind, flags, stream & 0x7FFFFFFF)


def cost(header: FrameHeader) -> int:
    """The cost of a frame, by the table above."""
    size, kind, flags, _ = header
    if kind == Kind.DATA:
        return 0 if size >= USEFUL_DATA_BYTES or flags & END_STREAM else 1
    if kind in (Kind.HEADERS, Kind.CONTINUATION):
        return 1 + 4 * size // USEFUL_DATA_BYTES
    if kind == Kind.SETTINGS:
        return SETTINGS_COST * (1 + size // 6)
    return 1 + size // USEFUL_DATA_BYTES


def has_valid_size(header: FrameHeader) -> bool:
    """Whether the frame has a size that its kind allows."""
    size, kind, flags, _ = header
    if kind == Kind.SETTINGS:
        return size % 6 == 0 and not (flags & ACK and size)
    if kind == Kind.GOAWAY:
        return size >= 8
    return size == _SIZES.get(kind, size)


class Allowance:
    """A token bucket: what a client may still spend on frames that ask nothing.

    It fills with time, and a little with each response. So work is never free, and a client that sends
    requests may make about as much other work as its requests are.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = ALLOWANCE
        self._filled_at = clock()

    def spend(self, amount: float) -> bool:
        """Take `amount`; whether it was left."""
        self._left -= amount
        if self._left < 0:
            now = self._clock()
            self._left += (now - self._filled_at) * ALLOWANCE_PER_SECOND
            self._filled_at = now
        return self._left >= 0

    def earn(self, amount: float) -> None:
        self._left = min(ALLOWANCE, self._left + amount)


class ConnectionFault(Exception):
    """The connection cannot go on. `status`: what HTTP/1.1 would answer."""

    def __init__(self, error: ErrorCodes, reason: str, *, status: int = 400) -> None:
        super().__init__(reason)
        self.error = error
        self.reason = reason
        self.status = status


class FrameBatch(NamedTuple):
    """Whole frames for h2, and whether the client's GOAWAY follows. Neither: no whole frame has arrived."""

    data: bytes
    goaway_follows: bool


class FrameReader:
    """The received bytes of one connection. Not thread-safe."""

    def __init__(self, *, limits: Limits, allowance: Allowance, clock: Callable[[], float]) -> None:
        #: When the first byte of the frame that is not whole yet arrived.
        self.frame_since: float | None = None
        #: When the header block that continues in further frames began.
        self.header_block_since: float | None = None
        self._header_bytes = limits.header_bytes
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
        """The next batch. Raises ConnectionFault."""
        if not self._preface_read:
            return FrameBatch(self._read_preface(), goaway_follows=False)
        size, goaway_follows = self._measure_batch()
        data = self._take(size)
        if goaway_follows:
            self._take(parse_header(self._data).frame_bytes)
        return FrameBatch(data, goaway_follows)

    def _read_preface(self) -> bytes:
        length = len(PREFACE)
        if not PREFACE.startswith(bytes(self._data[:length])):
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
        """The bytes of the next batch, and whether a GOAWAY follows them."""
        at, count, data = 0, 0, self._data
        while len(data) - at >= FRAME_HEADER_BYTES and count < FRAMES_PER_BATCH:
            header = parse_header(data, at)
            if header.size > FRAME_BYTES or not has_valid_size(header):
                reason = f"a frame of this kind cannot have {header.size} bytes"
                raise ConnectionFault(ErrorCodes.FRAME_SIZE_ERROR, reason)
            if len(data) - at < header.frame_bytes:
                break
            if not self._allowance.spend(cost(header)):
                reason = "too many frames that ask nothing"
                raise ConnectionFault(ErrorCodes.ENHANCE_YOUR_CALM, reason, status=429)
            if header.kind == Kind.GOAWAY and header.stream == 0 and self.header_block_since is None:
                return at, True
            self._count_header_block(header)
            at += header.frame_bytes
            count += 1
        return at, False

    def _count_header_block(self, header: FrameHeader) -> None:
        """h2 decodes a header block once all its frames are there, so it is bounded before."""
        if header.kind not in (Kind.HEADERS, Kind.CONTINUATION):
            return
        before = self._header_block_bytes if header.kind == Kind.CONTINUATION else 0
        self._header_block_bytes = before + header.size
        if self._header_block_bytes > self._header_bytes:
            reason = f"the head of a request may have {self._header_bytes} bytes"
            raise ConnectionFault(ErrorCodes.ENHANCE_YOUR_CALM, reason, status=431)
        if header.flags & END_HEADERS:
            self.header_block_since, self._header_block_bytes = None, 0
        elif self.header_block_since is None:
            self.header_block_since = self._clock()
