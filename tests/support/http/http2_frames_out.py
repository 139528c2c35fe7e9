"""The frames that a caller sends, the wrong ones too: bytes by hand."""

from __future__ import annotations

import struct

from h2.errors import ErrorCodes as Error
from h2.settings import SettingCodes as Setting

from server.http.http2.frame_reader import (
    END_HEADERS,
    END_STREAM,
    Kind,
)

FIRST_WINDOW, LARGEST_WINDOW = 65_535, 2**31 - 1
PADDED = 0x8
WITH_PRIORITY = 0x20

_head = struct.Struct(">HBBBL")
_long = struct.Struct(">L")
_setting = struct.Struct(">HL")


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    size = len(payload)
    return _head.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def settings(values: dict[Setting, int]) -> bytes:
    payload = b"".join(_setting.pack(key, value) for key, value in values.items())
    return frame(Kind.SETTINGS, 0, 0, payload)


def window_update(stream: int, increment: int) -> bytes:
    return frame(Kind.WINDOW_UPDATE, 0, stream, _long.pack(increment))


def reset(stream: int, error: Error) -> bytes:
    return frame(Kind.RST_STREAM, 0, stream, _long.pack(error))


def goaway(last: int, error: Error) -> bytes:
    return frame(Kind.GOAWAY, 0, 0, _long.pack(last) + _long.pack(error))


def headers(stream: int, block: bytes, *, ends: bool) -> bytes:
    """`block` fits one frame."""
    return frame(Kind.HEADERS, END_HEADERS | (END_STREAM if ends else 0), stream, block)


def data(stream: int, payload: bytes, *, ends: bool) -> bytes:
    return frame(Kind.DATA, END_STREAM if ends else 0, stream, payload)
