"""The headers of HTTP/2: from HPACK to a request, and from an answer to HPACK (RFC 9113 section 8, RFC 7541).

hpack decodes; what would make it work without end is refused before.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import hpack
from h2.errors import ErrorCodes
from h2.exceptions import DenialOfServiceError, ProtocolError

from server.http.request_parser import Header, Request
from server.http.responses import (
    BODILESS_STATUSES,
    SERVER_HEADERS,
    Response,
)

#: RFC 7541 section 4.2: an encoder whose table shrank and grew since the last block says two.
TABLE_SIZE_UPDATES = 2
#: Headers that belong to a connection, of which HTTP/2 has no more than one.
CONNECTION_HEADERS = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
PSEUDO_HEADERS = frozenset({b":method", b":scheme", b":authority", b":path"})
_has_line_break = re.compile(rb"[\r\n\0]").search
#: What a change of the table's size begins with.
_UPDATES = frozenset(bytes([first]) for first in range(0x20, 0x40))


class UnreadableHeaders(ProtocolError):
    """The block is not HPACK, so the connection cannot go on: h2 sends a GOAWAY with this code."""

    error_code = ErrorCodes.COMPRESSION_ERROR


class Decoder(hpack.Decoder):
    """Decodes blocks of at most so many fields and bytes. What it raises ends the connection."""

    def __init__(self, *, fields: int, max_header_list_size: int) -> None:
        super().__init__(max_header_list_size)
        self._fields = fields

    def decode(self, data: bytes, raw: bool = False) -> Any:  # noqa: FBT001, FBT002, RUF100 - as hpack has it
        try:
            self._check(data)
            return super().decode(data, raw)
        except hpack.OversizedHeaderListError as exc:
            raise DenialOfServiceError(str(exc)) from exc
        except ProtocolError:
            raise
        except Exception as exc:  # hpack lets some of Python's own through
            raise UnreadableHeaders(f"headers that cannot be read: {exc}") from exc

    def _check(self, data: bytes) -> None:
        """A block has no more fields than bytes, so most need not be counted."""
        if len(data) > self.max_header_list_size:
            raise DenialOfServiceError(f"the head of a request may have {self.max_header_list_size} bytes")
        if len(data) <= self._fields and data[:1] not in _UPDATES:
            return
        fields, updates = count_fields(data)
        if fields > self._fields or updates > TABLE_SIZE_UPDATES:
            raise DenialOfServiceError(f"the head of a request may have {self._fields} lines")


def count_fields(block: bytes) -> tuple[int, int]:
    """How many fields and changes of the table's size there are, without decoding any.

    Raises IndexError if the block ends too soon.
    """
    at, fields, updates = 0, 0, 0
    while at < len(block):
        first = block[at]
        if first & 0x80:
            _, at = _integer(block, at, bits=7)
            fields += 1
        elif first & 0xE0 == 0x20:
            _, at = _integer(block, at, bits=5)
            updates += 1
        else:
            name, at = _integer(block, at, bits=6 if first & 0x40 else 4)
            for _ in range(1 if name else 2):
                size, at = _integer(block, at, bits=7)
                at += size
            fields += 1
    return fields, updates


def _integer(block: bytes, at: int, *, bits: int) -> tuple[int, int]:
    """The integer there (RFC 7541 section 5.1), and where what follows begins."""
    most = (1 << bits) - 1
    value = block[at] & most
    at += 1
    if value < most:
        return value, at
    shift = 0
    while True:
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
        if shift > 28:
            raise IndexError("an integer that is too long")


def build_request(headers: list[Header], *, header_lines: int) -> Request:
    """The request that these headers begin. Raises ValueError."""
    pseudo: dict[bytes, bytes] = {}
    request = Request(version="2", keep_alive=True)
    for name, value in headers:
        if name.startswith(b":"):
            if name not in PSEUDO_HEADERS or name in pseudo or request.headers:
                raise ValueError(f"{name!r} is not where it may be")
            pseudo[name] = value
        else:
            request.headers.append((name, value))
        check_field(name, value)
    if len(request.headers) > header_lines:
        raise ValueError(f"the head of a request may have {header_lines} lines")
    request.method = pseudo[b":method"].decode("ascii") if b":method" in pseudo else ""
    request.target = pseudo.get(b":path", b"")
    if not request.method or not request.target or b":scheme" not in pseudo:
        raise ValueError("a request has a method, a scheme and a path")
    _set_host(request, pseudo.get(b":authority"))
    return request


def check_field(name: bytes, value: bytes) -> None:
    """Raises ValueError unless it is a header of HTTP/2."""
    if not _is_name(name) or (name == b"te" and value != b"trailers"):
        raise ValueError(f"{name!r} is no header of HTTP/2")
    if _has_line_break(value):
        raise ValueError("a header has one line")


@lru_cache(maxsize=1024)
def _is_name(name: bytes) -> bool:
    return (
        bool(name) and name == name.lower() and name not in CONNECTION_HEADERS and not _has_line_break(name)
    )


def _set_host(request: Request, authority: bytes | None) -> None:
    hosts = request.values(b"host")
    if authority is not None:
        if any(host != authority for host in hosts):
            raise ValueError("two hosts")
        request.headers = [each for each in request.headers if each[0] != b"host"] + [(b"host", authority)]
    elif len(hosts) != 1:
        raise ValueError("a request has one host")


def content_length(request: Request) -> int | None:
    """What it says its body is long. Raises ValueError."""
    lengths = request.values(b"content-length")
    if not lengths:
        return None
    if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > 18:
        raise ValueError("no length")
    return int(lengths[0])


def build_fields(response: Response, *, date: str) -> list[tuple[bytes, bytes]]:
    """The head of an answer. Raises ValueError if a header of the app would end the line it is on."""
    fields = [(b":status", response.status[:3].encode()), _field("date", date)]
    measured = response.status.startswith(BODILESS_STATUSES)
    for name, value in response.headers:
        lowered = name.lower()
        if lowered not in SERVER_HEADERS:
            measured = measured or lowered == "content-length"
            fields.append(_field(lowered, value))
    if not measured:
        fields.append(_field("content-length", str(len(response.body))))
    return fields


@lru_cache(maxsize=1024)
def _field(name: str, value: str) -> tuple[bytes, bytes]:
    if any(broken in text for broken in "\r\n\0" for text in (name, value)):
        raise ValueError("a header of the app holds a line break")
    return name.encode("latin-1"), value.encode("latin-1")
