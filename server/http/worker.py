"""The gunicorn worker: one process, one event loop, the WSGI app called inline.

gunicorn keeps what it is good at: sockets, fork, signals, heartbeat, hooks. Parsing is llhttp's, sockets and
TLS are uvloop's. benchmarks/worker/ shows what that is worth beside gunicorn's own workers.

Of gunicorn's settings it honours bind, backlog, certfile, keyfile, timeout, graceful_timeout, worker_tmp_dir,
those of logging, and all hooks but pre_request and post_request. The limits are the application's `limits`.
"""

import asyncio
import errno
import os
import resource
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any, cast

import uvloop
from gunicorn.workers.base import Worker as GunicornWorker  # type: ignore[import-untyped]

from server.http.connections import ConnectionTable, Phase
from server.http.context import ConnectionContext
from server.http.http1_connection import Http1Connection
from server.http.large_bodies import LargeBodies
from server.http.limits import Limits
from server.http.responses import shared_environ
from server.http.run_queue import RunQueue
from server.http.tls import Certificate

TICK_SECONDS = 1.0  # seconds between heartbeats, sweeps of the crowd and looks at the certificate
SWITCH_INTERVAL = 0.0001  # seconds; a request waits about four of them while a thread computes
ACCEPTED_AT_ONCE = 32  # then those already connected have their turn
SPARE_FILES = 128  # for everything of the process that is not a caller
#: Of a socket, in the kernel, which doubles it. Less than the loop reads at a time, so it reads from each
#: caller once a turn; and no more of an answer waits where it cannot be counted.
SOCKET_BUFFER_BYTES = 96 * 1024
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Worker(GunicornWorker):  # type: ignore[misc]  # gunicorn has no types
    """Serves until SIGTERM; then takes nobody new, finishes what was begun, and goes.

    Everything but the hooks and large bodies (`http_large_bodies`) runs on the main thread. SIGINT and
    SIGQUIT end it without finishing.
    """

    def run(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL)
        self.loop = uvloop.new_event_loop()
        self.limits = limit_to_open_files(getattr(self.app, "limits", None) or Limits())
        self.certificate = self._certificate()
        self.context = self._context(self.limits)
        for listener in self.sockets:  # those that it accepts have the same
            for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
                listener.sock.setsockopt(socket.SOL_SOCKET, buffer, SOCKET_BUFFER_BYTES)
        try:
            self.loop.run_until_complete(self._serve())
        finally:
            self._close()

    def _certificate(self) -> Certificate | None:
        if not self.cfg.is_ssl:
            return None
        certfile, keyfile = self.cfg.certfile, self.cfg.keyfile or self.cfg.certfile
        return Certificate(certfile=Path(certfile), keyfile=Path(keyfile), log=self.log)

    def _context(self, limits: Limits) -> ConnectionContext:
        name = self.sockets[0].getsockname()
        host, port = name[:2] if isinstance(name, tuple) else (name, 0)
        return ConnectionContext(
            app=self.wsgi,
            limits=limits,
            connections=ConnectionTable(limits=limits, clock=self.loop.time),
            shared=shared_environ(host=str(host), port=int(port), tls=self.cfg.is_ssl),
            log=self.log,
            run_queue=RunQueue(call_soon=self.loop.call_soon, clock=time.perf_counter),
            large_bodies=LargeBodies(call_soon_threadsafe=self.loop.call_soon_threadsafe),
            clock=self.loop.time,
            perf_counter=time.perf_counter,
        )

    # Accepting.

    def _listen(self) -> None:
        for listener in self.sockets:
            self.loop.add_reader(listener.fileno(), self._accept, listener.sock)

    def _stop_listening(self) -> None:
        for listener in self.sockets:
            self.loop.remove_reader(listener.fileno())

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = listener.accept()
            except OSError as exc:
                if exc.errno in OUT_OF_FILES:
                    self._out_of_files(exc)
                return
            accepted.setblocking(False)
            self._accept_connection(accepted)

    def _out_of_files(self, exc: OSError) -> None:
        """Somebody goes, and we wait for the sockets to be closed rather than ask over and over."""
        self.log.error("a connection could not be taken: %s", exc)
        self.context.connections.evict_one()
        self._stop_listening()
        self.loop.call_later(0.1, self._listen_again)

    def _listen_again(self) -> None:
        if not self.context.stopping:
            self._listen()

    def _accept_connection(self, accepted: socket.socket) -> None:
        connection = Http1Connection(context=self.context)
        self.context.connections.add(connection)
        connection.handshake_task = self.loop.create_task(self._establish(connection, accepted))

    async def _establish(self, connection: Http1Connection, accepted: socket.socket) -> None:
        """In two steps, so that the transport below TLS is known: what waits in it counts as well."""
        try:
            made, before = await self.loop.connect_accepted_socket(PreTlsProtocol, accepted)
            connection.socket_transport = plain = cast(asyncio.Transport, made)
            transport = await self._start_tls(plain, connection, early=before.early)
        except (OSError, RuntimeError, asyncio.CancelledError):  # it went, spoke no TLS, or was dropped
            self.context.connections.remove(connection)
            return
        if transport.is_closing():
            self.context.connections.remove(connection)
            return
        connection.connection_made(transport)
        if transport is plain:
            if before.early:
                connection.data_received(before.early)
            plain.resume_reading()

    async def _start_tls(
        self, plain: asyncio.Transport, connection: Http1Connection, *, early: bytes
    ) -> asyncio.Transport:
        """TLS on it, if we have a certificate. `early` is what came before TLS was there to read it."""
        if self.certificate is None:
            plain.pause_reading()
            plain.set_protocol(connection)
            return plain
        if early:
            self.loop.call_soon(_feed_early_data, plain, early)
        secured = await self.loop.start_tls(
            plain,
            connection,
            self.certificate.current,
            server_side=True,
            ssl_handshake_timeout=self.limits.handshake_timeout,
            ssl_shutdown_timeout=self.limits.response_timeout,
        )
        if secured is None:
            raise ConnectionResetError("the caller went")
        return cast(asyncio.Transport, secured)

    # Being alive.

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._watch_signals()
        self.loop.set_exception_handler(self._log_unexpected)
        self._tick()
        self._listen()
        while not self._stop.is_set() and self.ppid == os.getppid():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.wait(), TICK_SECONDS)
            self._tick()
        await self._drain()

    def _tick(self) -> None:
        self.notify()
        self.context.date = formatdate(usegmt=True)
        self.context.connections.expire_phases()
        if self.certificate is not None:
            self.certificate.refresh()

    def _log_unexpected(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.log.error("on the loop: %s", context.get("message"), exc_info=context.get("exception"))

    def _watch_signals(self) -> None:
        self.loop.add_signal_handler(signal.SIGTERM, self._begin_to_stop)
        for number in (signal.SIGINT, signal.SIGQUIT):
            self.loop.add_signal_handler(number, self._stop_at_once)

    def _begin_to_stop(self) -> None:
        self.alive = False
        self._stop.set()

    def _stop_at_once(self) -> None:
        self.cfg.worker_int(self)
        self._begin_to_stop()
        for connection in self.context.connections:
            connection.abort()

    # Going.

    async def _drain(self) -> None:
        """Callers learn by `Connection: close` that we go; who asks nothing for a moment is closed then."""
        self.context.stopping = True
        self._stop_listening()
        for listener in self.sockets:
            listener.close()
        await self._wait_until_gone(seconds=self.limits.shutdown_notice)
        for connection in self.context.connections.in_phases(Phase.IDLE, Phase.NEW):
            connection.close()
        for connection in self.context.connections.in_phases(Phase.HANDSHAKE):
            connection.abort()
        await self._wait_until_gone(
            seconds=self.cfg.graceful_timeout - self.limits.shutdown_notice - TICK_SECONDS
        )

    async def _wait_until_gone(self, *, seconds: float) -> None:
        deadline = self.loop.time() + seconds
        while len(self.context.connections) and self.loop.time() < deadline:
            self._tick()
            await asyncio.sleep(0.02)

    def _close(self) -> None:
        self.context.large_bodies.stop()
        for connection in self.context.connections:
            connection.abort()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()


class PreTlsProtocol(asyncio.Protocol):
    """A connection of which TLS knows nothing yet: keeps what comes, and reads no more."""

    def __init__(self) -> None:
        self.early = b""
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self.early += data
        self._transport.pause_reading()


def _feed_early_data(plain: asyncio.Transport, early: bytes) -> None:
    """TLS is there by now, and begins a moment later."""
    protocol = cast(asyncio.BufferedProtocol, plain.get_protocol())
    if not plain.is_closing():
        memoryview(protocol.get_buffer(len(early)))[: len(early)] = early
        protocol.buffer_updated(len(early))


def limit_to_open_files(limits: Limits) -> Limits:
    """As many open files as the system lets us have, and no more callers than that."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    room = limits.connections if hard == resource.RLIM_INFINITY else hard - SPARE_FILES
    return replace(limits, connections=max(1, min(limits.connections, room)))
