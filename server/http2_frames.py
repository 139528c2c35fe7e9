"""The frames of HTTP/2 (RFC 9113, sections 4, 6 and 7): from bytes and to bytes. No state."""

from __future__ import annotations

import struct
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEAD_BYTES = 9
#: The least that every endpoint takes, and the most that we take.
FRAME_BYTES = 16_384
#: What every window is at first, and the most that one may be.
FIRST_WINDOW, LARGEST_WINDOW = 65_535, 2**31 - 1


class Kind(IntEnum):
    """What a frame is; others are to be ignored."""

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


class Error(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11


class Setting(IntEnum):
    """Those that say something to us; others are to be ignored."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20

_head = struct.Struct(">HBBBL")
_long = struct.Struct(">L")
_setting = struct.Struct(">HL")


def head_of(data: bytes | bytearray, at: int) -> tuple[int, int, int, int]:
    """Length, kind, flags and stream of the frame that begins there."""
    high, low, kind, flags, stream = _head.unpack_from(data, at)
    return high << 8 | low, kind, flags, stream & 0x7FFFFFFF


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _head.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def settings(values: dict[Setting, int]) -> bytes:
    payload = b"".join(_setting.pack(key, value) for key, value in values.items())
    return frame(Kind.SETTINGS, 0, 0, payload)


def settings_in(payload: bytes) -> list[tuple[int, int]]:
    """Key and value of each; the payload is a multiple of six bytes."""
    return list(_setting.iter_unpack(payload))


def number_in(payload: bytes) -> int:
    """An error code, or a window's increment, as far as it is one."""
    number: int = _long.unpack(payload)[0]
    return number


def window_update(stream: int, increment: int) -> bytes:
    return frame(Kind.WINDOW_UPDATE, 0, stream, _long.pack(increment))


def reset(stream: int, error: Error) -> bytes:
    return frame(Kind.RST_STREAM, 0, stream, _long.pack(error))


def goaway(last: int, error: Error, why: str) -> bytes:
    return frame(Kind.GOAWAY, 0, 0, _long.pack(last) + _long.pack(error) + why.encode())


def headers(stream: int, block: bytes, *, ends: bool) -> bytes:
    """`block` fits one frame."""
    return frame(Kind.HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, block)


def data(stream: int, payload: bytes, *, ends: bool) -> bytes:
    return frame(Kind.DATA, END_STREAM if ends else 0, stream, payload)
