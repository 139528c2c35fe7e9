"""A caller whose slice of time ends in the middle of its work loses nothing by it."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any, cast

from server.http.base_connection import READ_AHEAD, ConnectionContext
from server.http.connection_table import ConnectionTable, Phase
from server.http.http1_connection import Http1Connection
from server.http.large_bodies import LargeBodies
from server.http.limits import Limits
from server.http.refusals import Refusals
from server.http.run_queue import RunQueue


class RecordingTransport(asyncio.Transport):
    """Takes everything at once, and keeps it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.reading = [True]

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        """It is never asked whether it did."""

    def pause_reading(self) -> None:
        self.reading.append(False)

    def resume_reading(self) -> None:
        self.reading.append(True)


def context_where_every_slice_ends_at_once(turns: list[Any]) -> ConnectionContext:
    seconds = itertools.count()
    return ConnectionContext(
        app=lambda environ, start_response: [],
        limits=Limits(),
        connections=ConnectionTable(limits=Limits(), clock=lambda: 0.0),
        base_environ={},
        log=logging.getLogger("test"),
        run_queue=RunQueue(call_soon=turns.append, clock=lambda: float(next(seconds))),
        large_bodies=LargeBodies(call_soon_threadsafe=turns.append),
        refusals=Refusals(
            count=lambda _path, _status: None, log=logging.getLogger("test"), clock=lambda: 0.0
        ),
        clock=lambda: 0.0,
        perf_counter=lambda: float(next(seconds)),
    )


def test_an_error_found_at_the_end_of_a_slice_is_sent() -> None:
    turns: list[Any] = []
    context = context_where_every_slice_ends_at_once(turns)
    transport = RecordingTransport()
    connection = Http1Connection(context=context, environ={}, socket_transport=transport)
    context.connections.set_phase(connection, Phase.HANDSHAKE)
    connection.connection_made(transport)
    connection.data_received(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n")
    while turns:
        cast(Any, turns.pop(0))()
    assert transport.written.startswith(b"HTTP/1.1 413 ")


def test_after_a_refusal_what_still_comes_is_read_and_dropped() -> None:
    """Or the client could not finish its request to read the refusal, nor would its close be seen."""
    turns: list[Any] = []
    context = context_where_every_slice_ends_at_once(turns)
    transport = RecordingTransport()
    connection = Http1Connection(context=context, environ={}, socket_transport=transport)
    context.connections.set_phase(connection, Phase.HANDSHAKE)
    connection.connection_made(transport)
    head = b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n"
    connection.data_received(head + b"x" * (4 * READ_AHEAD))
    while turns:
        cast(Any, turns.pop(0))()
    assert transport.written.startswith(b"HTTP/1.1 413 ")
    assert context.connections.phase(connection) is Phase.LINGERING
    connection.data_received(b"x" * (READ_AHEAD + 1))
    assert (transport.reading, turns) == ([True, False, True], [])
