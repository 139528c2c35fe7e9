"""Clients that only make work: others are answered meanwhile, and the worker stays alive and small."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.http.flood import KINDS, Flooder, flooder
from tests.support.http.served_worker import Served, served
from tests.support.http.worker_process import forget_most, memory, spent, worker_of
from tests.support.pace import slowness

CONNECTIONS, BYTES = 8, 2 * 1024 * 1024
#: The CPU time of the loop's thread in which another client must be answered, on a machine as fast as most.
#: The server promises a turn of 0.01 s.
WAIT_SECONDS = 0.1
#: How much more memory the worker may use: twice what is sent to it.
MEMORY = 2 * CONNECTIONS * BYTES
#: Anything else that runs on the machine only adds to what is measured, so the best of three rounds counts.
ROUNDS = 3
#: Some kinds are honest enough to go on; a round of them ends after so many seconds.
ROUND_SECONDS = 1.0
#: Other kinds make the server close their connections at once; the other client sends so many requests all
#: the same.
LEAST_REQUESTS = 10


def longest_wait(server: Served, flooding: Flooder, kind: str, *, reading: bool) -> float:
    """The longest wait of a client on a kept connection, in CPU seconds of the loop's thread."""
    pid, longest = worker_of(server), 0.0
    with server.caller() as other:
        other.ask()
        flood = flooding.flood(server.port, kind, connections=CONNECTIONS, size=BYTES, reading=reading)
        with flood as over:
            until, asked = time.monotonic() + ROUND_SECONDS, 0
            while asked < LEAST_REQUESTS or (not over.is_set() and time.monotonic() < until):
                asked += 1
                before = spent(pid)
                assert other.ask(body=b"x" * 1_000)[0] == 200
                longest = max(longest, spent(pid) - before)
    assert worker_of(server) == pid, "the worker was restarted"
    return longest


@pytest.fixture(scope="module")
def flooded(certificate: tuple[Path, Path]) -> Iterator[Served]:
    with served(certificate) as running:
        yield running


@pytest.fixture(scope="module")
def flooding() -> Iterator[Flooder]:
    with flooder() as running:
        yield running


@pytest.mark.parametrize("reading", [False, True], ids=["deaf", "reading"])
@pytest.mark.parametrize("kind", [*KINDS, "pings+tiny"])
def test_other_clients_are_answered_during_a_flood(
    flooded: Served, flooding: Flooder, kind: str, reading: bool
) -> None:
    waits: list[float] = []
    most = WAIT_SECONDS * slowness()
    before = forget_most(worker_of(flooded))
    while len(waits) < ROUNDS and min(waits, default=float("inf")) > most:
        waits.append(longest_wait(flooded, flooding, kind, reading=reading))
    assert min(waits) <= most, waits
    assert memory(worker_of(flooded)) - before <= MEMORY
