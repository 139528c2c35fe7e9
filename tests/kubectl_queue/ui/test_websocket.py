"""The WebSocket of the stream: what it takes for a handshake, what it sends, and when it ends."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubectl_queue.ui.websocket import accepted, is_asked, serve, text_frame, token_of
from tests.support.cases import each_case
from tests.support.examples import examples

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
ASKED = {
    "Connection": "keep-alive, Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": KEY,
    "Sec-WebSocket-Protocol": "lines, abc-_1",
}


def test_a_key_is_answered_as_the_standard_says() -> None:
    """RFC 6455, 1.3."""
    assert accepted(KEY) == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@each_case(
    ("changed", "asked"),
    [
        ({}, True),
        ({"Upgrade": "WebSocket"}, True),
        ({"Connection": "upgrade"}, True),
        ({"Connection": "close"}, False),
        ({"Upgrade": "h2c"}, False),
        ({"Sec-WebSocket-Version": "8"}, False),
        ({"Sec-WebSocket-Key": "c2hvcnQ="}, False),
        ({"Sec-WebSocket-Key": KEY + "\u00e9"}, False),
        ({"Sec-WebSocket-Key": ""}, False),
        ({"Sec-WebSocket-Protocol": "graphql"}, False),
    ],
)
def test_a_handshake_is_whole_or_none(changed: dict[str, str], asked: bool) -> None:
    assert is_asked({**ASKED, **changed}) is asked


@each_case(
    ("protocol", "token"),
    [
        ("lines, abc-_1", "abc-_1"),
        ("lines,abc", "abc"),
        ("lines", ""),
        ("other, abc", ""),
        ("lines, a, b", ""),
        ("", ""),
    ],
)
def test_the_token_stands_behind_the_subprotocol(protocol: str, token: str) -> None:
    assert token_of({"Sec-WebSocket-Protocol": protocol}) == token


@each_case("size", [0, 1, 125, 126, 65_535, 65_536])
def test_a_message_says_how_long_it_is(size: int) -> None:
    frame = text_frame(b"x" * size)
    assert frame[0] == 0x81
    assert _texts(frame) == [b"x" * size]


def _texts(stream: bytes) -> list[bytes]:
    """The messages, as a browser reads them."""
    texts = []
    while stream and stream[0] == 0x81:
        size, start = stream[1], 2
        if size > 125:
            start = 4 if size == 126 else 10
            size = int.from_bytes(stream[2:start], "big")
        texts.append(stream[start : start + size])
        stream = stream[start + size :]
    assert stream in {b"", bytes((0x88, 0))}
    return texts


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        theirs.settimeout(20)
        yield ours, theirs


def test_all_texts_are_sent_and_then_it_is_closed(ends: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = ends
    serve(ours, ASKED, [b"one", b"two"])
    head, _, rest = b"".join(iter(lambda: theirs.recv(65536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    assert b"\r\nSec-WebSocket-Protocol: lines\r\n" in head, "the token is not repeated"
    assert _texts(rest) == [b"one", b"two"]


@pytest.mark.parametrize("said", [bytes((0x88, 0x80, 0, 0, 0, 0)), b""])
def test_a_window_that_is_closed_is_sent_nothing_more(
    ends: tuple[socket.socket, socket.socket], said: bytes
) -> None:
    """By its word, or since its connection has ended."""
    ours, theirs = ends
    made: list[int] = []

    def texts() -> Iterator[bytes]:
        for number in range(1000):
            made.append(number)
            yield b"line"
            if number == 0:
                theirs.sendall(said) if said else theirs.close()

    serve(ours, ASKED, texts())
    assert made == [0, 1]


@examples(100)
@given(st.lists(st.binary(min_size=1, max_size=200), max_size=4))
def test_whatever_else_a_window_says_is_passed_over(said: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with closing(ours), closing(theirs):
        for each in said:
            theirs.sendall(bytes((each[0] & 0xF0 | 0x01,)) + each[1:])
        serve(ours, ASKED, [b"one", b"two"])
        theirs.settimeout(20)
        _, _, rest = b"".join(iter(lambda: theirs.recv(65536), b"")).partition(b"\r\n\r\n")
        assert _texts(rest) == [b"one", b"two"]
