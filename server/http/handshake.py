"""From an accepted socket to a connection: the TLS handshake, and the choice of the protocol.

The TLS transport is made in two steps, so that the transport below it is known: encrypted bytes that wait
there count as unsent as well.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

from server.http.base_connection import BaseConnection, ConnectionContext
from server.http.connection_table import Phase
from server.http.http1_connection import Http1Connection
from server.http.http2.connection import Http2Connection
from server.http.tls import Certificate


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
