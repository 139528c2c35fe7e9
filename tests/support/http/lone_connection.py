"""One connection of the worker: no loop, a clock that a test moves, a transport that keeps everything."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

from server.http.base_connection import BaseConnection, ConnectionContext
from server.http.connection_table import ConnectionPhase, ConnectionTable
from server.http.large_bodies import LargeBodies
from server.http.limits import Limits
from server.http.refusals import Refusals
from server.http.responses import WsgiApp
from server.http.run_queue import RunQueue

AnyConnection = TypeVar("AnyConnection", bound=BaseConnection)


class RecordingTransport(asyncio.Transport):
    """Takes everything at once, keeps it, and says so."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reading = [True]
        self.aborted = False
        self.on_write: Callable[[], object] = bool

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)
        self.on_write()

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.aborted

    def close(self) -> None:
        """It is never asked whether it did."""

    def abort(self) -> None:
        self.aborted = True

    def pause_reading(self) -> None:
        self.reading.append(False)

    def resume_reading(self) -> None:
        self.reading.append(True)


def nothing(_environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
    start("200 OK", [])
    return []


class Alone:
    """What a connection shares with others, without any other. Every slice of time ends at once."""

    def __init__(self, app: WsgiApp = nothing) -> None:
        self.now = 0.0
        self.turns: list[Any] = []
        self.transport = RecordingTransport()
        seconds = itertools.count()
        log = logging.getLogger("test")
        self.context = ConnectionContext(
            app=app,
            limits=Limits(),
            connections=ConnectionTable(limits=Limits(), clock=lambda: self.now),
            base_environ={},
            log=log,
            run_queue=RunQueue(call_soon=self.turns.append, clock=lambda: float(next(seconds))),
            large_bodies=LargeBodies(call_soon_threadsafe=self.turns.append),
            refusals=Refusals(count=lambda _path, _status: None, log=log, clock=lambda: self.now),
            clock=lambda: self.now,
            perf_counter=lambda: float(next(seconds)),
        )

    def open(self, kind: type[AnyConnection]) -> AnyConnection:
        connection = kind(context=self.context, environ={}, socket_transport=self.transport)
        self.context.connections.set_phase(connection, ConnectionPhase.HANDSHAKE)
        connection.connection_made(self.transport)
        return connection

    def receive(self, connection: BaseConnection, data: bytes) -> None:
        """And work until nothing is left to do."""
        connection.data_received(data)
        while self.turns:
            cast(Any, self.turns.pop(0))()
