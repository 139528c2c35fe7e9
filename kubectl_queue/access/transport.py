"""HTTP to the API server through `kubectl proxy`: connections that are kept, time limits, errors in words.

Threads
- Any thread may call any method of a `Transport`, and several may do so at a time: a page reads, writes and
  watches at once. No lock is held while bytes are sent or read.
- A connection carries one request at a time. `send` borrows an idle one, the last that was given back, or
  opens one, and gives it back once it has the whole answer; after an error it is closed instead, and no other
  request notices. So there are as many as there ever were requests at a time. `stream` has one of its own,
  which is closed when the iteration ends; the iterator itself is for one thread at a time.
- `close` ends what is under way: a `send` that waits, for its answer or to ask again, and a `stream` that is
  blocked between two lines, raise ClosedError in their threads, and so does each later call.

Promises
- An answer that asks to come again (429 or 5xx with Retry-After) is sent again, up to ten times. Nothing
  else is sent twice by us; kubectl sends a GET again where its own connection turns out to be closed.
- Whatever goes wrong below HTTP is an UnreachableError, or a CredentialsError, that says what to look at.
"""

from __future__ import annotations

import http.client
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlencode

from kubectl_queue.access.kubectl import KubectlProxy
from kubectl_queue.access.responses import ApiRequest, ApiResponse
from kubectl_queue.errors import (
    ClosedError,
    CredentialsError,
    QueueError,
    SilentError,
    UnreachableError,
)

#: Seconds for an answer where --request-timeout is not given: the API server itself gives up after 60.
DEFAULT_TIMEOUT = 65.0
#: client-go asks again up to ten times.
_ATTEMPTS = 10
_LONGEST_PAUSE = 30.0
_USER_AGENT = "kubectl-queue"


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over the socket at a path; `localhost` is a Host that kubectl takes.

    For one thread at a time, but for `cut`.
    """

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path
        #: `sock` is taken away when the server asks to close; this one stays, for `cut`.
        self._socket: socket.socket | None = None
        self._is_cut = False

    def connect(self) -> None:
        self.sock = self._socket = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
        if self._is_cut:  # before it was connected, so that there was nothing to shut down
            raise ConnectionAbortedError

    def limit(self, seconds: float | None) -> None:
        """Seconds for each read and write from now on; None: no limit."""
        self.timeout = seconds
        if self.sock is not None:
            self.sock.settimeout(seconds)

    def cut(self) -> None:
        """End what another thread reads or writes here, with an error there or the end of the answer."""
        self._is_cut = True
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


class Transport:
    """Requests to the API server, from any thread. `close` it."""

    def __init__(self, proxy: KubectlProxy, *, timeout: float | None) -> None:
        """`timeout`: that of --request-timeout; None where it was not given."""
        self._proxy = proxy
        self._timeout = timeout
        self._answered = False
        self._closed = threading.Event()
        #: For the two collections of connections, and that none is added once it is closed.
        self._lock = threading.Lock()
        self._idle: list[_UnixConnection] = []
        self._in_use: set[_UnixConnection] = set()

    @property
    def timeout(self) -> float | None:
        """Seconds for the next answer.

        Without --request-timeout the first has no limit of ours, since a credential plugin may wait until
        the user has logged in. kubectl gives up after 30 s without a connection, and after 45 s without a
        sign of life.
        """
        return self._timeout or (DEFAULT_TIMEOUT if self._answered else None)

    def close(self) -> None:
        """End all requests, without waiting for the threads that made them."""
        with self._lock:
            self._closed.set()
            idle, self._idle = self._idle, []
            in_use = list(self._in_use)
        for connection in idle:
            connection.close()
        for connection in in_use:
            connection.cut()

    def send(self, request: ApiRequest) -> ApiResponse:
        """The response, whatever its status. Raises UnreachableError, CredentialsError or ClosedError."""
        for attempt in range(_ATTEMPTS):
            response = self._exchange_whole(request)
            pause = _pause(response)
            if pause is None or attempt == _ATTEMPTS - 1:
                break
            if self._closed.wait(pause):
                raise _closed_error(request)
        return response

    def stream(self, request: ApiRequest, *, silence: float) -> Iterator[bytes | ApiResponse]:
        """The lines of the response as they come, until it ends or `silence` seconds pass without one.

        A response that is not 200 comes whole, as the only item. Raises what `send` raises.
        """
        with self._connection(request, keep=False) as connection:
            connection.limit(silence)
            try:
                response = _exchange(connection, request)
                if response.status != 200:
                    yield _checked(ApiResponse(response.status, response.headers, response.read()), request)
                    return
                while line := response.readline():
                    yield line
            except TimeoutError:
                return
            if self._closed.is_set():
                raise _closed_error(request)

    def _exchange_whole(self, request: ApiRequest) -> ApiResponse:
        with self._connection(request, keep=True) as connection:
            limit = self.timeout
            connection.limit(limit)
            try:
                response = _exchange(connection, request)
                body = response.read()
            except TimeoutError as exc:
                raise _silent(limit, request) from exc
            self._answered = True
        return _checked(ApiResponse(response.status, response.headers, body), request)

    @contextmanager
    def _connection(self, request: ApiRequest, *, keep: bool) -> Iterator[_UnixConnection]:
        """A connection for this request alone. `keep`: give it back where no error ends the block."""
        connection = self._borrow(request, idle=keep)
        is_whole = False
        try:
            yield connection
            is_whole = True
        except (OSError, http.client.HTTPException) as exc:
            raise (_closed_error(request) if self._closed.is_set() else _ended(exc, request)) from exc
        finally:
            self._give_back(connection, keep=keep and is_whole)

    def _borrow(self, request: ApiRequest, *, idle: bool) -> _UnixConnection:
        """`idle`: rather one that is kept."""
        path = self._proxy.socket()
        with self._lock:
            if self._closed.is_set():
                raise _closed_error(request)
            connection = self._idle.pop() if idle and self._idle else _UnixConnection(path)
            self._in_use.add(connection)
        return connection

    def _give_back(self, connection: _UnixConnection, *, keep: bool) -> None:
        with self._lock:
            self._in_use.discard(connection)
            is_kept = keep and not self._closed.is_set()
            if is_kept:
                self._idle.append(connection)
        if not is_kept:
            connection.close()


def _silent(limit: float | None, request: ApiRequest) -> SilentError:
    return SilentError(
        f"Unable to connect to the server: it did not answer in {limit:g} s; "
        f"look at the network, or give it longer with --request-timeout{_outcome_unknown(request)}"
    )


def _closed_error(request: ApiRequest) -> ClosedError:
    return ClosedError(f"the request was ended, since the command ends{_outcome_unknown(request)}")


def _exchange(connection: http.client.HTTPConnection, request: ApiRequest) -> http.client.HTTPResponse:
    query = f"?{urlencode(request.query)}" if request.query else ""
    connection.putrequest(request.method, f"{request.path}{query}", skip_accept_encoding=True)
    connection.putheader("Accept", request.accept)
    connection.putheader("User-Agent", _USER_AGENT)
    if request.body is not None:
        connection.putheader("Content-Type", request.content_type)
        connection.putheader("Content-Length", str(len(request.body)))
    connection.endheaders(request.body)
    return connection.getresponse()


def _pause(response: ApiResponse) -> float | None:
    """Seconds to wait before asking again, or None: as client-go, for 429 and 5xx with Retry-After."""
    after = response.headers.get("Retry-After", "")
    if (response.status == 429 or response.status >= 500) and after.isdigit():
        return min(float(after), _LONGEST_PAUSE)
    return None


def _checked(response: ApiResponse, request: ApiRequest) -> ApiResponse:
    """Return the response of the API server; raise an error where kubectl itself answered.

    Then the answer is 500 and text (k8s.io/kubectl/pkg/proxy); each answer of an API server has an Audit-Id.
    """
    plain = response.headers.get_content_type() == "text/plain"
    if response.status != 500 or not plain or "Audit-Id" in response.headers:
        return response
    raise unreachable(response.body.decode(errors="replace").strip(), if_sent=_outcome_unknown(request))


_REFUSED = re.compile(r"dial tcp (?P<address>\S+): connect: connection refused")
_NO_SERVER = re.compile(r"(127\.0\.0\.1|\[::1\]|localhost):8080")
#: How errors begin that come before a request is sent.
_BEFORE_SENDING = (
    "dial ",
    "getting credentials",
    "tls: ",
    "x509: ",
    "proxyconnect",
    "socks connect",
    "http: ",
)
_ADVICE = {
    "no such host": "look at the server of the kubeconfig's cluster",
    "failed to verify certificate": (
        "give the authority of this server as --certificate-authority, or the right --server"
    ),
    "HTTP response to HTTPS client": "is it http:// or another port?",
    "unsupported protocol scheme": "give the address of an API server, such as https://10.0.0.1:6443",
    "proxyconnect": "look at proxy-url in the kubeconfig, and HTTPS_PROXY and NO_PROXY in the environment",
    "invalid header field value": "look at the token",
    "certificate required": "look at the client certificate",
}


def unreachable(cause: str, *, if_sent: str = "") -> QueueError:
    """The error for what kubectl says of a server that it could not reach.

    `if_sent`: what to add where the request may have been sent.
    """
    if cause.startswith("getting credentials"):
        return CredentialsError(cause)
    note = "" if cause.startswith(_BEFORE_SENDING) else if_sent
    refused = _REFUSED.fullmatch(cause)
    if refused:
        address = refused["address"]
        hint = _NOT_CONFIGURED if _NO_SERVER.fullmatch(address) else ""
        return UnreachableError(
            f"The connection to the server {address} was refused - "
            f"did you specify the right host or port?{hint}"
        )
    advice = next((f"; {text}" for part, text in _ADVICE.items() if part in cause), "")
    return UnreachableError(f"Unable to connect to the server: {cause}{advice}{note}")


#: kubectl takes localhost:8080 where nothing else is configured.
_NOT_CONFIGURED = (
    "\nWhere no API server is configured, this is the one that kubectl tries; set KUBECONFIG, "
    "or give --kubeconfig FILE, --context NAME or --server URL"
)


def _ended(exc: Exception, request: ApiRequest) -> UnreachableError:
    return UnreachableError(
        f"Unable to connect to the server: kubectl proxy ended the connection ({exc or type(exc).__name__})"
        + _outcome_unknown(request)
    )


def _outcome_unknown(request: ApiRequest) -> str:
    """What to add to the error of a change whose answer did not come; empty for a read."""
    if request.method == "GET":
        return ""
    return "; whether it took the change is not known, look with: kubectl queue list"
