"""HTTP to one API server: a connection that is kept, a timeout that holds, errors in words.

Promises
- Only the given `Access` decides what is trusted and who we are (see `access`).
- A GET is sent once more when a kept connection turns out to be closed; nothing else is sent
  twice, unless the server asks for it with Retry-After.
- Whatever goes wrong below HTTP is an UnreachableError that says what to look at.
- One thread.
"""

from __future__ import annotations

import base64
import http.client
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import NamedTuple
from urllib.parse import unquote, urlencode, urlsplit

from kubectl_queue.access import proxies
from kubectl_queue.access.settings import Access
from kubectl_queue.errors import ConfigError, SilentError, UnreachableError

#: Seconds for an answer where --request-timeout says nothing: the API server itself gives up after 60.
DEFAULT_TIMEOUT = 65.0
#: client-go asks again up to ten times.
_ATTEMPTS = 10
_LONGEST_PAUSE = 30.0
_HEADERS = (("Accept", "application/json"), ("User-Agent", "kubectl-queue"))

Query = Mapping[str, str]


class Response(NamedTuple):
    status: int
    headers: Message
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    path: str
    query: Query
    body: bytes | None = None
    content_type: str = "application/json"


class _Secure(http.client.HTTPSConnection):
    """TLS to the name that the certificate is expected to have, through a tunnel or not."""

    def __init__(self, address: tuple[str, int], *, tls: ssl.SSLContext, name: str, timeout: float) -> None:
        super().__init__(*address, context=tls, timeout=timeout)
        self._tls, self._name = tls, name

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


class Transport:
    """Requests to the API server, one at a time."""

    def __init__(self, access: Access, *, timeout: float | None, environ: Mapping[str, str]) -> None:
        parts = urlsplit(access.server)
        self._access = access
        self._prefix = parts.path
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if access.tls else 80)
        self._proxy = proxies.proxy(access.server, configured=access.proxy, environ=environ)
        self.timeout = timeout or DEFAULT_TIMEOUT
        self._connection: http.client.HTTPConnection | None = None

    @property
    def address(self) -> str:
        return f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"

    def send(self, request: Request) -> Response:
        """The response, whatever its status. Raises UnreachableError."""
        for attempt in range(_ATTEMPTS):
            response = self._send(request)
            pause = _pause(response)
            if pause is None or attempt == _ATTEMPTS - 1:
                break
            time.sleep(pause)
        return response

    def stream(self, request: Request, *, silence: float) -> Iterator[bytes | Response]:
        """The lines of the response as they come, until it ends or `silence` seconds pass without one.

        A response that is not 200 comes whole, as the only item.
        """
        connection = self._open(silence)
        try:
            response = self._exchange(connection, request)
            if response.status != 200:
                yield Response(response.status, response.headers, response.read())
                return
            while line := response.readline():
                yield line
        except TimeoutError:
            return
        except (OSError, http.client.HTTPException) as exc:
            raise self._unreachable(exc) from exc
        finally:
            connection.close()

    def _send(self, request: Request) -> Response:
        kept = self._connection is not None
        try:
            return self._attempt(request)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as exc:
            if not kept or request.method != "GET":
                raise self._unreachable(exc, request=request) from exc
        except (OSError, http.client.HTTPException) as exc:
            raise self._unreachable(exc, request=request) from exc
        return self._send(request)

    def _attempt(self, request: Request) -> Response:
        connection = self._connection or self._open(self.timeout)
        self._connection = None
        try:
            response = self._exchange(connection, request)
            body = response.read()
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return Response(response.status, response.headers, body)

    def _exchange(self, connection: http.client.HTTPConnection, request: Request) -> http.client.HTTPResponse:
        query = f"?{urlencode(request.query)}" if request.query else ""
        target = f"{self._prefix}{request.path}{query}"
        connection.putrequest(request.method, target, skip_accept_encoding=True)
        for name, value in (*_HEADERS, *self._access.headers):
            connection.putheader(name, value)
        if request.body is not None:
            connection.putheader("Content-Type", request.content_type)
            connection.putheader("Content-Length", str(len(request.body)))
        connection.endheaders(request.body)
        return connection.getresponse()

    def _open(self, timeout: float) -> http.client.HTTPConnection:
        via = _proxy_address(self._proxy) if self._proxy else (self._host, self._port)
        connection = self._connect_to(via, timeout=timeout)
        if self._proxy:
            connection.set_tunnel(self._host, self._port, headers=_proxy_headers(self._proxy))
        return connection

    def _connect_to(self, address: tuple[str, int], *, timeout: float) -> http.client.HTTPConnection:
        if self._access.tls is None:
            return http.client.HTTPConnection(*address, timeout=timeout)
        name = self._access.tls_server_name or self._host
        return _Secure(address, tls=self._access.tls, name=name, timeout=timeout)

    def _unreachable(self, exc: Exception, *, request: Request | None = None) -> UnreachableError:
        lost = request is not None and request.method != "GET" and not isinstance(exc, _BEFORE_SENDING)
        doubt = "; whether it took the change is not known, look with: kubectl queue list" if lost else ""
        if isinstance(exc, TimeoutError):
            return SilentError(
                f"Unable to connect to the server: {self._peer} did not answer in {self.timeout:g} s; "
                f"look at the network, or give it longer with --request-timeout{doubt}"
            )
        return UnreachableError(_why(exc, peer=self._peer) + doubt)

    @property
    def _peer(self) -> str:
        """Whom we speak to, and through whom."""
        return f"{self.address} through the proxy {_shown(self._proxy)}" if self._proxy else self.address


#: What goes wrong before a request is sent.
_BEFORE_SENDING = (ConnectionRefusedError, socket.gaierror, ssl.SSLError)


def _why(exc: Exception, *, peer: str) -> str:
    if isinstance(exc, ConnectionRefusedError):
        return f"The connection to the server {peer} was refused - did you specify the right host or port?"
    return f"Unable to connect to the server: {_cause(exc, peer=peer)}"


def _cause(exc: Exception, *, peer: str) -> str:
    match exc:
        case socket.gaierror():
            return f"dial tcp: lookup {peer}: no such host; look at the server of the kubeconfig's cluster"
        case ssl.SSLError():
            return _tls_cause(exc)
        case http.client.HTTPException():
            return f"{peer} closed the connection or does not speak HTTP ({exc or type(exc).__name__})"
        case _:
            return f"{peer}: {getattr(exc, 'strerror', None) or exc}"


def _tls_cause(exc: ssl.SSLError) -> str:
    if isinstance(exc, ssl.SSLCertVerificationError):
        return (
            f"tls: failed to verify certificate: {exc.verify_message}; "
            "give the authority of this server as --certificate-authority, or the right --server"
        )
    if "WRONG_VERSION_NUMBER" in str(exc):
        return "it answered an HTTPS request with something else; is it http:// or another port?"
    return f"tls: {(exc.reason or str(exc)).replace('_', ' ').lower()}; look at the client certificate"


def _pause(response: Response) -> float | None:
    """Seconds to wait before asking again, or None: as client-go, for 429 and 5xx with Retry-After."""
    after = response.headers.get("Retry-After", "")
    if (response.status == 429 or response.status >= 500) and after.isdigit():
        return min(float(after), _LONGEST_PAUSE)
    return None


def _proxy_address(proxy: str) -> tuple[str, int]:
    parts = urlsplit(proxy)
    if parts.scheme != "http" or not parts.hostname:
        raise ConfigError(
            f"the proxy {_shown(proxy)} cannot be used: only http:// proxies are supported; "
            "put the API server into NO_PROXY, or give another one as proxy-url in the kubeconfig"
        )
    return parts.hostname, parts.port or 80


def _proxy_headers(proxy: str) -> dict[str, str]:
    parts = urlsplit(proxy)
    if not parts.username:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _shown(proxy: str) -> str:
    """The proxy without its password."""
    parts = urlsplit(proxy)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
