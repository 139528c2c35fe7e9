"""The gunicorn worker: one process, one event loop, the WSGI app called inline.

gunicorn does what it is good at: listening sockets, fork, signals, heartbeat, hooks. llhttp parses, uvloop
does sockets and TLS. benchmarks/worker/ compares the result with gunicorn's own workers.

The worker uses gunicorn's settings bind, backlog, certfile, keyfile, timeout, graceful_timeout,
worker_tmp_dir, those of logging, and all hooks except pre_request and post_request. The bounds are the
application's `limits`; its `count_refusal` counts what is refused before it reaches the app; its
`client_certificates` says which clients may call. The first address of `bind` is that of the callers; any
other is for probes alone, without TLS.
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
from typing import Any

import uvloop
from gunicorn.workers.base import Worker as GunicornWorker  # type: ignore[import-untyped]

from server.http.base_connection import ConnectionContext
from server.http.connection_table import ConnectionPhase, ConnectionTable
from server.http.handshake import Certificate, Handshake, Listener
from server.http.large_bodies import LargeBodies
from server.http.limits import Limits
from server.http.refusals import Refusals
from server.http.responses import base_environ
from server.http.run_queue import RunQueue

TICK_SECONDS = 1.0  # between heartbeats, checks of time-outs and of the certificate files
SWITCH_INTERVAL = 0.0001  # seconds; a request waits for about four of them while another thread computes
ACCEPTED_AT_ONCE = 32  # then existing connections have their turn
SPARE_FILES = 128  # for everything that is not a connection
#: The size of a socket's buffers; the kernel doubles it. It is less than the loop reads at a time, so the
#: loop reads each connection once per turn; and unsent bytes in the kernel, which we cannot count, stay few.
SOCKET_BUFFER_BYTES = 96 * 1024
#: Blocked around the fork (`server.gunicorn_app`): those that end a worker.
HELD_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Worker(GunicornWorker):  # type: ignore[misc]  # gunicorn has no types
    """Serves until SIGTERM, then accepts no more connections and finishes the requests that have begun.

    Everything except hooks and large bodies (`large_bodies`) runs on the main thread. SIGINT and SIGQUIT end
    it at once.
    """

    def init_signals(self) -> None:
        super().init_signals()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD_SIGNALS)

    def run(self) -> None:
        sys.setswitchinterval(SWITCH_INTERVAL)
        self.loop = uvloop.new_event_loop()
        self.limits = limit_to_open_files(getattr(self.app, "limits", None) or Limits())
        self.certificate = self._certificate()
        self.callers = Listener(certificate=self.certificate)
        self.probes = Listener(certificate=None, probes_only=True)
        self.context = self._context(self.limits)
        for listener in self.sockets:  # accepted sockets inherit them
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
        clients = getattr(self.app, "client_certificates", None)
        return Certificate(
            certfile=Path(certfile),
            keyfile=Path(keyfile),
            log=self.log,
            client_ca=() if clients is None else clients.authorities,
            callers=None if clients is None else clients.callers,
        )

    def _context(self, limits: Limits) -> ConnectionContext:
        name = self.sockets[0].getsockname()
        host, port = name[:2] if isinstance(name, tuple) else (name, 0)
        return ConnectionContext(
            app=self.wsgi,
            limits=limits,
            connections=ConnectionTable(limits=limits, clock=self.loop.time),
            base_environ=base_environ(host=str(host), port=int(port), tls=self.cfg.is_ssl),
            log=self.log,
            run_queue=RunQueue(call_soon=self.loop.call_soon, clock=time.perf_counter),
            large_bodies=LargeBodies(call_soon_threadsafe=self.loop.call_soon_threadsafe),
            refusals=Refusals(
                count=getattr(self.app, "count_refusal", _count_nothing), log=self.log, clock=time.monotonic
            ),
            clock=self.loop.time,
            perf_counter=time.perf_counter,
        )

    # Accepting.

    def _listen(self) -> None:
        for number, listener in enumerate(self.sockets):
            kind = self.probes if number else self.callers
            self.loop.add_reader(listener.fileno(), self._accept, listener.sock, kind)

    def _stop_listening(self) -> None:
        for listener in self.sockets:
            self.loop.remove_reader(listener.fileno())

    def _accept(self, listener: socket.socket, kind: Listener) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                accepted, _ = listener.accept()
            except OSError as exc:
                if exc.errno in OUT_OF_FILES:
                    self._out_of_files(exc)
                return
            accepted.setblocking(False)
            Handshake(accepted, context=self.context, listener=kind, loop=self.loop)

    def _out_of_files(self, exc: OSError) -> None:
        """Abort one connection, and accept again a moment later, when its socket is closed."""
        self.log.error("a connection could not be accepted: %s", exc)
        self.context.connections.evict_one()
        self._stop_listening()
        self.loop.call_later(0.1, self._listen_again)

    def _listen_again(self) -> None:
        if not self.context.stopping:
            self._listen()

    # Serving.

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._watch_signals()
        if not self.alive:  # SIGTERM came before: gunicorn's own handler has noted it
            self._stop.set()
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

    # Stopping.

    async def _drain(self) -> None:
        """Tell clients to leave, by `Connection: close` or GOAWAY; then close idle connections."""
        self.context.stopping = True
        self._stop_listening()
        for listener in self.sockets:
            listener.close()
        await self._wait_until_gone(seconds=self.limits.shutdown_notice)
        for connection in self.context.connections.in_phases(ConnectionPhase.IDLE, ConnectionPhase.NEW):
            connection.close()
        for connection in self.context.connections.in_phases(ConnectionPhase.HANDSHAKE):
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


def _count_nothing(_path: str, _status: int) -> None:
    pass


def limit_to_open_files(limits: Limits) -> Limits:
    """Raise the limit of open files as far as the system allows, and bound the connections by it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    room = limits.connections if hard == resource.RLIM_INFINITY else hard - SPARE_FILES
    return replace(limits, connections=max(1, min(limits.connections, room)))
