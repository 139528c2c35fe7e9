"""The worker speaks HTTP/2 with whoever calls it by a name: many requests at once over one connection."""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.support.http.http2_frames_out as frames
from server.http.http2.frame_reader import (
    END_STREAM,
    PREFACE,
    Kind,
)
from tests.support.http.http2_caller import Words
from tests.support.http.served_worker import (
    HUGE,
    WAIT,
    Served,
    seen,
    served,
)


class Caller:
    """One connection of HTTP/2. Use with `with`."""

    def __init__(self, server: Served, *, name: str | None = "localhost") -> None:
        context = ssl.create_default_context(cafile=server.certfile)
        context.check_hostname = name is not None
        context.set_alpn_protocols(["h2", "http/1.1"])
        plain = socket.create_connection(("127.0.0.1", server.port), timeout=WAIT)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.line = context.wrap_socket(plain, server_hostname=name)
        self.speaks = self.line.selected_alpn_protocol()
        self.words = Words()
        #: Of each stream: its status, then its body.
        self.status: dict[int, str] = {}
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.resets: list[int] = []
        self.gone = False

    def __enter__(self) -> Caller:
        return self

    def __exit__(self, *_: object) -> None:
        self.line.close()

    def greet(self) -> Caller:
        self.send(self.words.greeting())
        return self

    def send(self, *data: bytes) -> None:
        self.line.sendall(b"".join(data))

    def hear(self) -> bool:
        """Whatever comes next, windows kept open; False at the end."""
        try:
            data = self.line.recv(65_536)
        except (ConnectionResetError, ssl.SSLEOFError):
            return False
        for kind, flags, stream, payload in self.words.read(data):
            if kind == Kind.HEADERS:
                self.status[stream] = self.words.fields(payload)[":status"]
            elif kind == Kind.DATA:
                self.bodies[stream] = self.bodies.get(stream, b"") + payload
                self.send(frames.window_update(0, len(payload)), frames.window_update(stream, len(payload)))
            elif kind == Kind.RST_STREAM:
                self.resets.append(stream)
            elif kind == Kind.GOAWAY:
                self.gone = True
            if kind in (Kind.HEADERS, Kind.DATA) and flags & END_STREAM:
                self.ended.add(stream)
        return bool(data)

    def answer(self, stream: int) -> tuple[str, bytes]:
        while stream not in self.ended:
            assert self.hear(), f"no answer to {stream}"
        return self.status[stream], self.bodies.get(stream, b"")

    def at_end(self) -> bool:
        while self.hear():
            pass
        return True


@pytest.fixture
def caller(server: Served) -> Iterator[Caller]:
    with Caller(server) as connected:
        yield connected.greet()


def test_http2_is_offered_to_clients_by_name_and_not_by_address(server: Served) -> None:
    """kube-scheduler knows an address; one call after the other is answered sooner over HTTP/1.1."""
    with Caller(server) as named, Caller(server, name=None) as addressed:
        assert (named.speaks, addressed.speaks) == ("h2", "http/1.1")


def test_the_app_sees_a_request_as_any_other(caller: Caller) -> None:
    caller.send(caller.words.ask(1, "/a%20b?c=d", body=b"body"))
    status, body = caller.answer(1)
    asked = seen(body)
    assert (status, asked["body"], asked["read"]) == ("200", "body", 4)
    environ = asked["environ"]
    assert (environ["PATH_INFO"], environ["QUERY_STRING"], environ["SERVER_PROTOCOL"]) == (
        "/a b",
        "c=d",
        "HTTP/2",
    )
    assert (environ["CONTENT_LENGTH"], environ["HTTP_HOST"]) == ("4", "localhost")


def test_many_requests_go_over_one_connection(caller: Caller) -> None:
    numbers = range(1, 401, 2)
    caller.send(*(caller.words.ask(number, body=str(number).encode()) for number in numbers))
    assert [seen(caller.answer(number)[1])["body"] for number in numbers] == [
        str(number) for number in numbers
    ]


def test_a_huge_answer_comes_as_there_is_room_for_it(caller: Caller) -> None:
    caller.send(caller.words.ask(1, "/huge"), caller.words.ask(3))
    assert caller.answer(3)[0] == "200"
    assert len(caller.answer(1)[1]) == HUGE


@pytest.mark.parametrize("path", ["/raise", "/break"])
def test_an_app_that_fails_tells_the_log_everything_and_the_caller_nothing(
    server: Served, caller: Caller, path: str
) -> None:
    caller.send(caller.words.ask(1, path))
    status, body = caller.answer(1)
    assert status == "500"
    assert b"secret" not in body
    server.log.wait_for(f"the app failed at POST {path}")


def test_a_head_has_no_body(caller: Caller) -> None:
    caller.send(caller.words.ask(1, method="HEAD"))
    assert caller.answer(1) == ("200", b"")


def test_a_body_that_is_too_long_is_answered_so(caller: Caller) -> None:
    caller.send(caller.words.ask(1, body=b"x" * 100_001))
    status, body = caller.answer(1)
    assert (status, json.loads(body)["message"]) == ("413", "the body may have 100000 bytes")
    caller.send(caller.words.ask(3))
    assert caller.answer(3)[0] == "200"


def test_each_path_has_its_body_limit(certificate: tuple[Path, Path]) -> None:
    """One of 1.1 MiB is an honest review, and too long for whatever takes none."""
    with served(certificate) as server, Caller(server) as caller:
        caller.greet()
        for stream, path, expected in ((1, "/mutate/pods?timeout=5s", "200"), (3, "/metrics", "413")):
            caller.send(caller.words.ask(stream, path, body=b"x" * 1_150_000))
            assert caller.answer(stream)[0] == expected


def test_a_protocol_error_is_answered_with_goaway_and_the_connection_closed(server: Served) -> None:
    with Caller(server) as caller:
        caller.greet().send(frames.frame(Kind.PING, 0, 0, b"short"))
        assert caller.at_end()
        assert caller.gone


def test_an_unfinished_request_does_not_keep_others_waiting(certificate: tuple[Path, Path]) -> None:
    with served(certificate, request_timeout=1.0) as server, Caller(server) as caller:
        caller.greet().send(frames.headers(1, caller.words.block(), ends=False))
        caller.send(caller.words.ask(3))
        assert caller.answer(3)[0] == "200"
        number = 3
        while not caller.resets:
            number += 2
            caller.send(caller.words.ask(number))
            assert caller.answer(number)[0] == "200"
        assert caller.resets == [1]


@pytest.mark.parametrize("begun", [b"PRI * HT", PREFACE + b"\0\0"], ids=["a preface", "a frame"])
def test_a_client_that_stops_in_the_middle_is_disconnected(
    certificate: tuple[Path, Path], begun: bytes
) -> None:
    with served(certificate, request_timeout=1.0) as server, Caller(server) as caller:
        caller.send(begun)
        assert caller.at_end()


def test_a_connection_that_has_lasted_long_is_ended_after_an_answer(certificate: tuple[Path, Path]) -> None:
    """What comes with the greeting is of the same moment; what comes after it would find the end."""
    with served(certificate, connection_age=-1.0) as server, Caller(server) as caller:
        caller.send(caller.words.greeting(), caller.words.ask(1))
        assert caller.answer(1)[0] == "200"
        assert caller.at_end()
        assert caller.gone


def test_a_client_that_opens_no_window_is_disconnected(certificate: tuple[Path, Path]) -> None:
    with served(certificate, response_timeout=1.0) as server, Caller(server) as caller:
        caller.send(caller.words.greeting(INITIAL_WINDOW_SIZE=0), caller.words.ask(1))
        assert caller.at_end()
        assert caller.status == {1: "200"}
        assert caller.bodies == {}


def test_a_stopping_server_finishes_requests_that_have_begun(
    certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    with served(certificate) as server, Caller(server) as caller:
        caller.greet().send(caller.words.ask(1))
        assert caller.answer(1)[0] == "200"
        caller.send(frames.headers(3, caller.words.block(), ends=False), frames.data(3, b"be", ends=False))
        caller.send(caller.words.ask(5))
        assert caller.answer(5)[0] == "200"
        server.terminate()
        server.log.wait_for("Handling signal: term")
        caller.send(frames.data(3, b"gun", ends=True))
        assert seen(caller.answer(3)[1])["body"] == "begun"
        assert caller.at_end()
        assert caller.gone
