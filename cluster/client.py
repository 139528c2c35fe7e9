"""Requests to the API server.

The kubernetes client gives configuration, authentication and connections; bodies go in and
come out as bytes, since its models are two hundred times slower than msgspec's structs.

Promises
- Safe to share between threads; each call takes a connection from a pool.
- Every call has a connect and a read time-out; none waits for ever.
- A client with a CA of its own is not led astray by the environment (`SSL_CERT_FILE`,
  `REQUESTS_CA_BUNDLE`, proxy variables).
- Raises the tree of `exceptions` and nothing else.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import ssl
import weakref
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import msgspec
import urllib3
from kubernetes.client import Configuration
from kubernetes.config import load_incluster_config, load_kube_config

from cluster.exceptions import (
    ConfigurationError,
    Conflict,
    Expired,
    NotFound,
    Overloaded,
    Refused,
    Unreachable,
)

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"

CONNECT_SECONDS = 5.0
READ_SECONDS = 35.0

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


def configuration(kubeconfig: str | None = None) -> Configuration:
    """The settings of a kubeconfig, or of the pod we run in. Raises `ConfigurationError`."""
    found = Configuration()
    try:
        if kubeconfig is None and "KUBERNETES_SERVICE_HOST" in os.environ:
            load_incluster_config(client_configuration=found)  # type: ignore[no-untyped-call]
        else:
            load_kube_config(config_file=kubeconfig, client_configuration=found)  # type: ignore[no-untyped-call]
    except Exception as exc:  # the loader trips over whatever a file holds
        where = kubeconfig or "the in-cluster settings and ~/.kube/config"
        raise ConfigurationError(f"no usable cluster configuration in {where}: {exc}") from exc
    return found


class Client:
    """One API server. See the promises above."""

    def __init__(self, settings: Configuration, *, connections: int = 16) -> None:
        self._settings = settings
        self._host = settings.host.rstrip("/")
        self._pool = urllib3.PoolManager(
            num_pools=2,
            maxsize=connections,
            ssl_context=_tls(settings),
            retries=False,
            assert_hostname=settings.assert_hostname,
            server_hostname=settings.tls_server_name,
        )
        #: How far the API server's clock is ahead of ours, in seconds, as last seen.
        self.ahead = 0.0

    def get(self, path: str, **query: str | int) -> bytes:
        return self.request("GET", path, query=query)

    def create(self, path: str, body: object, **query: str) -> bytes:
        return self.request("POST", path, query=query, body=body, content_type=JSON)

    def patch(self, path: str, body: object, *, content_type: str = MERGE, **query: str) -> bytes:
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
    ) -> bytes:
        """One request, answered whole."""
        response = self._open(
            method, path, query=query, body=body, content_type=content_type, read_seconds=READ_SECONDS
        )
        try:
            return response.data
        except urllib3.exceptions.HTTPError as exc:
            raise Unreachable(f"{method} {path}: {exc}") from exc
        finally:
            response.release_conn()

    def line(self) -> Line:
        """A client of the same server with connections of its own, which can be cut."""
        return Line(self._settings)

    def stream(self, path: str, *, query: Mapping[str, str | int], read_seconds: float) -> Stream:
        """A watch: an answer read line by line."""
        response = self._open(
            "GET", path, query=query, body=None, content_type=JSON, read_seconds=read_seconds
        )
        return Stream(response, what=path)

    def _open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str | int] | None,
        body: object | None,
        content_type: str,
        read_seconds: float,
    ) -> urllib3.BaseHTTPResponse:
        url = f"{self._host}{path}" + (f"?{urlencode(query)}" if query else "")
        try:
            response = self._pool.request(
                method,
                url,
                body=None if body is None else _encoder.encode(body),
                headers=self._headers(content_type if body is not None else None),
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=read_seconds),
                preload_content=False,
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as exc:
            raise Unreachable(f"{method} {path}: {exc}") from exc
        self._tell_time(response)
        if not 200 <= response.status < 300:
            raise _refusal(response)
        return response

    def _headers(self, content_type: str | None) -> dict[str, str]:
        headers = {"Accept": JSON, "User-Agent": "sluice"}
        if content_type:
            headers["Content-Type"] = content_type
        token = self._settings.get_api_key_with_prefix("authorization")
        if token:
            headers["Authorization"] = token
        return headers

    def _tell_time(self, response: urllib3.BaseHTTPResponse) -> None:
        try:
            date = parsedate_to_datetime(response.headers.get("Date", ""))
            self.ahead = (date - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return  # no date, or none that can be read


class Line(Client):
    """A client for one thread, whose reading any other thread may cut, whatever it waits for."""

    def __init__(self, settings: Configuration) -> None:
        super().__init__(settings, connections=1)
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._pool.pool_classes_by_scheme = _tracked(self._sockets)

    def cut(self) -> None:
        """End every connection that is open or being opened."""
        for one in list(self._sockets):
            with contextlib.suppress(OSError):
                # The plain method: ssl's own would change the object under the reading thread.
                socket.socket.shutdown(one, socket.SHUT_RDWR)


def _tracked(sockets: weakref.WeakSet[socket.socket]) -> dict[str, type[urllib3.HTTPConnectionPool]]:
    """urllib3's pools, whose connections note their sockets from the first moment."""

    class Noting:
        """Over urllib3's connections: their sockets are noted, the bare one and the one under TLS."""

        sock: socket.socket | None

        def connect(self) -> None:
            super().connect()  # type: ignore[misc]
            if self.sock is not None:
                sockets.add(self.sock)

        def _new_conn(self) -> socket.socket:
            made: socket.socket = super()._new_conn()  # type: ignore[misc]
            sockets.add(made)
            return made

    class Plain(Noting, urllib3.connection.HTTPConnection):
        pass

    class Secure(Noting, urllib3.connection.HTTPSConnection):
        pass

    class PlainPool(urllib3.HTTPConnectionPool):
        ConnectionCls = Plain

    class SecurePool(urllib3.HTTPSConnectionPool):
        ConnectionCls = Secure

    return {"http": PlainPool, "https": SecurePool}


class Stream:
    """The lines of a watch, read by one thread."""

    def __init__(self, response: urllib3.BaseHTTPResponse, *, what: str) -> None:
        self._response = response
        self._what = what

    def lines(self) -> Iterator[bytes]:
        """Each line as it comes; ends when the server ends it. Raises `Unreachable` when that is cut."""
        rest = b""
        try:
            for chunk in self._response.stream(65536, decode_content=False):
                *lines, rest = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                yield from filter(None, lines)
        except (urllib3.exceptions.HTTPError, OSError, ValueError, AttributeError) as exc:
            raise Unreachable(f"watch {self._what}: {exc}") from exc

    def release(self) -> None:
        """Give the connection up; only the reading thread may."""
        self._response.close()


def _refusal(response: urllib3.BaseHTTPResponse) -> Refused:
    try:
        status = _status.decode(response.data)
    except (msgspec.DecodeError, urllib3.exceptions.HTTPError):
        status = _Status(message=(response.reason or "no reason given"))
    finally:
        response.release_conn()
    code, reason, message = response.status, status.reason or "", status.message
    if code == 429 or code >= 500:
        causes = frozenset(one.reason for one in (status.details and status.details.causes) or ())
        wait = _seconds(response.headers.get("Retry-After"))
        return Overloaded(code, reason, message, retry_after=wait, causes=causes)
    kinds: dict[int, type[Refused]] = {404: NotFound, 409: Conflict, 410: Expired}
    return kinds.get(code, Refused)(code, reason, message)


def _seconds(header: str | None) -> float:
    try:
        seconds = float(header) if header else 1.0
    except ValueError:
        return 1.0
    return 1.0 if math.isnan(seconds) else min(max(seconds, 0.0), 30.0)


def _tls(settings: Configuration) -> ssl.SSLContext | None:
    if not settings.host.startswith("https"):
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if settings.ssl_ca_cert and Path(settings.ssl_ca_cert).exists():
        context.load_verify_locations(cafile=settings.ssl_ca_cert)
    else:
        context.load_default_certs()
    if not settings.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if settings.cert_file:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    return context


def decode(data: bytes, kind: type[Any]) -> Any:
    """An answer as a struct of the needed fields. Raises `Unreachable` if it is not one."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as exc:
        raise Unreachable(f"the API server's answer cannot be read: {exc}") from exc
