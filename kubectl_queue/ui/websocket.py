"""The half of WebSocket (RFC 6455) that a stream needs: texts to a window, and that the window is gone.

A browser opens six connections to one host in all its windows together, and a stream that is an answer keeps
one of them: the seventh window would not even load. WebSockets are not among the six.

Invariants
- Nothing that a window sends is kept, and of what it says only that it closes is understood.
- A window that takes nothing for as long as its socket waits is left.

Threads: each stream in that of its request.
"""

from __future__ import annotations

import hashlib
import select
import socket
from base64 import b64decode, b64encode
from collections.abc import Iterable
from contextlib import suppress
from typing import NoReturn, Protocol

from flask import Response

#: The subprotocol. The window's token stands behind it, since a script can set no header.
PROTOCOL = "lines"
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_TEXT, _CLOSE = 0x81, 0x88
_OPCODE, _CLOSES = 0x0F, 0x08
#: Bytes of what a window says that are looked at.
_HEARD = 4096


class RequestHeaders(Protocol):
    """Those of a request, by names in any case."""

    def get(self, name: str, default: str, /) -> str: ...


def is_asked(headers: RequestHeaders) -> bool:
    """Whether the request is a whole opening handshake."""
    upgrades = "upgrade" in _words(headers.get("Connection", ""))
    return (
        upgrades
        and headers.get("Upgrade", "").lower() == "websocket"
        and headers.get("Sec-WebSocket-Version", "") == "13"
        and PROTOCOL in _words(headers.get("Sec-WebSocket-Protocol", ""))
        and _is_key(headers.get("Sec-WebSocket-Key", ""))
    )


def token_of(headers: RequestHeaders) -> str:
    """The token of an opening handshake; "" where there is none."""
    words = [word.strip() for word in headers.get("Sec-WebSocket-Protocol", "").split(",")]
    return words[1] if len(words) == 2 and words[0] == PROTOCOL else ""


def _words(header: str) -> list[str]:
    return [word.strip().lower() for word in header.split(",")]


def _is_key(key: str) -> bool:
    with suppress(ValueError):
        return len(b64decode(key, validate=True)) == 16
    return False


def accepted(key: str) -> str:
    """What answers the key of the handshake."""
    return b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()


def text_frame(text: bytes) -> bytes:
    """One message. `text`: UTF-8."""
    size = len(text)
    if size < 126:
        return bytes((_TEXT, size)) + text
    if size < 1 << 16:
        return bytes((_TEXT, 126)) + size.to_bytes(2, "big") + text
    return bytes((_TEXT, 127)) + size.to_bytes(8, "big") + text


def serve(connection: socket.socket, headers: RequestHeaders, texts: Iterable[bytes]) -> None:
    """Send the texts until there are no more, or the window is gone. Then the connection is of no use."""
    head = (
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n"
        f"Sec-WebSocket-Accept: {accepted(headers.get('Sec-WebSocket-Key', ''))}\r\n\r\n"
    )
    with suppress(OSError):
        connection.sendall(head.encode())
        for text in texts:
            if _is_closed(connection):
                break
            connection.sendall(text_frame(text))
        connection.sendall(bytes((_CLOSE, 0)))
        connection.shutdown(socket.SHUT_RDWR)


def _is_closed(connection: socket.socket) -> bool:
    readable, _, _ = select.select([connection], [], [], 0)
    if not readable:
        return False
    heard = connection.recv(_HEARD)
    return not heard or heard[0] & _OPCODE == _CLOSES


class Served(Response):
    """What a route returns once its connection is of no use: nothing more is written to it."""

    def __call__(self, *_: object) -> NoReturn:
        raise ConnectionError  # which the server takes for a client that is gone
