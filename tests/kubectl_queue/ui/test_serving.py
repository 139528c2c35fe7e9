"""The socket of the page: how many connections it takes, and how it ends."""

from __future__ import annotations

import http.client
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, cast

import pytest

from kubectl_queue.access.transport import Transport
from kubectl_queue.ui.backend import STREAMS
from kubectl_queue.ui.serving import CONNECTIONS, PageServer, open_browser
from tests.support.e2e.wait import until
from tests.support.plugin.harness import item
from tests.support.ui.pages import PLACE, WatchedQueues


class Running:
    """A page that serves, over queues of values."""

    def __init__(self) -> None:
        self.api = WatchedQueues(item("root"))
        self.said: list[str] = []
        self.page = PageServer(cast(Transport, self), PLACE, port=0, say=self.said.append)
        self.thread = threading.Thread(target=self.page.run, name="serving")
        self.thread.start()

    def close(self) -> None:
        """The transport's: the watch ends with it."""
        self.api.close()

    def end(self) -> None:
        self.page._server.shutdown()
        self.thread.join()
        self.page.close()


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    made: list[Running] = []
    monkeypatch.setattr("kubectl_queue.ui.serving.Queues", lambda _: made[0].api)
    monkeypatch.setattr("kubectl_queue.ui.queue_watch.QueueWatch.start", lambda self: None)
    monkeypatch.setattr("kubectl_queue.ui.queue_watch.QueueWatch.stop", lambda self: None)
    made.append(Running())
    yield made[0]
    made[0].end()


def get(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/")
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def test_connections_beyond_the_places_are_closed_at_once(running: Running) -> None:
    port = running.page.port
    assert get(port) == 200
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
    try:
        with pytest.raises(OSError), socket.create_connection(("127.0.0.1", port), timeout=20) as one_more:
            one_more.sendall(b"GET / HTTP/1.1\r\n\r\n")
            if one_more.recv(1) == b"":
                raise ConnectionResetError
    finally:
        for each in idle:
            each.close()


class Stream:
    """One window's, as a browser opens it. `status`: of the answer."""

    def __init__(self, port: int, token: str) -> None:
        headers = (
            *("GET /api/stream HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Origin: http://127.0.0.1:{port}"),
            *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
            *("Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", f"Sec-WebSocket-Protocol: lines, {token}"),
        )
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self._socket.sendall("\r\n".join((*headers, "", "")).encode())
        self._file = self._socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])

    def first_line(self) -> bytes:
        while self._file.readline().strip():
            pass
        assert self._file.read(1) == b"\x81"
        [size] = self._file.read(1)
        return self._file.read(int.from_bytes(self._file.read(2), "big") if size == 126 else size)

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def test_sixteen_windows_have_a_stream_each_and_one_more_has_once_one_is_closed(running: Running) -> None:
    page = running.page
    token = page._keys.exchange(page._keys.code) or ""
    with ExitStack() as opened:

        def stream() -> Stream:
            return opened.enter_context(closing(Stream(page.port, token)))

        streams = [stream() for _ in range(STREAMS)]
        assert {each.status for each in streams} == {101}
        assert all(b'"age"' in each.first_line() for each in streams)
        assert stream().status == 503
        streams[0].close()
        until(lambda: stream().status == 101, "the place of the one that was closed")


def test_an_address_that_was_used_is_followed_by_another_one_in_the_terminal(running: Running) -> None:
    used = running.page.address
    code = used.partition("#")[2]
    connection = http.client.HTTPConnection("127.0.0.1", running.page.port, timeout=20)
    headers = {"Origin": used.partition("/#")[0], "Content-Type": "application/json"}
    connection.request("POST", "/api/session", f'{{"code": "{code}"}}', headers)
    assert connection.getresponse().status == 200
    connection.close()
    [said] = running.said
    assert running.page.address in said
    assert used not in said


def test_the_file_for_the_browser_goes_with_the_page(running: Running) -> None:
    assert oct(running.page.redirect_file().stat().st_mode)[-3:] == "600"
    assert running.page.address in (running.page._folder / "open.html").read_text()


def test_a_port_that_is_taken_is_an_error_and_leaves_no_folder(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError):
        PageServer(cast(Transport, None), PLACE, port=taken.getsockname()[1], say=print)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "darwin", reason="it always has a desktop")
def test_without_a_desktop_no_browser_takes_the_terminal(tmp_path: Path) -> None:
    assert open_browser(tmp_path / "open.html", environ={}) is False


class Interrupting:
    """Is interrupted while it is cleared away: Python drops what is raised there."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_no_interrupt_is_lost_while_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    api = WatchedQueues(item("root"))
    monkeypatch.setattr("kubectl_queue.ui.serving.Queues", lambda _: api)
    monkeypatch.setattr("kubectl_queue.ui.queue_watch.QueueWatch.start", lambda self: None)
    page = PageServer(cast(Transport, api), PLACE, port=0, say=print)

    def answer(request: socket.socket, _address: object) -> None:
        page._server.shutdown_request(request)
        Interrupting()

    monkeypatch.setattr(page._server, "process_request", answer)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    too_late = threading.Timer(20, page._server.shutdown)
    too_late.start()
    try:
        with socket.create_connection(("127.0.0.1", page.port)), pytest.raises(KeyboardInterrupt):
            page.run()
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        too_late.cancel()
        signal.signal(signal.SIGINT, before)
        page.close()


def test_a_page_that_was_interrupted_before_it_served_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    api = WatchedQueues(item("root"))
    monkeypatch.setattr("kubectl_queue.ui.serving.Queues", lambda _: api)
    page = PageServer(cast(Transport, api), PLACE, port=0, say=print)
    folder = page._folder
    page.close()
    assert not folder.exists()
