"""Clients that only keep connections open keep nobody else from being answered."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.http.hostile_crowd import unfinished
from tests.support.http.served_worker import (
    Caller,
    Served,
    end,
    request,
    served,
)
from tests.support.http.worker_process import spent, worker_of

BODY = b"x" * 5000
ASKED, DIALLED = 400, 60
#: Anything else that runs on the machine only adds to what is measured, so the best of three rounds counts.
ROUNDS = 3
#: How many times as long a client may wait with the crowd as without it.
ALLOWED = 10
HOSTILE = {"idle": 500, "unfinished": 500, "slow": 500}


@contextmanager
def crowd(port: int, *, idle: int = 0, unfinished: int = 0, slow: int = 0) -> Iterator[Callable[[], int]]:
    """The crowd, once all its connections are open; gives a function that counts those still open."""
    numbers = [str(number) for number in (port, idle, unfinished, slow)]
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.http.hostile_crowd", *numbers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None

    def count() -> int:
        os.write(stdin.fileno(), b"?")
        return int(stdout.readline())

    try:
        assert stdout.readline() == "standing\n"
        yield count
    finally:
        end(process)
        stdin.close()
        stdout.close()


def p99(times: list[float]) -> float:
    return sorted(times)[int(0.99 * (len(times) - 1))]


def asking(server: Served) -> list[float]:
    """The wait for each request of one connection, as from kube-scheduler."""
    with server.caller() as caller:
        return [cpu_time(server, lambda: caller.ask(body=BODY)) for _ in range(ASKED)]


def dialling(server: Served) -> list[float]:
    """The wait for each request on a connection of its own, handshake included, as from the API server."""

    def once() -> None:
        with server.caller() as caller:
            caller.ask(body=BODY)

    return [cpu_time(server, once) for _ in range(DIALLED)]


def cpu_time(server: Served, act: Callable[[], object]) -> float:
    """How long the loop's thread worked meanwhile, for this client or for others.

    Unlike the time on a clock it does not depend on what else runs on the machine. If the server let a client
    wait without working, the client's own time-out would end the test.
    """
    worker = worker_of(server)
    start = spent(worker)
    act()
    return spent(worker) - start


def disturbance(server: Served, hostile: dict[str, int]) -> float:
    """How many times as long a client waits at p99 with the crowd as just before it.

    The worse of both ways.
    """
    asking(server)  # the crowd of the last round has left by its end
    calm = p99(asking(server)), p99(dialling(server))
    with crowd(server.port, **hostile) as standing:
        assert standing() == sum(hostile.values())
        besieged = p99(asking(server)), p99(dialling(server))
        assert standing() >= 0.9 * sum(
            hostile.values()
        )  # the server's time-outs end some, and they come back
    return max(besieged[0] / calm[0], besieged[1] / calm[1])


def test_others_are_answered_while_a_crowd_holds_connections(certificate: tuple[Path, Path]) -> None:
    """At p99 a client waits ten times as long as without them at most, on kept and on new connections.

    The crowd is of three kinds, of which each alone is less.
    """
    rounds: list[float] = []
    with served(certificate) as server:
        while len(rounds) < ROUNDS and min(rounds, default=ALLOWED + 1) > ALLOWED:
            rounds.append(disturbance(server, HOSTILE))
    assert min(rounds) <= ALLOWED, rounds


def test_a_crowd_larger_than_the_table_pushes_out_itself(certificate: tuple[Path, Path]) -> None:
    """With 100 places and 300 hostile callers who come back over and over, real callers get in and stay."""
    with served(certificate, connections=100) as server, server.caller() as kept:
        assert kept.ask()[0] == 200
        with crowd(server.port, idle=150, unfinished=75, slow=75):
            for _ in range(100):
                assert kept.ask(body=BODY)[0] == 200
                with server.caller() as newcomer:
                    assert newcomer.ask()[0] == 200


def test_a_worker_without_file_descriptors_closes_an_idle_connection_for_a_new_one(
    certificate: tuple[Path, Path],
) -> None:
    """The table has room, the process has none: accepting fails until a connection is closed."""
    with served(certificate) as server, ExitStack() as crowd:
        worker = worker_of(server)
        callers = [crowd.enter_context(server.caller())]
        assert callers[0].ask()[0] == 200
        in_use = len(list(Path(f"/proc/{worker}/fd").iterdir()))
        _, hard = resource.prlimit(worker, resource.RLIMIT_NOFILE)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (in_use + 4, hard))
        for _ in range(10):
            callers.append(crowd.enter_context(server.caller()))
            assert callers[-1].ask()[0] == 200
        assert callers[0].at_end()


def test_a_request_sent_byte_by_byte_is_answered_408(certificate: tuple[Path, Path]) -> None:
    """From its first byte to its last a request has so long, however steadily bytes come."""
    with served(certificate, request_timeout=1.0, linger_timeout=0.2) as server, server.caller() as slow:
        slow.line.settimeout(0.01)
        sent = trickle(slow.line.send, request(body=b"x" * 5000), until_said=slow.line.recv)
        assert b" 408 Request Timeout\r\n" in sent


def trickle(send: Callable[[bytes], int], data: bytes, *, until_said: Callable[[int], bytes]) -> bytes:
    """Send a byte, listen for a hundredth of a second, and so on; gives what was heard first."""
    for position in range(len(data)):
        send(data[position : position + 1])
        try:
            return until_said(4096)
        except TimeoutError:
            continue
    return b"the request was never cut"


def test_an_unfinished_handshake_is_closed(certificate: tuple[Path, Path]) -> None:
    """Who says half a ClientHello and no more is closed after the time-out."""
    with served(certificate, handshake_timeout=0.5) as server, unfinished(server.port) as half:
        half.settimeout(20)
        with suppress(ConnectionResetError):
            assert half.recv(1) == b""


def test_an_idle_connection_is_closed(certificate: tuple[Path, Path]) -> None:
    """Both before its first request and after one; empty lines are nothing."""
    with served(certificate, idle_timeout=0.5) as server:
        with server.caller() as fresh:
            assert fresh.at_end()
        with asked_in_time(server) as kept:
            assert kept.at_end()


def asked_in_time(server: Served) -> Caller:
    """A connection with one answer and an empty line after it.

    On a busy machine another one may have idled before it asked.
    """
    while True:
        caller = server.caller()
        try:
            assert caller.ask()[0] == 200
            caller.send(b"\r\n")
        except (OSError, AssertionError):
            caller.__exit__()
        else:
            return caller


def test_a_client_that_does_not_read_its_response_is_closed(certificate: tuple[Path, Path]) -> None:
    """A caller that asks for much and reads nothing does not hold the reply for long; others are answered."""
    with (
        served(certificate, response_timeout=0.5) as server,
        server.caller() as greedy,
        server.caller() as other,
    ):
        greedy.send(request("/huge") * 10)
        assert other.ask()[0] == 200
        until = time.monotonic() + 20
        with pytest.raises(OSError):  # reset or broken pipe, as the kernel likes
            while time.monotonic() < until:
                greedy.send(b"\r\n" * 1000)


def test_unfinished_requests_are_buffered_up_to_a_bound(certificate: tuple[Path, Path]) -> None:
    """Beyond it the slowest sender goes, and who comes later is served."""
    with served(certificate, buffered_request_bytes=1_000_000) as server, server.caller() as other:
        hoarders = [server.caller() for _ in range(3)]
        try:
            for hoarder in hoarders:
                hoarder.send(request(body=b"x" * 600_000)[:-1])
                assert other.ask()[0] == 200  # so the server has begun to read what was sent before
            assert hoarders[0].at_end()
            hoarders[2].send(b"x")
            assert hoarders[2].reply()[0] == 200
        finally:
            for hoarder in hoarders:
                hoarder.__exit__()
