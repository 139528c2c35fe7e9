"""One connection over HTTP/1.1: slices of time, and clients that read slowly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from server.http.base_connection import READ_AHEAD, WRITTEN_AT_ONCE
from server.http.connection_table import ConnectionPhase
from server.http.http1_connection import Http1Connection
from server.http.limits import SLOW_READER_FACTOR
from tests.support.http.lone_connection import Alone

TOO_LARGE = b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n"


def test_an_error_found_at_the_end_of_a_slice_is_sent() -> None:
    """A caller whose slice of time ends in the middle of its work loses nothing by it."""
    alone = Alone()
    alone.receive(alone.open(Http1Connection), TOO_LARGE)
    assert alone.transport.written.startswith(b"HTTP/1.1 413 ")


def test_after_a_refusal_what_still_comes_is_read_and_dropped() -> None:
    """Or the client could not finish its request to read the refusal, nor would its close be seen."""
    alone = Alone()
    connection = alone.open(Http1Connection)
    alone.receive(connection, TOO_LARGE + b"x" * (4 * READ_AHEAD))
    assert alone.transport.written.startswith(b"HTTP/1.1 413 ")
    assert alone.context.connections.phase(connection) is ConnectionPhase.LINGERING
    connection.data_received(b"x" * (READ_AHEAD + 1))
    assert (alone.transport.reading, alone.turns) == ([True, False, True], [])


def test_a_response_that_is_read_slowly_ends_the_connection() -> None:
    """However often the client takes a piece of it: so long a response may take, and no longer."""
    alone = Alone(huge)
    connection = alone.open(Http1Connection)
    alone.transport.on_write = connection.pause_writing
    alone.receive(connection, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    longest = SLOW_READER_FACTOR * alone.context.limits.response_timeout
    sizes = []
    for alone.now in (longest - 1, longest + 1):
        assert not alone.transport.aborted
        connection.resume_writing()
        sizes.append(len(alone.transport.written))
    assert alone.transport.aborted
    assert sizes == [2 * WRITTEN_AT_ONCE] * 2


def huge(_: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
    start("200 OK", [])
    return [b"x" * (5 * WRITTEN_AT_ONCE)]
