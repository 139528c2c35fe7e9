"""From bytes to requests: strict HTTP/1.1, no I/O.

If two readers disagree about where a request ends, another request can be smuggled in between. So whatever
llhttp or this module finds ambiguous is an error, and ends the connection. (RFC 9112 sections 5, 6 and 9.)
"""

import io
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import httptools

from server.http.limits import Limits

Header = tuple[bytes, bytes]


class RequestError(Exception):
    """The request is refused with this status and reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


#: The error with which a request for this target is refused; None if the request may be answered. The error
#: is made anew each time: it is raised, and keeps the frames through which it passes.
Authorize = Callable[[bytes], RequestError | None]


def allow_all(_target: bytes) -> RequestError | None:
    """The rule of a connection that may call everything."""
    return None


@dataclass(slots=True)
class HttpRequest:
    """One request. Complete once it is in `RequestParser.ready`; header names are in lower case.

    `error`: if set, it is the answer, and the app is not called.
    """

    target: bytes = b""
    method: str = ""
    version: str = ""
    keep_alive: bool = False
    headers: list[Header] = field(default_factory=list)
    body: io.BytesIO = field(default_factory=io.BytesIO)
    header_bytes: int = 0
    body_limit: int = 0
    error: RequestError | None = None

    def values(self, name: bytes) -> list[bytes]:
        """Every value of the header."""
        return [value for key, value in self.headers if key == name]


class RequestParser:
    """Reads the requests of one connection. Not thread-safe.

    `ready` holds complete requests in their order. Once `error` is set nothing more is read: answer what is
    ready, then the error, then close. A request that `authorize` refuses is an error at its head.
    `expects_continue`: the client waits for a 100 before it sends its body.
    """

    def __init__(self, *, limits: Limits, authorize: Authorize = allow_all) -> None:
        self.ready: deque[HttpRequest] = deque()
        self.error: RequestError | None = None
        self.expects_continue = False
        self._limits = limits
        self._authorize = authorize
        self._parser = httptools.HttpRequestParser(self)
        self._request: HttpRequest | None = None
        self._in_head = True
        self._unfinished = 0

    @property
    def buffered_bytes(self) -> int:
        """Bytes of the request that is not complete yet."""
        return 0 if self._request is None else self._request.header_bytes + self._request.body.tell()

    @property
    def unfinished(self) -> HttpRequest | None:
        """The request that has begun and is not complete, as far as it was read."""
        return self._request

    def feed(self, data: bytes) -> None:
        """Parse received bytes. Never raises: a bad request sets `error`."""
        if self.error is not None:
            return
        completed, read = len(self.ready), self._body_bytes
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.error = RequestError(400, "this server speaks HTTP/1.1 only")
        except httptools.HttpParserError as exc:
            self.error = self.error or RequestError(400, f"not a valid HTTP request: {exc}")
        if len(self.ready) > completed or self._request is None:
            self._unfinished = 0
        else:
            self._count_framing(len(data) - (self._body_bytes - read))

    @property
    def _body_bytes(self) -> int:
        return 0 if self._request is None else self._request.body.tell()

    def _count_framing(self, size: int) -> None:
        """Count the bytes that are no body.

        The parser does not report a header, a trailer or a chunk extension before it has ended, so one
        without an end would be buffered without bound. Chunks of one byte have five bytes of framing each: as
        many bytes as the body has are not counted.
        """
        self._unfinished += size
        if self._unfinished > self._limits.header_bytes + self._body_bytes and self.error is None:
            self.error = self._header_too_large()

    def _reject(self, error: RequestError) -> RequestError:
        """Remember the error: the parser wraps what its callbacks raise."""
        self.error = error
        return error

    def _header_too_large(self) -> RequestError:
        lines, size = self._limits.header_lines, self._limits.header_bytes
        return RequestError(431, f"the head of a request may have {lines} lines and {size} bytes")

    # The parser calls these.

    def on_message_begin(self) -> None:
        if len(self.ready) >= self._limits.pipelined_requests:
            raise self._reject(
                RequestError(429, f"more than {self._limits.pipelined_requests} requests at once")
            )
        self._request = HttpRequest()
        self._in_head = True

    def on_url(self, part: bytes) -> None:
        assert self._request is not None  # noqa: S101 - the parser's order
        self._request.target += part
        self._grow_head(len(part))

    def on_header(self, name: bytes, value: bytes) -> None:
        assert self._request is not None  # noqa: S101 - the parser's order
        self._grow_head(len(name) + len(value) + 4)
        if self._in_head:  # else it is a trailer, which is ignored
            self._request.headers.append((name.lower(), value))
            if len(self._request.headers) > self._limits.header_lines:
                raise self._reject(self._header_too_large())

    def _grow_head(self, size: int) -> None:
        assert self._request is not None  # noqa: S101 - the parser's order
        self._request.header_bytes += size
        if self._request.header_bytes > self._limits.header_bytes:
            raise self._reject(self._header_too_large())

    def on_headers_complete(self) -> None:
        request, parser = self._request, self._parser
        assert request is not None  # noqa: S101 - the parser's order
        self._in_head = False
        request.method = parser.get_method().decode("ascii")
        request.version = parser.get_http_version()
        request.keep_alive = request.version == "1.1" and parser.should_keep_alive()
        request.body_limit = self._limits.body_limit(request.target)
        error_found = self._authorize(request.target) or head_error(request, upgrade=parser.should_upgrade())
        if error_found is not None:
            raise self._reject(error_found)
        self.expects_continue = any(value.lower() == b"100-continue" for value in request.values(b"expect"))

    def on_body(self, part: bytes) -> None:
        assert self._request is not None  # noqa: S101 - the parser's order
        self.expects_continue = False
        body = self._request.body
        if body.tell() + len(part) > self._request.body_limit:
            raise self._reject(body_too_large(self._request))
        body.write(part)

    def on_message_complete(self) -> None:
        assert self._request is not None  # noqa: S101 - the parser's order
        self.expects_continue = False
        self.ready.append(self._request)
        self._request = None
        self._in_head = True


def head_error(request: HttpRequest, *, upgrade: bool) -> RequestError | None:
    """The error of a request with this head; None if its body can be read."""
    if request.version not in ("1.0", "1.1"):
        return RequestError(505, "this server speaks HTTP/1.1")
    if upgrade:
        return RequestError(400, "this server speaks HTTP/1.1 only")
    if request.version == "1.1" and len(request.values(b"host")) != 1:
        return RequestError(400, "a request has exactly one Host header")
    return length_error(request)


def length_error(request: HttpRequest) -> RequestError | None:
    """The error of an ambiguous or too large length; None if it is neither. llhttp has refused worse ones."""
    coding, length = request.values(b"transfer-encoding"), request.values(b"content-length")
    if len(length) > 1 or (coding and (length or request.version == "1.0")):
        return RequestError(400, "the length of the request is ambiguous")
    if coding and [value.lower() for value in coding] != [b"chunked"]:
        return RequestError(501, "the only transfer coding known here is chunked")
    if length and int(length[0]) > request.body_limit:
        return body_too_large(request)
    return None


def body_too_large(request: HttpRequest) -> RequestError:
    return RequestError(413, f"the body may have {request.body_limit} bytes")
