"""One connection, against a server that says what it is told, byte by byte."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes.client import Configuration

from cluster.api import client as client_module
from cluster.api.client import TOKEN_SECONDS, Client
from cluster.api.connection import (
    HEAD_LIMIT,
    KEEPALIVE_OPTIONS,
    parse_target,
)
from cluster.exceptions import ClusterError, ConfigurationError, Unreachable
from tests.support.cases import each_case

#: As good as never, for what must not be waited for.
LATE = 600.0
PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Sayings:
    """Answers the n-th request with the n-th text, and hangs up after those that end with `HANG_UP`."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.texts: list[bytes] = []
        self.asked: list[bytes] = []
        self.connections = 0
        #: Set whenever it has hung up.
        self.hung_up = threading.Event()
        self._open: socket.socket | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """Whoever is still connected, too: a client keeps its connection as long as it lives."""
        for each in (self._listening, self._open):
            with contextlib.suppress(OSError):
                if each is not None:
                    each.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(timeout=10)

    def _run(self) -> None:
        while True:
            try:
                accepted, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            self._open = accepted
            with accepted, contextlib.suppress(OSError):  # whoever asked may go in the middle
                while asked := accepted.recv(65_536):
                    self.asked.append(asked)
                    text = self.texts.pop(0)
                    accepted.sendall(text.removesuffix(HANG_UP))
                    if text.endswith(HANG_UP):
                        break
            self.hung_up.set()


HANG_UP = b"<hang up>"


@pytest.fixture
def server() -> Iterator[Sayings]:
    made = Sayings()
    yield made
    made.close()


@pytest.fixture
def client(server: Sayings) -> Iterator[Client]:
    """Gone before its server is."""
    settings = Configuration()
    settings.host = server.url
    made = [Client(settings)]
    yield made[0]
    made[0]._idle.clear()


def test_a_connection_is_asked_again(client: Client, server: Sayings) -> None:
    server.texts = [PLAIN, PLAIN]
    assert (client.get("/a"), client.get("/b"), server.connections) == (b"{}", b"{}", 1)


def test_the_kernel_ends_one_whose_other_end_is_gone_without_a_word(client: Client, server: Sayings) -> None:
    """Else a write on it, the guard's label for one, waits for its answer for half a minute."""
    server.texts = [PLAIN]
    client.get("/a")
    made = client._idle[-1]._socket
    assert made is not None
    assert made.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    options = {name: made.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in KEEPALIVE_OPTIONS}
    assert options == KEEPALIVE_OPTIONS
    assert options["TCP_USER_TIMEOUT"] <= 5_000
    assert options["TCP_KEEPIDLE"] + options["TCP_KEEPCNT"] * options["TCP_KEEPINTVL"] < 10


def test_one_that_is_said_to_be_over_is_not(client: Client, server: Sayings) -> None:
    server.texts = [b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}", PLAIN]
    assert (client.get("/a"), client.get("/b"), server.connections) == (b"{}", b"{}", 2)


def test_nor_one_that_was_ended_while_nobody_used_it(client: Client, server: Sayings) -> None:
    server.texts = [PLAIN + HANG_UP, PLAIN]
    assert client.get("/a") == b"{}"
    assert server.hung_up.wait(10)
    assert (client.get("/b"), server.connections) == (b"{}", 2)


def test_nor_one_whose_answer_was_not_read_to_its_end(client: Client, server: Sayings) -> None:
    server.texts = [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}" + HANG_UP, PLAIN]
    with pytest.raises(Unreachable, match="GET /a: the connection was cut"):
        client.get("/a")
    assert (client.get("/b"), server.connections) == (b"{}", 2)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n", b"{}"),
        (b"HTTP/1.1 100 Continue\r\nA: b\r\n\r\n" + PLAIN, b"{}"),
        (b"HTTP/1.1 200 OK\r\n\r\n{}" + HANG_UP, b"{}"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
    ids=["in chunks", "after a word that it will come", "until the end", "none"],
)
def test_where_a_body_ends(client: Client, server: Sayings, text: bytes, body: bytes) -> None:
    server.texts = [text, PLAIN]
    assert (client.get("/a"), client.get("/b")) == (body, b"{}")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        (b"nonsense\r\n\r\n", "HTTP"),
        (PLAIN + PLAIN, "an answer too many"),
        (PLAIN + PLAIN[:20], "an answer too many"),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 3_000, "the head of the answer has more than"),
        (
            b"HTTP/1.1 200 OK\r\nA: " + b"a" * 2 * HEAD_LIMIT + b"\r\n\r\n",
            "the head of the answer has more than",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "chunk size"),
        (b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n", "another protocol"),
    ],
    ids=[
        "no HTTP",
        "one too many",
        "a part of one",
        "words without end",
        "a huge head",
        "no chunk",
        "an upgrade",
    ],
)
def test_what_is_no_answer(client: Client, server: Sayings, text: bytes, fault: str) -> None:
    server.texts = [text, PLAIN]
    with pytest.raises(Unreachable, match=fault):
        client.get("/a")
    assert (client.get("/b"), server.connections) == (b"{}", 2), "what comes after it is read by nobody"


@pytest.mark.parametrize("reads", [0, 1], ids=["on a new connection", "on a reused one"])
def test_a_write_that_is_not_answered_is_sent_once(client: Client, server: Sayings, reads: int) -> None:
    """Some clients, libcurl for one, send it again when a reused connection is closed without an answer."""
    server.texts = [PLAIN] * reads + [HANG_UP, PLAIN]
    for _ in range(reads):
        client.get("/a")
    with pytest.raises(Unreachable):
        client.create("/b", {})
    assert [asked.partition(b" ")[0] for asked in server.asked] == [b"GET"] * reads + [b"POST"]


def test_another_thread_ends_a_handshake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "CONNECT_SECONDS", LATE)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = Configuration()
        settings.host = f"https://127.0.0.1:{silent.getsockname()[1]}"
        settings.verify_ssl = False
        client = Client(settings).interruptible()
        sent: list[bytes] = []

        def interrupt() -> None:
            accepted, _ = silent.accept()
            with accepted:
                sent.append(accepted.recv(1))  # the handshake has begun
                client.interrupt()

        thread = threading.Thread(target=interrupt)
        thread.start()
        began = time.monotonic()
        with pytest.raises(Unreachable):
            client.get("/a")
        assert time.monotonic() - began < LATE / 2
        thread.join(timeout=10)
        assert sent == [b"\x16"]  # TLS


def test_an_answer_in_an_encoding_was_not_asked_for(client: Client, server: Sayings) -> None:
    server.texts = [b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx"]
    with pytest.raises(Unreachable, match=r"encoded \(br\)"):
        client.get("/a")


def test_what_a_request_cannot_hold_does_not_get_into_it(client: Client, server: Sayings) -> None:
    server.texts = [PLAIN]
    client.get("/a b\r\nX: y/ü", limit=1)
    assert server.asked[0].startswith(b"GET /a%20b%0D%0AX:%20y/%C3%BC?limit=1 HTTP/1.1\r\nHost: 127.0.0.1:")


def test_a_token_with_a_line_break_is_not_sent(server: Sayings) -> None:
    settings = Configuration()
    settings.host = server.url
    settings.api_key["authorization"] = "a\r\nX: y"
    with pytest.raises(ConfigurationError, match="the token"):
        Client(settings).get("/a")
    assert server.asked == []


@pytest.mark.parametrize("refresh", [OSError("no such file"), ValueError("empty")], ids=repr)
def test_a_token_that_cannot_be_had_is_worth_another_try(server: Sayings, refresh: Exception) -> None:
    def fail(_: Configuration) -> None:
        raise refresh

    settings: Any = Configuration()  # its types say that a hook is None
    settings.host = server.url
    settings.refresh_api_key_hook = fail
    client = Client(settings)
    with pytest.raises(Unreachable, match="the token for the API server"):
        client.get("/a")
    settings.refresh_api_key_hook = lambda held: held.api_key.update(authorization="had")
    server.texts = [PLAIN]
    assert client.get("/a") == b"{}"
    assert b"Authorization: had\r\n" in server.asked[0]


def test_a_token_is_asked_for_once_in_a_while_and_a_new_one_is_used(
    server: Sayings, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def renew(held: Configuration) -> None:
        asked.append(held)
        held.api_key["authorization"] = f"token-{len(asked)}"

    settings: Any = Configuration()  # its types say that a hook is None
    settings.host = server.url
    settings.refresh_api_key_hook = renew
    server.texts = [PLAIN] * 3
    client = Client(settings)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    client.get("/a")
    client.get("/b")
    monkeypatch.setattr(time, "monotonic", lambda: now + TOKEN_SECONDS)
    client.get("/c")
    sent = [line for head in server.asked for line in head.split(b"\r\n") if b"token-" in line]
    assert sent == [b"Authorization: token-1"] * 2 + [b"Authorization: token-2"]


def test_a_child_asks_over_connections_of_its_own(client: Client, server: Sayings) -> None:
    server.texts = [PLAIN, PLAIN, PLAIN]
    client.get("/a")
    child = os.fork()
    if not child:
        code = 1
        try:
            code = 0 if client._connection().stale else 1
        finally:
            os._exit(code)  # whatever happens, no second run of the tests
    assert os.waitpid(child, 0)[1] == 0
    assert (client.get("/b"), server.connections) == (b"{}", 1)


def test_certificates_that_are_none_say_so(tmp_path: Path) -> None:
    settings = Configuration()
    settings.host = "https://127.0.0.1:1"
    settings.cert_file = str(tmp_path / "client.crt")
    with pytest.raises(ConfigurationError, match="the certificates for the API server"):
        Client(settings)


def test_how_it_is_spelt_does_not_make_it_less_secure() -> None:
    context = ssl.create_default_context()
    found = parse_target("HTTPS://a.example.:6443", secured=lambda: context)
    assert (found.tls, found.port, found.name) == (context, 6443, "a.example")


@each_case("url", ["", "https://", "http://:5", "http://a:b", "http://[::1", "ftp://a:1", "a:1"])
def test_a_url_that_leads_nowhere(url: str) -> None:
    with pytest.raises(ClusterError, match="no API server's URL"):
        parse_target(url, secured=ssl.create_default_context)


def test_a_url_says_where_the_paths_begin() -> None:
    found = parse_target("http://[::1]:81/clusters/a/", secured=ssl.create_default_context, name="b")
    assert (found.host, found.port, found.authority, found.prefix, found.name) == (
        "::1",
        81,
        "[::1]:81",
        "/clusters/a",
        "b",
    )
