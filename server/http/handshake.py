"""From an accepted socket to a connection: the TLS handshake, and the choice of the protocol.

HTTP/2 is offered to clients that call us by a name, and HTTP/1.1 alone to those that call an address: the API
server calls a webhook's Service by name, many calls at once; kube-scheduler calls an address, one call after
the other, and gets its answers sooner over HTTP/1.1.

The TLS transport is made in two steps, so that the transport below it is known: encrypted bytes that wait
there count as unsent as well. The TLS context is built again when the files of the certificate, or those of
the authorities of clients, change.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from server.http import client_tls
from server.http.authorization import (
    EVERYTHING,
    Access,
    Callers,
    allow_probes,
    authorize_by_certificate,
)
from server.http.base_connection import BaseConnection, ConnectionContext
from server.http.connection_table import ConnectionPhase
from server.http.http1_connection import Http1Connection
from server.http.http2.connection import Http2Connection
from server.http.request_parser import RequestError
from server.http.responses import FOR_PROBES

Stamp = tuple[tuple[int, int, int], ...]


def stamp(*paths: Path) -> Stamp:
    """A value that changes whenever a file is replaced or written. Raises OSError."""
    stats = [path.stat() for path in paths]
    return tuple((stat.st_mtime_ns, stat.st_ino, stat.st_size) for stat in stats)


def build_context(*, certfile: Path, keyfile: Path, client_ca: Sequence[Path] = ()) -> ssl.SSLContext:
    """TLS 1.2 and later. Raises OSError, of which ssl.SSLError is one.

    `client_ca`: clients are asked for a certificate of these authorities, over TLS 1.3 alone.
    """
    by_address, by_name = (
        _build_context(certfile=certfile, keyfile=keyfile, client_ca=client_ca, protocols=protocols)
        for protocols in (["http/1.1"], ["h2", "http/1.1"])
    )

    def select_by_sni(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name is not None:
            connection.context = by_name

    by_address.sni_callback = select_by_sni
    return by_address


def _build_context(
    *, certfile: Path, keyfile: Path, client_ca: Sequence[Path], protocols: list[str]
) -> ssl.SSLContext:
    kind = client_tls.ClientTlsContext if client_ca else ssl.SSLContext
    context = kind(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_IGNORE_UNEXPECTED_EOF
    context.num_tickets = 0  # Go's clients keep no session cache: tickets would cost and serve nobody
    context.set_alpn_protocols(protocols)
    context.load_cert_chain(certfile, keyfile)
    if client_ca:
        client_tls.ask_for_certificate(context, client_ca)
    return context


@dataclass(kw_only=True)
class Certificate:
    """The serving certificate, and the authorities of clients. Bad files leave the last good ones in use.

    `client_ca`: their files; without any, clients are asked for no certificate. `callers`: whose certificates
    may call what, if they are asked for one.
    """

    certfile: Path
    keyfile: Path
    log: Any
    client_ca: Sequence[Path] = ()
    callers: Callers | None = None
    build: Callable[..., ssl.SSLContext] = build_context
    current: ssl.SSLContext = field(init=False)
    #: Counts how often other authorities of clients came into use.
    client_ca_version: int = field(init=False, default=0)
    #: The files as they were read last, and those of the authorities that are in use.
    _stamps: tuple[Stamp, Stamp] = field(init=False)
    _client_ca_stamp: Stamp = field(init=False)

    def __post_init__(self) -> None:
        self._stamps = self._current_stamps()
        self._use(self._build(), self._stamps[1])

    def _current_stamps(self) -> tuple[Stamp, Stamp]:
        return stamp(self.certfile, self.keyfile), stamp(*self.client_ca)

    def _build(self) -> ssl.SSLContext:
        return self.build(certfile=self.certfile, keyfile=self.keyfile, client_ca=self.client_ca)

    def _use(self, context: ssl.SSLContext, client_ca_stamp: Stamp) -> None:
        self.current = context
        if client_ca_stamp != getattr(self, "_client_ca_stamp", None):
            self._client_ca_stamp = client_ca_stamp
            self.client_ca_version += 1

    def access(self, connection: ssl.SSLObject, *, version: int) -> Access:
        """What the client at the other end of this connection may call.

        `version`: `client_ca_version` when its handshake began.
        """
        if self.callers is None or not self.client_ca:
            return EVERYTHING
        authorize = authorize_by_certificate(connection.getpeercert(), self.callers)
        return Access(
            authorize=authorize,
            outdated=lambda: self.client_ca_version != version,
            background=authorize(b"/healthz") is not None,  # it may call nothing
        )

    def refresh(self) -> None:
        """Use the files as they are now for connections from now on. Never raises for bad files."""
        try:
            stamps = self._current_stamps()
            if stamps == self._stamps:
                return
            self._stamps = stamps
            self._use(self._build(), stamps[1])
        except OSError as exc:
            self.log.error(  # noqa: TRY400 - the reason is in the message
                "the new certificate is not usable, the old one stays in use: %s", exc
            )
        else:
            self.log.info("serving with the new certificate in %s", self.certfile)


@dataclass(frozen=True, kw_only=True, slots=True)
class Listener:
    """What those who connect to one listening socket get.

    `certificate`: None for no TLS. `probes_only`: it is that of setting `health_bind`.
    """

    certificate: Certificate | None
    probes_only: bool = False


class Handshake(asyncio.Protocol):
    """A connection until its protocol is known: in the table, with phase HANDSHAKE.

    Created in the table; leaves it when it has failed, or to a connection that takes its place.
    """

    def __init__(
        self,
        accepted: socket.socket,
        *,
        context: ConnectionContext,
        listener: Listener,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._context = context
        self._listener = listener
        self._certificate = listener.certificate
        self._loop = loop
        self._address = ""
        self._client_ca_version = 0
        context.connections.add(self)
        self._task = loop.create_task(self._run(accepted))

    # The connection table calls these.

    def on_phase_timeout(self, _: ConnectionPhase) -> None:
        self.abort()

    def abort(self) -> None:
        self._task.cancel()

    def close(self) -> None:
        self.abort()

    def unsent_bytes(self) -> int:
        return 0

    # The TLS connection calls this.

    def refuse(self, error: RequestError) -> None:
        """The client's certificate is refused: it has a moment to read the alert and to close."""
        self._context.refusals.record(error, address=self._address, request=None)
        self._context.connections.set_phase(self, ConnectionPhase.LINGERING)

    async def _run(self, accepted: socket.socket) -> None:
        client_tls.on_refused.set(self.refuse)  # before the transport is made, which keeps this context
        try:
            plain, early = await self._loop.connect_accepted_socket(_BeforeTls, accepted)
            self._address = _peer(plain)[0]
            transport = await self._secure(plain, early.received)
        except (
            OSError,
            RuntimeError,
            asyncio.CancelledError,
        ):  # the client left, sent no TLS, or was aborted
            return
        finally:
            self._context.connections.remove(self)
        if transport.is_closing():
            return
        connection = self._connection(transport, plain)
        transport.set_protocol(connection)  # before uvloop hands out what came with the end of the handshake
        connection.connection_made(transport)
        if transport is plain:
            if early.received:
                connection.data_received(early.received)
            plain.resume_reading()

    async def _secure(self, plain: asyncio.Transport, received: bytes) -> asyncio.Transport:
        """The TLS transport on `plain`, or `plain` itself if there is no certificate.

        `received`: bytes that came before there was a TLS transport to read them.
        """
        if self._certificate is None:
            plain.pause_reading()
            return plain
        if received:
            self._loop.call_soon(_feed, plain, received)
        limits = self._context.limits
        self._client_ca_version = self._certificate.client_ca_version
        secured = await self._loop.start_tls(
            plain,
            self,
            self._certificate.current,
            server_side=True,
            ssl_handshake_timeout=limits.handshake_timeout,
            ssl_shutdown_timeout=limits.response_timeout,
        )
        if secured is None:
            raise ConnectionResetError("the client closed the connection")
        return secured

    def _connection(self, transport: asyncio.Transport, plain: asyncio.Transport) -> BaseConnection:
        address, port = _peer(transport)
        environ = {**self._context.base_environ, "REMOTE_ADDR": address, "REMOTE_PORT": str(port)}
        environ[FOR_PROBES] = self._listener.probes_only
        kind = Http2Connection if _negotiated_http2(transport) else Http1Connection
        return kind(
            context=self._context, environ=environ, socket_transport=plain, access=self._access(transport)
        )

    def _access(self, transport: asyncio.Transport) -> Access:
        if self._listener.probes_only:
            return Access(authorize=allow_probes, background=True)
        if self._certificate is None:
            return EVERYTHING
        connection = transport.get_extra_info("ssl_object")
        return self._certificate.access(connection, version=self._client_ca_version)


class _BeforeTls(asyncio.Protocol):
    """The protocol of the socket until the TLS transport exists: keeps the first bytes, and reads no more."""

    def __init__(self) -> None:
        self.received = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._transport.pause_reading()


def _feed(plain: asyncio.Transport, received: bytes) -> None:
    """Give the bytes to the TLS protocol, which `start_tls` has installed by now."""
    protocol = cast(asyncio.BufferedProtocol, plain.get_protocol())
    if not plain.is_closing():
        memoryview(protocol.get_buffer(len(received)))[: len(received)] = received
        protocol.buffer_updated(len(received))


def _peer(transport: asyncio.Transport) -> tuple[str, int]:
    """Address and port of the client; an empty address if it has none."""
    name = transport.get_extra_info("peername")
    return (name[0], name[1]) if isinstance(name, tuple) else ("", 0)


def _negotiated_http2(transport: asyncio.Transport) -> bool:
    secured = transport.get_extra_info("ssl_object")
    return secured is not None and secured.selected_alpn_protocol() == "h2"
