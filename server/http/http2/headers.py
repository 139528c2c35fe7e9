"""From header fields of HTTP/2 to a request, and from a response to header fields (RFC 9113 section 8)."""

from __future__ import annotations

import re
from functools import lru_cache

from server.http.request_parser import Header, HttpRequest
from server.http.responses import BODILESS_STATUSES, SERVER_HEADERS, HttpResponse

#: Headers of HTTP/1.1 connections, which HTTP/2 forbids.
CONNECTION_HEADERS = frozenset(
    {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
)
PSEUDO_HEADERS = frozenset({b":method", b":scheme", b":authority", b":path"})
_has_line_break = re.compile(rb"[\r\n\0]").search


def build_request(headers: list[Header], *, header_lines: int) -> HttpRequest:
    """The request with these headers. Raises ValueError for invalid ones."""
    pseudo: dict[bytes, bytes] = {}
    request = HttpRequest(version="2", keep_alive=True)
    for name, value in headers:
        if name.startswith(b":"):
            if name not in PSEUDO_HEADERS or name in pseudo or request.headers:
                raise ValueError(f"{name!r} is not allowed there")
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
    """Raises ValueError unless the header is valid in HTTP/2."""
    if not _is_name(name) or (name == b"te" and value != b"trailers"):
        raise ValueError(f"{name!r} is no header of HTTP/2")
    if _has_line_break(value):
        raise ValueError("a header has one line")


def check_trailer(name: bytes, value: bytes) -> None:
    """Raises ValueError unless the header may stand behind a body."""
    check_field(name, value)
    if name.startswith(b":"):
        raise ValueError(f"{name!r} is no trailer")


@lru_cache(maxsize=1024)
def _is_name(name: bytes) -> bool:
    return (
        bool(name) and name == name.lower() and name not in CONNECTION_HEADERS and not _has_line_break(name)
    )


def _set_host(request: HttpRequest, authority: bytes | None) -> None:
    hosts = request.values(b"host")
    if authority is not None:
        if any(host != authority for host in hosts):
            raise ValueError("two hosts")
        request.headers = [field for field in request.headers if field[0] != b"host"] + [(b"host", authority)]
    elif len(hosts) != 1:
        raise ValueError("a request has one host")


def content_length(request: HttpRequest) -> int | None:
    """The announced length of the body. Raises ValueError for an invalid one."""
    lengths = request.values(b"content-length")
    if not lengths:
        return None
    if len(lengths) > 1 or not lengths[0].isdigit() or len(lengths[0]) > 18:
        raise ValueError("not a length")
    return int(lengths[0])


def build_fields(response: HttpResponse, *, date: str) -> list[tuple[bytes, bytes]]:
    """The header fields of a response."""
    fields = [(b":status", response.status[:3].encode()), _field("date", date)]
    has_length = response.status.startswith(BODILESS_STATUSES)
    for name, value in response.headers:
        lowered = name.lower()
        if lowered not in SERVER_HEADERS:
            has_length = has_length or lowered == "content-length"
            fields.append(_field(lowered, value))
    if not has_length:
        fields.append(_field("content-length", str(len(response.body))))
    return fields


@lru_cache(maxsize=1024)
def _field(name: str, value: str) -> tuple[bytes, bytes]:
    return name.encode("latin-1"), value.encode("latin-1")
