"""Answers that nobody takes are kept up to a bound, over either protocol, the transport's part included."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import tests.support.http.http2_frames_out as frames
from tests.support.http.http2_caller import Words
from tests.support.http.served_worker import (
    HUGE,
    WAIT,
    Served,
    request,
    served,
    trusting,
)
from tests.support.http.worker_process import memory, worker_of

CALLERS, OWED = 60, 20_000_000
#: What one answer takes while it is made and encrypted, and what the kernel's counting lags behind.
SLACK = 8 * HUGE

Asking = Callable[[], bytes]


def over_http1() -> bytes:
    return request("/huge") * 3


def over_http2() -> bytes:
    """With all the room there can be."""
    words = Words()
    room = words.greeting(INITIAL_WINDOW_SIZE=frames.LARGEST_WINDOW)
    room += frames.window_update(0, frames.LARGEST_WINDOW - frames.FIRST_WINDOW)
    return room + b"".join(words.ask(number, "/huge") for number in (1, 3, 5))


@contextmanager
def deaf(server: Served, asked: bytes, *, protocol: str) -> Iterator[ssl.SSLSocket]:
    """A caller that asks, and reads nothing of what it is answered."""
    context = trusting(server.certfile)
    context.set_alpn_protocols([protocol])
    with socket.socket() as plain:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        plain.settimeout(WAIT)
        plain.connect(("127.0.0.1", server.port))
        with context.wrap_socket(plain, server_hostname="localhost") as line:
            line.sendall(asked)
            yield line


@pytest.mark.parametrize(
    ("protocol", "asking"), [("http/1.1", over_http1), ("h2", over_http2)], ids=["HTTP/1.1", "HTTP/2"]
)
def test_unread_responses_are_kept_up_to_a_bound(
    certificate: tuple[Path, Path], protocol: str, asking: Callable[[], bytes]
) -> None:
    with (
        served(certificate, unsent_response_bytes=OWED) as server,
        server.caller() as other,
        ExitStack() as all_of_them,
    ):
        worker = worker_of(server)
        other.ask("/huge")
        before = memory(worker)
        for _ in range(CALLERS):
            all_of_them.enter_context(deaf(server, asking(), protocol=protocol))
            assert other.ask()[0] == 200
        assert len(other.ask("/huge")[2]) == HUGE, "who takes its answer gets it"
        assert memory(worker) - before <= OWED + SLACK


def test_a_slow_reader_gets_its_whole_response(certificate: tuple[Path, Path]) -> None:
    """It waits here rather than in the transport, and in its order."""
    asked = request("/huge") + request(body=b"after")
    with served(certificate) as server, deaf(server, asked, protocol="http/1.1") as line:
        answer = b""
        while b"after" not in answer[-2_000:]:
            answer += line.recv(100_000)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert b"x" * HUGE in answer
