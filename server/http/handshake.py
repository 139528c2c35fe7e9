"""From an accepted socket to a connection: the TLS handshake, and the choice of the protocol.

HTTP/2 is offered to clients that call us by a name, and HTTP/1.1 alone to those that call an address: the API
server calls a webhook's Service by name, many calls at once; kube-scheduler calls an address, one call after
the other, and gets its answers sooner over HTTP/1.1.

The TLS transport is made in two steps, so that the transport below it is known: encrypted bytes that wait
there count as unsent as well. The TLS context is built again when the files of the certificate change.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from server.http.base_connection import BaseConnection, ConnectionContext
from server.http.connection_table import Phase
from server.http.http1_connection import Http1Connection
from server.http.http2.connection import Http2Connection

Stamp = tuple[tuple[int, int, int], ...]


def stamp(*paths: Path) -> Stamp:
    """A value that changes whenever a file is replaced or written. Raises OSError."""
    stats = [path.stat() for path in paths]
    return tuple((stat.st_mtime_ns, stat.st_ino, stat.st_size) for stat in stats)


def build_context(*, certfile: Path, keyfile: Path) -> ssl.SSLContext:
    """TLS 1.2 and later. Raises OSError, of which ssl.SSLError is one."""
    by_address = _build_context(certfile=certfile, keyfile=keyfile, protocols=["http/1.1"])
    by_name = _build_context(certfile=certfile, keyfile=keyfile, protocols=["h2", "http/1.1"])

    def select_by_sni(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        if name is not None:
            connection.context = by_name

    by_address.sni_callback = select_by_sni
    return by_address


def _build_context(*, certfile: Path, keyfile: Path, protocols: list[str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_IGNORE_UNEXPECTED_EOF
    context.num_tickets = 0  # Go's clients keep no session cache: tickets would cost and serve nobody
    context.set_alpn_protocols(protocols)
    context.load_cert_chain(certfile, keyfile)
    return context


@dataclass(kw_only=True)
class Certificate:
    """The serving certificate. A pair that cannot be loaded leaves the last good one in use."""

    certfile: Path
    keyfile: Path
    log: Any
    build: Callable[..., ssl.SSLContext] = build_context
    current: ssl.SSLContext = field(init=False)
    _stamp: Stamp = field(init=False)

    def __post_init__(self) -> None:
        self._stamp = stamp(self.certfile, self.keyfile)
        self.current = self.build(certfile=self.certfile, keyfile=self.keyfile)

    def refresh(self) -> None:
        """Use the files as they are now for connections from now on. Never raises for bad files."""
        try:
            current_stamp = stamp(self.certfile, self.keyfile)
            if current_stamp == self._stamp:
                return
            self._stamp = current_stamp
            self.current = self.build(certfile=self.certfile, keyfile=self.keyfile)
        except OSError as exc:
            self.log.error(  # noqa: TRY400 - the reason is in the message
                "the new certificate is not usable, the old one stays in use: %s", exc
            )
        else:
            self.log.info("serving with the new certificate in %s", self.certfile)


class Handshake(asyncio.Protocol):
    """A connection until its protocol is known: in the table, with phase HANDSHAKE.

    Created in the table; leaves it when it has failed, or to a connection that takes its place.
    """

    def __init__(
        self,
        accepted: socket.socket,
        *,
        context: ConnectionContext,
        certificate: Certificate | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._context = context
        self._certificate = certificate
        self._loop = loop
        self._received = b""
        context.connections.add(self)
        self._task = loop.create_task(self._run(accepted))

    # The connection table calls these.

    def on_phase_timeout(self, _: Phase) -> None:
        self.abort()

    def abort(self) -> None:
        self._task.cancel()

    def close(self) -> None:
        self.abort()

    def unsent_bytes(self) -> int:
        return 0

    # The loop calls this.

    def data_received(self, data: bytes) -> None:
        """These bytes came with the end of the handshake."""
        self._received += data

    async def _run(self, accepted: socket.socket) -> None:
        try:
            plain, early = await self._loop.connect_accepted_socket(_BeforeTls, accepted)
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
        transport.set_protocol(connection)
        connection.connection_made(transport)
        received = early.received if transport is plain else self._received
        if received:
            connection.data_received(received)
        if transport is plain:
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
        peer = transport.get_extra_info("peername")
        address, port = peer[:2] if isinstance(peer, tuple) else ("", 0)
        environ = {**self._context.base_environ, "REMOTE_ADDR": address, "REMOTE_PORT": str(port)}
        kind = Http2Connection if _negotiated_http2(transport) else Http1Connection
        return kind(context=self._context, environ=environ, socket_transport=plain)


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


def _negotiated_http2(transport: asyncio.Transport) -> bool:
    secured = transport.get_extra_info("ssl_object")
    return secured is not None and secured.selected_alpn_protocol() == "h2"
