"""Threads share a transport: each request has a connection of its own, and `close` ends all of them."""

from __future__ import annotations

import os
import socketserver
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kubectl_queue.access.kubectl import KubectlProxy
from kubectl_queue.access.responses import ApiRequest, ApiResponse
from kubectl_queue.access.transport import Transport
from kubectl_queue.errors import ClosedError, QueueError, UnreachableError

#: Seconds that nothing takes: a test that waits so long fails. Less than the pause that `busy` asks for.
LONG = 20.0


class Server(socketserver.ThreadingUnixStreamServer):
    """Answers by path, and keeps which connection each request came on."""

    daemon_threads = True

    def __init__(self, path: str) -> None:
        super().__init__(path, Handler)
        self.connections: list[tuple[str, int]] = []
        self.meeting = threading.Barrier(2)
        #: Set by the server once it holds an answer back, and by the test to let it go.
        self.held, self.go = threading.Event(), threading.Event()

    def connections_of(self, path: str) -> set[int]:
        return {connection for asked, connection in self.connections if asked == path}

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are what these tests are about."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.connections.append((self.path, id(self)))
        getattr(self, self.path.strip("/"))()

    def do_PATCH(self) -> None:
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def quick(self) -> None:
        self._answer(200, b'{"kind":"Queue"}')

    def meet(self) -> None:
        """Answer once another request is there too."""
        self.server.meeting.wait(LONG)
        self.quick()

    def hold(self) -> None:
        self.server.held.set()
        self.server.go.wait(LONG)
        self.quick()

    def broken(self) -> None:
        self.close_connection = True

    def busy(self) -> None:
        self._answer(429, b"", **{"Retry-After": "30"})
        self.server.held.set()

    def watch(self) -> None:
        """One line, and no end."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b"6\r\nfirst\n\r\n")
        self.server.go.wait(LONG)

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(str(tmp_path / "api")) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        yield server
        server.go.set()
        server.shutdown()
        serving.join()


@pytest.fixture
def transport(server: Server) -> Iterator[Transport]:
    proxy = cast("KubectlProxy", SimpleNamespace(socket=lambda: server.server_address))
    transport = Transport(proxy, timeout=LONG)
    yield transport
    transport.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def request(path: str, method: str = "GET") -> ApiRequest:
    return ApiRequest(method=method, path=path, query={})


def test_requests_at_one_time_have_a_connection_each_and_both_are_kept(
    server: Server, transport: Transport, threads: ThreadPoolExecutor
) -> None:
    for _ in range(2):
        answers = list(threads.map(transport.send, [request("/meet")] * 2))
        assert [answer.status for answer in answers] == [200, 200]
    opened = server.connections_of("/meet")
    assert len(opened) == 2
    for _ in range(3):
        transport.send(request("/quick"))
    assert server.connections_of("/quick") < opened


def test_an_error_of_one_thread_leaves_the_others_alone(
    server: Server, transport: Transport, threads: ThreadPoolExecutor
) -> None:
    waiting = threads.submit(transport.send, request("/hold"))
    assert server.held.wait(LONG)
    with pytest.raises(UnreachableError):
        transport.send(request("/broken"))
    server.go.set()
    assert waiting.result(LONG).status == 200
    assert transport.send(request("/quick")).status == 200
    assert server.connections_of("/broken").isdisjoint(server.connections_of("/quick"))


def watched(transport: Transport, seen: Callable[[bytes | ApiResponse], None]) -> None:
    for line in transport.stream(request("/watch"), silence=LONG):
        seen(line)


def test_close_ends_a_watch_that_is_blocked_and_a_write_goes_on_beside_it_until_then(
    transport: Transport, threads: ThreadPoolExecutor
) -> None:
    first: Future[bytes | ApiResponse] = Future()
    watching = threads.submit(watched, transport, first.set_result)
    assert first.result(LONG) == b"first\n"
    assert transport.send(request("/quick", "PATCH")).status == 200
    transport.close()
    with pytest.raises(ClosedError):
        watching.result(LONG)


@pytest.mark.parametrize("path", ["/hold", "/busy"], ids=["for its answer", "to ask again"])
def test_close_ends_a_request_that_waits(
    server: Server, transport: Transport, threads: ThreadPoolExecutor, path: str
) -> None:
    waiting = threads.submit(transport.send, request(path, "PATCH"))
    assert server.held.wait(LONG)
    transport.close()
    with pytest.raises(ClosedError, match="whether it took the change is not known"):
        waiting.result(LONG)


def test_nothing_is_sent_once_it_is_closed(server: Server, transport: Transport) -> None:
    transport.close()
    with pytest.raises(ClosedError):
        transport.send(request("/quick"))
    with pytest.raises(ClosedError):
        watched(transport, lambda _: None)
    assert server.connections == []


@pytest.fixture
def kubectl(tmp_path: Path) -> KubectlProxy:
    """A kubectl that serves once a line is in the pipe `go`."""
    os.mkfifo(tmp_path / "go")
    script = tmp_path / "kubectl"
    script.write_text(
        f'#!/bin/sh\nread line <{tmp_path}/go\necho "Starting to serve on x"\nexec cat {tmp_path}/go\n'
    )
    script.chmod(0o755)
    return KubectlProxy((), environ={"PATH": f"{tmp_path}:{os.environ['PATH']}"})


def test_all_threads_that_wait_for_kubectl_go_on_when_it_serves(
    kubectl: KubectlProxy, tmp_path: Path, threads: ThreadPoolExecutor
) -> None:
    waiting = [threads.submit(kubectl.socket) for _ in range(3)]
    (tmp_path / "go").write_text("now\n")
    assert len({each.result(LONG) for each in waiting}) == 1
    kubectl.close()


def test_who_waits_for_kubectl_is_woken_when_it_is_closed(
    kubectl: KubectlProxy, threads: ThreadPoolExecutor
) -> None:
    waiting = threads.submit(kubectl.socket)
    kubectl.close()
    with pytest.raises(QueueError, match="kubectl ended before it served"):
        waiting.result(LONG)
