"""One connection to the API server: HTTP/1.1 on a socket of our own, parsed by llhttp.

A resume or a drain sends many small writes. `docs/contributing/decisions/api-client.md` compares the cost
of one write with other clients.

Invariants
- One request at a time. A connection is reused only after an answer that was read to its end and did not
  close the connection. `stale` says whether the server has closed it since.
- Connecting, the TLS handshake, each send and each receive have a time-out; none waits without end. The
  kernel notices within seconds (`KEEPALIVE_OPTIONS`) that the peer's machine or the network is gone, also
  while the connection is idle.
- Every failure raises `Unreachable` and makes the connection unusable; its owner closes it.
- `on_socket` is called with each socket before the first wait on it, so that any other thread may shut it
  down. A socket is closed with the last reference to its connection at the latest.
- An answer that was not requested is rejected: an additional one, and one in a content encoding.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import quote, urlsplit

import httptools
import msgspec

from cluster.exceptions import ConfigurationError, Unreachable

#: Bytes. The heads of the API server's answers have some hundred.
HEAD_LIMIT = 65_536
RECEIVED_AT_ONCE = 65_536
#: TCP: 5 s for an acknowledgement of sent data; after 5 s of silence two probes, 2 s apart.
KEEPALIVE_OPTIONS = {"TCP_USER_TIMEOUT": 5_000, "TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 2, "TCP_KEEPCNT": 2}
#: The characters of a request target that are not percent-encoded.
IN_A_TARGET = "/%:@!$&'()*+,;=~?-._[]"

OnSocket = Callable[[socket.socket], object]


class ServerAddress(msgspec.Struct, frozen=True):
    """Address of the API server. `prefix` precedes each path; `name` is the name in its certificate."""

    host: str
    port: int
    authority: str
    prefix: str
    name: str
    tls: ssl.SSLContext | None


def parse_target(
    url: str, *, secured: Callable[[], ssl.SSLContext], name: str | None = None
) -> ServerAddress:
    """Parse the URL of an API server. `secured`: makes the TLS context for https. `name`: the name in the
    server's certificate, if it is not the host's.

    Raises `ConfigurationError`, and whatever `secured` raises.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme]
    except (ValueError, KeyError) as exc:
        raise ConfigurationError(f"no API server's URL: {url}: {exc}") from exc
    if not host or parts.scheme not in {"http", "https"}:
        raise ConfigurationError(f"no API server's URL: {url}")
    return ServerAddress(
        host=host,
        port=port,
        authority=parts.netloc.rpartition("@")[2],
        prefix=parts.path.rstrip("/"),
        name=name or host.rstrip(".").partition("%")[0],
        tls=secured() if parts.scheme == "https" else None,
    )


class ResponseHead(msgspec.Struct, frozen=True):
    """Status line and headers of an answer; header names are in lower case."""

    status: int
    reason: str
    headers: Mapping[str, str]


class Connection:
    """Connects at the first request. For one thread at a time. See the invariants above."""

    def __init__(self, to: ServerAddress, *, on_socket: OnSocket, connect_seconds: float) -> None:
        self._to = to
        self._on_socket = on_socket
        self._connect_seconds = connect_seconds
        self._socket: socket.socket | None = None
        self._answer: _Answer | None = None
        #: When the connection was made, in monotonic seconds.
        self.since = time.monotonic()

    @property
    def reusable(self) -> bool:
        """Whether the connection may carry another request."""
        return self._socket is not None and self._answer is not None and self._answer.lasting

    @property
    def stale(self) -> bool:
        """Whether unrequested data has arrived: usually the server's close."""
        if self._socket is None:
            return True
        poll = select.poll()
        try:
            poll.register(self._socket, select.POLLIN)
            return bool(poll.poll(0))
        except (OSError, ValueError):
            return True

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, *, seconds: float
    ) -> ResponseHead:
        """Send a request and read the head of its answer. `seconds`: the time-out of each read.

        Raises `Unreachable`, and `ConfigurationError` for invalid headers.
        """
        sent = self._request(method, path, headers, body)
        self._answer = _Answer()
        with _errors_as(f"{method} {path}"):
            connected = self._socket or self._connect()
            connected.settimeout(seconds)
            connected.sendall(sent)
            while not self._answer.has_head:
                self._receive(connected, self._answer)
        return self._answer.head()

    def pieces(self, what: str) -> Iterator[bytes]:
        """Yield the body as it arrives. Raises `Unreachable` with `what` in its message."""
        answer, connected = self._answer, self._socket
        if answer is None or connected is None:
            raise Unreachable(f"{what}: the connection is closed")
        with _errors_as(what):
            while True:
                yield from answer.take()
                if answer.ended:
                    return
                self._receive(connected, answer)

    def close(self) -> None:
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.close()
            self._socket = None

    def __del__(self) -> None:
        self.close()

    def _request(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        lines = [f"{method} {quote(self._to.prefix + path, safe=IN_A_TARGET)} HTTP/1.1"]
        lines.append(f"Host: {self._to.authority}")
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        if any("\r" in line or "\n" in line for line in lines):
            raise ConfigurationError("a header of a request, the token for one, holds a line break")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", errors="replace") + (body or b"")

    def _connect(self) -> socket.socket:
        """Connect to the first address that can be reached."""
        to = self._to
        failure: OSError = OSError(f"{to.host} has no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(to.host, to.port, 0, socket.SOCK_STREAM):
            self._socket = new_socket = socket.socket(family, kind, protocol)
            self._on_socket(new_socket)
            new_socket.settimeout(self._connect_seconds)
            try:
                new_socket.connect(address)
            except OSError as exc:
                self.close()
                failure = exc
            else:
                _set_keepalive(new_socket)
                return self._start_tls(new_socket)
        raise failure

    def _start_tls(self, new_socket: socket.socket) -> socket.socket:
        if self._to.tls is None:
            return new_socket
        self._socket = secured = self._to.tls.wrap_socket(
            new_socket, server_hostname=self._to.name, do_handshake_on_connect=False
        )
        self._on_socket(secured)
        secured.do_handshake()
        return secured

    def _receive(self, connected: socket.socket, answer: _Answer) -> None:
        received = connected.recv(RECEIVED_AT_ONCE)
        if received:
            answer.feed(received)
        elif not answer.ends_with_the_connection:
            raise OSError("the connection was cut")
        else:
            answer.ended, answer.lasting = True, False


def _set_keepalive(new_socket: socket.socket) -> None:
    """Make the kernel close a connection, used or idle, within seconds after its peer has vanished."""
    new_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    new_socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE_OPTIONS.items():
        if hasattr(socket, name):  # the plugin also runs on systems that lack some of the options
            new_socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class _Answer:
    """The answer that is being parsed; receives llhttp's callbacks."""

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        #: Bytes of the head, and of the interim answers (1xx) before it.
        self._size = 0
        self._begin()
        self.ended = False
        #: Whether the connection may be used after this answer; known at its end.
        self.lasting = False

    def _begin(self) -> None:
        self.has_head = False
        self._headers: dict[str, str] = {}
        self._reason = b""
        self._pieces: list[bytes] = []

    def feed(self, received: bytes) -> None:
        """Parse received bytes. Raises whatever httptools raises."""
        self._parser.feed_data(received)
        if not self.has_head:
            self._size += len(received)
            if self._size > HEAD_LIMIT:
                raise ValueError(f"the head of the answer has more than {HEAD_LIMIT} bytes")

    def head(self) -> ResponseHead:
        return ResponseHead(self._parser.get_status_code(), self._reason.decode("latin-1"), self._headers)

    def take(self) -> list[bytes]:
        """Return the parts of the body that arrived since the last call."""
        taken, self._pieces = self._pieces, []
        return taken

    @property
    def ends_with_the_connection(self) -> bool:
        """Whether the body has no length of its own: it ends when the connection ends."""
        measured = self._headers.keys() & {"content-length", "transfer-encoding"}
        return self.has_head and not measured

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        if self.ended:
            self.lasting = False
            raise ValueError("an answer too many")

    def on_status(self, part: bytes) -> None:
        self._reason += part

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self._headers[key] = f"{self._headers[key]}, {text}" if key in self._headers else text

    def on_headers_complete(self) -> None:
        self.has_head = self._parser.get_status_code() >= 200

    def on_body(self, part: bytes) -> None:
        self._pieces.append(part)

    def on_message_complete(self) -> None:
        if not self.has_head:
            self._begin()  # an interim answer (1xx): the final one follows
            return
        self.ended = True
        self.lasting = self._parser.should_keep_alive()


@contextlib.contextmanager
def _errors_as(what: str) -> Iterator[None]:
    try:
        yield
    except httptools.HttpParserUpgrade as exc:
        raise Unreachable(f"{what}: the answer goes on in another protocol") from exc
    except httptools.HttpParserError as exc:
        raise Unreachable(f"{what}: {exc.__context__ or exc}") from exc
    except (OSError, ValueError) as exc:
        raise Unreachable(f"{what}: {exc}") from exc
