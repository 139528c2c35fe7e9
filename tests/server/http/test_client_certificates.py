"""A worker that asks for client certificates: who is answered, what the others are told, what they cost."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs import authority
from certs.authority import Authority
from server.http.client_tls import HANDSHAKE_BYTES
from server.http.http2.frame_reader import Kind
from tests.support.http.http2_caller import Words, only
from tests.support.http.served_worker import WAIT, Caller, Served, served
from tests.support.http.worker_process import spent, worker_of

NOW = datetime.now(UTC)
SCHEDULER, API_SERVER, BOTH = "system:kube-scheduler", "kube-apiserver", "both"
FILTER, REVIEW = "/extender/filter", "/validate/binds"


class Clients:
    """Certificates of callers, in a folder, and connections that show them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = authority.create(name="callers", now=NOW)
        self.other = authority.create(name="callers", now=NOW)  # of the same name, with another key
        self.file = folder / "callers.crt"
        self.trust(self.ca)
        for name in (SCHEDULER, API_SERVER, BOTH, "admin"):
            self.ca.client(name=name, now=NOW).save(folder, stem=name)
        self.other.client(name=SCHEDULER, now=NOW).save(folder, stem="other")
        self.ca.client(name=SCHEDULER, now=NOW, validity=-timedelta(seconds=1)).save(folder, stem="expired")
        self.ca.serving(dns=[SCHEDULER], now=NOW).save(folder, stem="serving")

    def trust(self, *authorities: Authority) -> None:
        """These are the authorities of callers from now on."""
        authority.write(self.file, b"".join(each.certificate for each in authorities), mode=0o644)

    def context(self, server: Served, stem: str) -> ssl.SSLContext:
        trust = ssl.create_default_context(cafile=server.certfile)
        if stem:
            trust.load_cert_chain(self.folder / f"{stem}.crt", self.folder / f"{stem}.key")
        return trust

    def caller(self, server: Served, stem: str) -> Caller:
        return Caller(server.port, certfile=server.certfile, context=self.context(server, stem))


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Clients:
    return Clients(tmp_path_factory.mktemp("callers"))


@contextmanager
def asking(certificate: tuple[Path, Path], clients: Clients) -> Iterator[Served]:
    scheduler, api_server = [SCHEDULER, BOTH], [API_SERVER, BOTH]
    access = {"client_ca": [str(clients.file)], "scheduler": scheduler, "api_server": api_server}
    with served(certificate, access=access, linger_timeout=0.5) as running:
        yield running


@pytest.fixture(scope="module")
def server(certificate: tuple[Path, Path], clients: Clients) -> Iterator[Served]:
    with asking(certificate, clients) as running:
        yield running


def answer(clients: Clients, server: Served, stem: str, path: str) -> tuple[int, str]:
    """Status and message of one request over HTTP/1.1."""
    with clients.caller(server, stem) as caller:
        status, _, body = caller.ask(path)
    return status, json.loads(body).get("message", "")


@pytest.mark.parametrize("path", [FILTER, REVIEW, "/healthz", "/metrics", "/unknown"])
def test_a_caller_without_a_certificate_is_answered_401(clients: Clients, server: Served, path: str) -> None:
    status, message = answer(clients, server, "", path)
    assert status == 401
    assert "client certificate" in message


@pytest.mark.parametrize(
    ("stem", "path", "status"),
    [
        (SCHEDULER, FILTER, 200),
        (SCHEDULER, REVIEW, 403),
        (API_SERVER, REVIEW, 200),
        (API_SERVER, FILTER, 403),
        ("admin", FILTER, 403),
        ("admin", REVIEW, 403),
    ],
)
def test_a_certificate_is_good_for_the_paths_of_its_name(
    clients: Clients, server: Served, stem: str, path: str, status: int
) -> None:
    assert answer(clients, server, stem, path)[0] == status


@pytest.mark.parametrize(("stem", "status"), [("", 401), (API_SERVER, 200), (SCHEDULER, 403)])
def test_the_same_holds_over_http2(clients: Clients, server: Served, stem: str, status: int) -> None:
    context, words = clients.context(server, stem), Words()
    context.set_alpn_protocols(["h2"])
    with Caller(server.port, certfile=server.certfile, context=context) as caller:
        caller.send(words.greeting() + words.ask(1, REVIEW, body=b"{}"))
        while not (heads := only(Kind.HEADERS, words.read(caller.line.recv(65_536)))):
            pass
    assert words.fields(heads[0][3])[":status"] == str(status)


def test_the_body_of_a_refused_request_is_not_waited_for(clients: Clients, server: Served) -> None:
    with clients.caller(server, "") as caller:
        caller.send(b"POST /extender/filter HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9000000\r\n\r\n")
        assert caller.reply()[0] == 401
        assert caller.at_end()


@pytest.mark.parametrize(
    ("stem", "alert"),
    [
        ("other", "UNKNOWN_CA"),
        ("expired", "CERTIFICATE_EXPIRED"),
        ("serving", "UNSUPPORTED_CERTIFICATE"),
    ],
)
def test_a_certificate_that_does_not_verify_is_refused_by_its_alert(
    clients: Clients, server: Served, stem: str, alert: str
) -> None:
    """The client learns why, when it reads: TLS 1.3 tells of it after the client's own handshake."""
    with pytest.raises(ssl.SSLError, match=alert), clients.caller(server, stem) as caller:
        caller.ask(FILTER)


def test_a_session_cannot_be_resumed_without_the_certificate(clients: Clients, server: Served) -> None:
    """TLS 1.3 without tickets has no sessions, and TLS 1.2 is refused."""
    context = clients.context(server, SCHEDULER)
    with Caller(server.port, certfile=server.certfile, context=context) as caller:
        assert caller.ask(FILTER)[0] == 200
        assert isinstance(caller.line, ssl.SSLSocket)
        session = caller.line.session
        assert session is None or not session.has_ticket
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError):
        Caller(server.port, certfile=server.certfile, context=context)


def test_refusals_are_counted(clients: Clients, server: Served) -> None:
    def counted() -> int:
        with clients.caller(server, BOTH) as caller:
            refusals = json.loads(caller.ask("/refusals")[2])
        return sum(number for path, status, number in refusals if (path, status) == (FILTER, 401))

    before = counted()
    answer(clients, server, "", FILTER)
    assert counted() == before + 1


def test_a_chain_without_end_is_refused_before_it_is_read(clients: Clients, server: Served) -> None:
    """Some two hundred certificates would hold up everybody for 34 ms."""
    junk = (clients.folder / "other.crt").read_bytes()
    (clients.folder / "chain.crt").write_bytes(junk * 180)
    (clients.folder / "chain.key").write_bytes((clients.folder / "other.key").read_bytes())
    worker = worker_of(server)
    before = spent(worker)
    for _ in range(10):
        assert refused(clients, server, "chain")
    assert spent(worker) - before < 10 * 0.034
    server.log.wait_for(f"431: the certificates of a client may have {HANDSHAKE_BYTES} bytes")
    assert answer(clients, server, SCHEDULER, FILTER)[0] == 200


def test_clients_that_do_not_finish_their_handshake_delay_nobody(clients: Clients, server: Served) -> None:
    slow = [socket.create_connection(("127.0.0.1", server.port), timeout=WAIT) for _ in range(200)]
    try:
        for line in slow:
            line.sendall(b"\x16\x03\x01\x02\x00\x01")  # the begin of a ClientHello
        assert answer(clients, server, SCHEDULER, FILTER)[0] == 200
    finally:
        for line in slow:
            line.close()


def test_another_file_of_authorities_counts_without_a_restart(
    certificate: tuple[Path, Path], clients: Clients
) -> None:
    """Both of an overlap are taken; a connection of the time before gets one more answer, and is closed."""
    with asking(certificate, clients) as server, clients.caller(server, SCHEDULER) as caller:
        assert caller.ask(FILTER)[1]["Connection"] is None
        clients.trust(clients.ca, clients.other)
        until_answered(lambda: not refused(clients, server, "other"))
        assert answer(clients, server, SCHEDULER, FILTER)[0] == 200
        assert caller.ask(FILTER)[1]["Connection"] == "close"
        authority.write(clients.file, b"no certificate", mode=0o644)
        server.log.wait_for("the old one stays in use")
        assert answer(clients, server, "other", FILTER)[0] == 200
        clients.trust(clients.other)
        until_answered(lambda: refused(clients, server, SCHEDULER))
        line = "of 127.0.0.1 with 401: the client certificate is not valid: unable to get local issuer"
        server.log.wait_for(line)
        clients.trust(clients.ca)


def until_answered(condition: Callable[[], bool]) -> None:
    """The server looks at the files once a second."""
    deadline = datetime.now(UTC) + timedelta(seconds=WAIT)
    while not condition():
        assert datetime.now(UTC) < deadline
        time.sleep(0.05)


def refused(clients: Clients, server: Served, stem: str) -> bool:
    try:
        return answer(clients, server, stem, FILTER)[0] != 200
    except (OSError, AssertionError):  # an alert, a reset, or the end
        return True


def test_the_port_of_the_probes_asks_for_nothing_and_serves_nothing_else(server: Served) -> None:
    for path, status in (("/healthz", 200), ("/metrics?a=b", 200), (FILTER, 404), (REVIEW, 404), ("/", 404)):
        with Caller(server.health_port, certfile=None) as caller:
            assert caller.ask(path)[0] == status
