"""The worker takes new certificates, lets old connections go, and stops without breaking off a request."""

import json
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.http.served_worker import (
    STOP_EARLY,
    WAIT,
    Caller,
    request,
    served,
    waiting_for,
    write_certificate,
)


def test_a_new_certificate_is_served_without_a_restart(tmp_path: Path) -> None:
    """New connections get it; a broken one is logged and the last good one goes on."""
    current, new = write_certificate(tmp_path), write_certificate(tmp_path, name="new")
    with served(current) as server, server.caller() as kept:
        replace(current, new)
        server.log.wait_for("serving with the new certificate")
        with Caller(server.port, certfile=current[0].with_name("new-was.crt")) as caller:
            assert caller.ask()[0] == 200
        current[1].write_text("no key")
        server.log.wait_for("the new certificate is not usable")
        with Caller(server.port, certfile=current[0].with_name("new-was.crt")) as caller:
            assert caller.ask()[0] == 200
        assert kept.ask()[0] == 200


def replace(current: tuple[Path, Path], new: tuple[Path, Path]) -> None:
    """The pair at once as far as anyone can, keeping a copy to trust."""
    new[0].with_name("new-was.crt").write_bytes(new[0].read_bytes())
    new[1].replace(current[1])
    new[0].replace(current[0])


def test_sigterm_lets_the_request_under_way_finish(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    """One in the app, and one of which half has come; both are told that this is the end."""
    with served(certificate) as server, server.caller() as half, server.caller() as waiting:
        half.ask()
        half.send(request(body=b"12345")[:-3])
        waiting.send(request(waiting_for(tmp_path / "go")))
        server.terminate()
        server.log.wait_for("Handling signal: term")
        (tmp_path / "go").touch()
        assert waiting.reply()[0] == 200
        until_refused(server.port)
        half.send(b"345")
        status, headers, body = half.reply()
        assert (status, headers["Connection"], json.loads(body)["body"]) == (200, "close", "12345")
        assert server.process.wait(WAIT) == 0
        server.log.wait_for("hook: threads must stop")


def test_a_server_that_is_stopped_while_its_worker_starts_stops(
    certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its loop runs; else gunicorn kills it after 20 s, with its Leases held."""
    monkeypatch.setenv(STOP_EARLY, "yes")
    with served(certificate) as server:
        assert server.process.wait(WAIT) == 0
        server.log.wait_for("hook: threads must stop")


def test_after_sigterm_no_connection_is_accepted_and_idle_ones_are_closed(
    certificate: tuple[Path, Path],
) -> None:
    """A kept connection gets one more reply, with Connection: close, rather than a broken pipe."""
    with served(certificate, shutdown_notice=WAIT) as server, server.caller() as kept:
        kept.ask()
        server.terminate()
        server.log.wait_for("Handling signal: term")
        until_refused(server.port)
        status, headers, _ = kept.ask()
        assert (status, headers["Connection"]) == (200, "close")
        assert server.process.wait(WAIT) == 0


def until_refused(port: int) -> None:
    """Dial until nobody listens."""
    with suppress(ConnectionRefusedError, ConnectionResetError):
        for _ in range(100_000):
            socket.create_connection(("127.0.0.1", port), timeout=WAIT).close()


def test_an_old_connection_is_closed_after_a_response(certificate: tuple[Path, Path]) -> None:
    """So that callers spread over replicas. The loop's clock may show the same time for a whole request."""
    with served(certificate, connection_age=-1.0) as server, server.caller() as caller:
        assert caller.ask()[1]["Connection"] == "close"
        assert caller.at_end()
