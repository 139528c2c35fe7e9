"""HTTP/1.1 as rules: what never ends is refused before much of it was read."""

from __future__ import annotations

from server.http.limits import NO_BODY_BYTES, Limits
from server.http.request_parser import RequestParser
from tests.support.cases import each_case

LIMITS = Limits(header_bytes=8_192, body_bytes=100_000)
CHUNKED = b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


def read_on(begin: bytes, more: bytes, *, most: int) -> RequestParser:
    """A reader that is given `more` again and again, until it refuses or `most` bytes were sent."""
    reader = RequestParser(limits=LIMITS)
    reader.feed(begin)
    sent = 0
    while reader.error is None and sent < most:
        reader.feed(more)
        sent += len(more)
    return reader


@each_case(
    ("begin", "more"),
    [
        (b"POST /echo HTTP/1.1\r\nX: ", b"x" * 1_000),
        (CHUNKED + b"0\r\nX: ", b"x" * 1_000),
        (CHUNKED + b"0\r\n", b"a: b\r\n" * 100),
        (CHUNKED + b"5;a=", b"x" * 1_000),
        (CHUNKED, b"1;" + b"x" * 500 + b"\r\nx\r\n"),
        (CHUNKED, b"1;a\r\nx\r\n" * 100),
        (CHUNKED, b"1\r\nx\r\n" * 100),
    ],
    ids=["header", "trailer", "trailers", "extension", "long extensions", "extensions", "tiny chunks"],
)
def test_bytes_that_are_no_body_are_bounded(begin: bytes, more: bytes) -> None:
    reader = read_on(begin, more, most=10 * LIMITS.header_bytes)
    assert reader.error is not None
    assert reader.error.status == 431


def test_a_body_in_chunks_may_be_as_long_as_any(begin: bytes = CHUNKED) -> None:
    reader = RequestParser(limits=LIMITS)
    reader.feed(begin + b"64\r\n" + b"x" * 100 + b"\r\n")
    for _ in range(999):
        reader.feed(b"64;a=b\r\n" + b"x" * 100 + b"\r\n")
    reader.feed(b"0\r\nX-Trailer: 1\r\n\r\n")
    assert reader.error is None
    assert reader.ready.popleft().body.tell() == 100_000


def test_only_incomplete_requests_count_as_buffered() -> None:
    reader = RequestParser(limits=LIMITS)
    reader.feed(CHUNKED + b"5\r\nhello\r\n")
    assert reader.buffered_bytes > 5
    reader.feed(b"0\r\n\r\n")
    assert reader.buffered_bytes == 0


@each_case(("target", "status"), [("/metrics", 413), ("/metrics?a=b", 413), ("/validate/binds", 0)])
@each_case("chunked", [False, True])
def test_each_path_has_a_limit_of_its_own(target: str, status: int, chunked: bool) -> None:
    reader, size = RequestParser(limits=LIMITS), NO_BODY_BYTES + 1
    length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    reader.feed(f"POST {target} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode())
    body = b"x" * size
    reader.feed(f"{size:x}\r\n".encode() + body + b"\r\n0\r\n\r\n" if chunked else body)
    assert (reader.error.status if reader.error else 0) == status
