"""What each frame of HTTP/2 costs its caller, known from its head, before anything is done with it.

Parsing and the rules of the protocol are the h2 library's. A frame takes it some 60 microseconds however
short it is, so 256 KiB of resets would take more than a second, and answering does not pay for them: what
makes work and asks nothing is counted here, on every path, for all frames pass by here.

| frame            | costs                                                                       |
|------------------|-----------------------------------------------------------------------------|
| DATA             | 0 with `USEFUL_DATA_BYTES` bytes or the end of a request, else 1            |
| HEADERS, CONTINUATION | 1, and 1 for each `USEFUL_DATA_BYTES` / 4 bytes                         |
| SETTINGS         | `SETTINGS_COST`, and as much for each pair                                   |
| all others       | 1, and 1 for each `USEFUL_DATA_BYTES` bytes                                 |

`Allowance` says how much of that a caller may do.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
FRAME_HEADER_BYTES = 9
#: The least that every endpoint takes, and the most that we take.
FRAME_BYTES = 16_384

#: Bytes from which on a frame of data is no mere work.
USEFUL_DATA_BYTES = 1_024
SETTINGS_COST = 5

#: How much a caller may do that asks nothing, how much more of it each second, and for each answer that it
#: takes: an honest request is its headers, a reset or a ping now and then, and a few windows.
ALLOWANCE = 1_000.0
ALLOWANCE_PER_SECOND = 100.0
ALLOWANCE_PER_RESPONSE = 8.0
#: For each byte of answers that it took: a window is opened for every 4 KiB or more.
ALLOWANCE_PER_BYTE = 1 / 1_024


class Kind(IntEnum):
    """What a frame is."""

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

_head = struct.Struct(">HBBBL")


class FrameHeader(NamedTuple):
    """The first nine bytes of a frame."""

    size: int
    kind: int
    flags: int
    stream: int

    @property
    def whole(self) -> int:
        """Bytes of the whole frame."""
        return FRAME_HEADER_BYTES + self.size


def parse_header(data: bytes | bytearray, at: int = 0) -> FrameHeader:
    """Of the frame that begins there; nine bytes are."""
    high, low, kind, flags, stream = _head.unpack_from(data, at)
    return FrameHeader(high << 8 | low, kind, flags, stream & 0x7FFFFFFF)


def cost(head: FrameHeader) -> int:
    """As the table says."""
    size, kind, flags, _ = head
    if kind == Kind.DATA:
        return 0 if size >= USEFUL_DATA_BYTES or flags & END_STREAM else 1
    if kind in (Kind.HEADERS, Kind.CONTINUATION):
        return 1 + 4 * size // USEFUL_DATA_BYTES
    if kind == Kind.SETTINGS:
        return SETTINGS_COST * (1 + size // 6)
    return 1 + size // USEFUL_DATA_BYTES


#: RFC 9113 section 6: the bytes of frames that have no choice.
_SIZES: Mapping[int, int] = {Kind.PRIORITY: 5, Kind.RST_STREAM: 4, Kind.PING: 8, Kind.WINDOW_UPDATE: 4}


def has_valid_size(head: FrameHeader) -> bool:
    """Whether it is as long as a frame of its kind may be."""
    size, kind, flags, _ = head
    if kind == Kind.SETTINGS:
        return size % 6 == 0 and not (flags & ACK and size)
    if kind == Kind.GOAWAY:
        return size >= 8
    return size == _SIZES.get(kind, size)


class Allowance:
    """How much more a caller may do that asks nothing.

    It grows with time, and with each answer by a little: so nothing is forgiven, and a caller that asks pays
    for about as much work beside it as its requests are.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._left = ALLOWANCE
        self._at = clock()

    def spend(self, amount: float) -> bool:
        """Whether it was left."""
        self._left -= amount
        if self._left < 0:
            now = self._clock()
            self._left += (now - self._at) * ALLOWANCE_PER_SECOND
            self._at = now
        return self._left >= 0

    def earn(self, amount: float) -> None:
        self._left = min(ALLOWANCE, self._left + amount)
