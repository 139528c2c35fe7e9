"""Sends requests to the API server.

`configuration` says where the API server is and who we are. Request and response bodies are bytes, sent over
connections of our own (`connection`): the models of the kubernetes client are two hundred times slower than
msgspec's structs.

Guarantees
- A `Client` may be shared between threads. Each call takes a connection from a pool.
- Every call has a connect and a read time-out; none waits without end.
- The environment (`SSL_CERT_FILE`, `REQUESTS_CA_BUNDLE`, proxy variables) does not affect a client that has a
  CA of its own.
- Only errors of `cluster.exceptions` are raised.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlencode

import msgspec

from cluster.api.configuration import Configuration
from cluster.api.connection import (
    Connection,
    OnSocket,
    ResponseHead,
    parse_target,
)
from cluster.exceptions import (
    ConfigurationError,
    Conflict,
    Expired,
    NotFound,
    Overloaded,
    Refused,
    TooLarge,
    Unreachable,
)

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"

CONNECT_SECONDS = 5.0
READ_SECONDS = 35.0
#: How long a token is reused. Each time that one is asked for, its file is read again, and the kubernetes
#: package reads all its settings again.
TOKEN_SECONDS = 1.0
#: A connection that carries one watch after another is closed at this age, so that watches spread over the
#: API servers.
MAX_CONNECTION_AGE_SECONDS = 60.0

T = TypeVar("T")

_encoder = msgspec.json.Encoder()


class _StatusCause(msgspec.Struct, frozen=True):
    reason: str = ""


class _Details(msgspec.Struct, frozen=True):
    causes: list[_StatusCause] | None = None


class _Status(msgspec.Struct, frozen=True):
    reason: str | None = ""
    message: str = ""
    details: _Details | None = None


_status = msgspec.json.Decoder(_Status)


class Client:
    """A client of one API server. See the guarantees above."""

    def __init__(
        self, settings: Configuration, *, connections: int = 16, read_seconds: float | None = None
    ) -> None:
        """`connections`: the most idle connections kept. `read_seconds`: the read time-out (`READ_SECONDS`).

        Raises `ConfigurationError`.
        """
        self._settings = settings
        self._read_seconds = read_seconds
        self._target = parse_target(settings.host, secured=lambda: _tls(settings), name=_name(settings))
        self._on_socket: OnSocket = _ignore_socket
        self._max_idle = connections
        #: Idle connections, the latest last, and the process that opened them: a child process opens its own.
        self._idle: deque[Connection] = deque()
        self._process = os.getpid()
        #: What to add to monotonic seconds for the API server's time, by its last answer. The monotonic clock
        #: does not jump, so that time does not either where somebody sets the clock of this node.
        self._server_epoch: float | None = None
        self._date = ""
        #: The token, and until when it is reused, in monotonic seconds.
        self._cached_token: tuple[str | None, float] = (None, float("-inf"))

    @property
    def clock_skew(self) -> float:
        """How far the API server's clock is ahead of ours now, in seconds; 0 before its first answer."""
        if self._server_epoch is None:
            return 0.0
        return self._server_epoch + time.monotonic() - time.time()

    def get(self, path: str, **query: str | int) -> bytes:
        return self.request("GET", path, query=query)

    def create(self, path: str, body: object, *, read_seconds: float | None = None, **query: str) -> bytes:
        """`read_seconds`: the read time-out of this request, where it is not the client's."""
        return self.request(
            "POST", path, query=query, body=body, content_type=JSON, read_seconds=read_seconds
        )

    def patch(self, path: str, body: object, *, content_type: str = MERGE_PATCH, **query: str) -> bytes:
        return self.request("PATCH", path, query=query, body=body, content_type=content_type)

    def delete(self, path: str, body: object | None = None) -> bytes:
        return self.request("DELETE", path, body=body, content_type=JSON)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None = None,
        body: object | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        most_bytes: int | None = None,
        read_seconds: float | None = None,
    ) -> bytes:
        """Send one request and return the whole body. Raises `TooLarge` if it exceeds `most_bytes`."""
        connection = self._open(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            accept=accept,
            read_seconds=read_seconds or self._read_seconds or READ_SECONDS,
        )
        try:
            return _join_pieces(connection.pieces(f"{method} {path}"), most_bytes, what=f"{method} {path}")
        finally:
            self._give_back(connection)

    def interruptible(self) -> InterruptibleClient:
        """Return a client of the same server with its own connections, which other threads can interrupt."""
        return InterruptibleClient(self._settings)

    def stream(self, path: str, *, query: Mapping[str, str | int], read_seconds: float) -> WatchStream:
        """Start a watch, whose answer is read line by line."""
        connection = self._open(
            "GET", path, query=query, body=None, content_type=JSON, read_seconds=read_seconds
        )
        return WatchStream(connection, what=path, released=self._give_back)

    def _open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None,
        body: object | None,
        content_type: str,
        read_seconds: float,
        accept: str = JSON,
    ) -> Connection:
        """Return a connection whose answer has status 2xx and a body that is still to be read."""
        target = f"{path}?{urlencode(query)}" if query else path
        content = None if body is None else _encoder.encode(body)
        headers = self._headers(content_type if body is not None else None, accept=accept)
        connection = self._connection()
        try:
            try:
                head = connection.ask(method, target, headers, content, seconds=read_seconds)
            except Unreachable:
                self._close_idle()
                raise
            self._update_clock(head.headers.get("date", ""))
            _require_success(head, connection, what=f"{method} {path}")
        except BaseException:
            self._give_back(connection)
            raise
        return connection

    def _close_idle(self) -> None:
        """Close the idle connections: they may lead to the same server, which did not answer."""
        while self._idle:
            with contextlib.suppress(IndexError):  # another thread took the last one
                self._idle.pop().close()

    def _connection(self) -> Connection:
        """Return a connection for this thread alone: an idle one, or a new one."""
        if self._process != os.getpid():
            self._process = os.getpid()
            self._idle.clear()
        while True:
            try:
                idle = self._idle.pop()
            except IndexError:
                return Connection(self._target, on_socket=self._on_socket, connect_seconds=CONNECT_SECONDS)
            if not idle.stale:
                return idle
            idle.close()

    def _give_back(self, connection: Connection) -> None:
        if connection.reusable and len(self._idle) < self._max_idle and self._is_young(connection):
            self._idle.append(connection)
        else:
            connection.close()

    def _is_young(self, connection: Connection) -> bool:
        return True

    def _headers(self, content_type: str | None, *, accept: str = JSON) -> dict[str, str]:
        headers = {"Accept": accept, "User-Agent": "sluice"}
        if content_type:
            headers["Content-Type"] = content_type
        token = self._token()
        if token:
            headers["Authorization"] = token
        return headers

    def _token(self) -> str | None:
        """Return the token, if no certificate identifies us; read or requested again when it is old."""
        token, until = self._cached_token
        now = time.monotonic()
        if now >= until:
            try:
                token = self._settings.get_api_key_with_prefix("BearerToken", alias="authorization")
            except Exception as exc:  # from a bad file, or from a credentials program
                raise Unreachable(f"the token for the API server: {exc}") from exc
            self._cached_token = token, now + TOKEN_SECONDS
        return token

    def _update_clock(self, date: str) -> None:
        """Take the API server's time, once for each second that the `Date` headers name."""
        if date == self._date:
            return
        self._date = date
        try:
            self._server_epoch = parsedate_to_datetime(date).timestamp() - time.monotonic()
        except (TypeError, ValueError, OverflowError):
            return  # no date, or an unreadable one


class InterruptibleClient(Client):
    """A client for one thread. Any other thread may interrupt its reads, whatever they wait for."""

    def __init__(self, settings: Configuration) -> None:
        super().__init__(settings, connections=1)
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._on_socket = self._add_socket

    def _is_young(self, connection: Connection) -> bool:
        return time.monotonic() < connection.since + MAX_CONNECTION_AGE_SECONDS

    def _add_socket(self, new_socket: socket.socket) -> None:
        with self._lock:
            self._sockets.add(new_socket)

    def interrupt(self) -> None:
        """Cut every connection that is open or being opened; one that is not begun yet may escape."""
        with self._lock:
            open_now = list(self._sockets)
        for each in open_now:
            with contextlib.suppress(OSError):
                # The method of the base class: ssl's own would change the object under the reading thread.
                socket.socket.shutdown(each, socket.SHUT_RDWR)


def _join_pieces(pieces: Iterator[bytes], most: int | None, *, what: str) -> bytes:
    if most is None:
        return b"".join(pieces)
    received, size = [], 0
    for piece in pieces:
        received.append(piece)
        size += len(piece)
        if size > most:
            raise TooLarge(f"{what}: the answer has more than {most} bytes")
    return b"".join(received)


def _ignore_socket(_: socket.socket) -> None:
    """Do nothing: no other thread interrupts this client."""


class WatchStream:
    """The lines of a watch, for one thread."""

    def __init__(
        self, connection: Connection, *, what: str, released: Callable[[Connection], object]
    ) -> None:
        self._connection = connection
        self._what = what
        self._released = released

    def lines(self) -> Iterator[bytes]:
        """Yield each line as it comes, until the server ends the watch. Raises `Unreachable` if it is cut."""
        rest = b""
        for piece in self._connection.pieces(f"watch {self._what}"):
            *lines, rest = (rest + piece).split(b"\n") if rest else piece.split(b"\n")
            yield from filter(None, lines)

    def release(self) -> None:
        """Return the connection; it is reused if all of the answer was read. Reading thread only."""
        self._released(self._connection)


def _require_success(head: ResponseHead, connection: Connection, *, what: str) -> None:
    """Raise `Refused` for a status other than 2xx, and `Unreachable` for an encoded body."""
    if not 200 <= head.status < 300:
        raise _refusal(head, connection)
    encoding = head.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise Unreachable(f"{what}: the answer is encoded ({encoding}), which was not requested")


def _refusal(head: ResponseHead, connection: Connection) -> Refused:
    """Return the error class for the status, with the answer's own message if it can be read."""
    try:
        status = _status.decode(b"".join(connection.pieces("the refusal")))
    except (msgspec.DecodeError, RecursionError, Unreachable):
        status = _Status(message=head.reason or "no reason given")
    code, reason, message = head.status, status.reason or "", status.message
    if code == 429 or code >= 500:
        causes = frozenset(cause.reason for cause in (status.details and status.details.causes) or ())
        wait = _seconds(head.headers.get("retry-after"))
        return Overloaded(code, reason, message, retry_after=wait, causes=causes)
    kinds: dict[int, type[Refused]] = {404: NotFound, 409: Conflict, 410: Expired}
    return kinds.get(code, Refused)(code, reason, message)


def _seconds(header: str | None) -> float:
    try:
        seconds = float(header) if header else 1.0
    except ValueError:
        return 1.0
    return 1.0 if math.isnan(seconds) else min(max(seconds, 0.0), 30.0)


def _tls(settings: Configuration) -> ssl.SSLContext:
    try:
        return _context(settings)
    except (OSError, ValueError) as exc:
        raise ConfigurationError(f"the certificates for the API server cannot be used: {exc}") from exc


def _context(settings: Configuration) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if settings.ssl_ca_cert and Path(settings.ssl_ca_cert).exists():
        context.load_verify_locations(cafile=settings.ssl_ca_cert)
    elif settings.ca_cert_data:
        context.load_verify_locations(cadata=settings.ca_cert_data)
    else:
        context.load_default_certs()
    if not settings.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    if settings.assert_hostname is False:
        context.check_hostname = False
    context.set_alpn_protocols(["http/1.1"])
    return context


def _name(settings: Configuration) -> str | None:
    """Return the name that the server's certificate must have, if it is not the host's."""
    asserted = settings.assert_hostname
    return settings.tls_server_name or (asserted if isinstance(asserted, str) else None)


def decode_response(data: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """Decode an answer into a struct. Raises `Unreachable` if it does not fit.

    The decoder is made at import (`queues.apimachinery.conversion` says why).
    """
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise Unreachable(f"the API server's answer cannot be read: {exc}") from exc
