"""Callers that only make work: others are answered meanwhile, and the worker stays alive and small."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.http.flood import KINDS
from tests.support.http.served_worker import (
    Served,
    end,
    served,
)
from tests.support.http.worker_process import (
    forget_most,
    memory,
    spent,
    worker_of,
)
from tests.support.paths import ROOT

CONNECTIONS, BYTES = 8, 4 * 1024 * 1024
#: Seconds of the worker's own time in which anyone else is answered, and how much more memory it takes.
WAIT, MEMORY = 0.1, 64 * 1024 * 1024
#: What else runs on a machine only ever adds to what is measured.
ROUNDS = 3
#: A kind that is honest enough to go on for longer is looked at for so long.
SECONDS = 1.5


@contextmanager
def flood(port: int, kind: str, *, reading: bool) -> Iterator[threading.Event]:
    """While the block runs, unless it ends by itself, which sets the event."""
    command = [
        sys.executable,
        "-m",
        "tests.support.http.flood",
        str(port),
        kind,
        str(CONNECTIONS),
        str(BYTES),
    ]
    process = subprocess.Popen(
        [*command, *(["reading"] if reading else [])],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT)},
    )
    stdout = process.stdout
    assert stdout is not None
    over = threading.Event()

    def watch() -> None:
        stdout.readline()
        over.set()

    try:
        assert stdout.readline() == "flowing\n"
        watching = threading.Thread(target=watch, name="end of the flood")
        watching.start()
        yield over
    finally:
        end(process)
        watching.join()
        stdout.close()


def longest_wait(server: Served, kind: str, *, reading: bool) -> float:
    """Of a caller on a kept connection, in the worker's own time."""
    pid, longest = worker_of(server), 0.0
    with server.caller() as other:
        other.ask()
        with flood(server.port, kind, reading=reading) as over:
            until = time.monotonic() + SECONDS
            while not over.is_set() and time.monotonic() < until:
                before = spent(pid)
                assert other.ask(body=b"x" * 1_000)[0] == 200
                longest = max(longest, spent(pid) - before)
    assert worker_of(server) == pid, "the worker was restarted"
    return longest


@pytest.fixture(scope="module")
def flooded(certificate: tuple[Path, Path]) -> Iterator[Served]:
    with served(certificate) as running:
        yield running


@pytest.mark.parametrize("reading", [False, True], ids=["deaf", "reading"])
@pytest.mark.parametrize("kind", [*KINDS, "pings+tiny"])
def test_others_are_answered_meanwhile(flooded: Served, kind: str, reading: bool) -> None:
    waits: list[float] = []
    before = forget_most(worker_of(flooded))
    while len(waits) < ROUNDS and min(waits, default=1.0) > WAIT:
        waits.append(longest_wait(flooded, kind, reading=reading))
    assert min(waits) <= WAIT, waits
    assert memory(worker_of(flooded)) - before <= MEMORY
