"""One connection over HTTP/2: when it is ended although its client is active."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tests.support.http.http2_frames_out as frames
from server.http.http2.connection import EXPIRY_CHECK_SECONDS, Http2Connection
from server.http.http2.frame_reader import Kind
from tests.support.http.http2_caller import Words, only
from tests.support.http.lone_connection import Alone


def answer(_: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
    start("200 OK", [])
    return [b"answer"]


def last_answer(_: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
    start("200 OK", [("Connection", "close")])
    return [b"answer"]


def test_a_client_that_opens_no_window_is_ended_whatever_else_it_sends() -> None:
    alone, words = Alone(answer), Words()
    connection = alone.open(Http2Connection)
    alone.receive(connection, words.greeting(INITIAL_WINDOW_SIZE=0) + words.ask(1))
    timeout = alone.context.limits.response_timeout
    for alone.now in (timeout - EXPIRY_CHECK_SECONDS, timeout + EXPIRY_CHECK_SECONDS):
        assert not alone.transport.aborted
        alone.receive(connection, frames.frame(Kind.PING, 0, 0, b"12345678"))
    assert alone.transport.aborted


def test_an_answer_that_closes_the_connection_says_so_and_the_next_request_is_not_taken() -> None:
    """The app wants it while it is not ready: the client's next request may reach another replica."""
    alone, words = Alone(last_answer), Words()
    connection = alone.open(Http2Connection)
    alone.receive(connection, words.greeting() + words.ask(1))
    alone.receive(connection, words.ask(3))
    heard = words.read(alone.transport.written)
    assert [stream for _, _, stream, _ in only(Kind.HEADERS, heard)] == [1]
    assert [payload for _, _, _, payload in only(Kind.DATA, heard)] == [b"answer"]
    assert len(only(Kind.GOAWAY, heard)) == 1
