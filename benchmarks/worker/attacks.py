"""Hostile traffic against a candidate: how long others wait meanwhile, and what it takes of memory.

The traffic is that of `tests/support/http/flood.py`: eight connections, each with 4 MiB of one kind.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.support.http.flood import flooder

if TYPE_CHECKING:
    from benchmarks.worker.measure import Bench

ROOT = Path(__file__).parents[2]
CONNECTIONS, BYTES = 8, 4 * 1024 * 1024
SECONDS = 3.0

#: Each kind of `flood.py` that is measured, in words. The first half is HTTP/2.
ATTACKS: Mapping[str, str] = {
    "windows-too-large": "streams that the server has to reset",
    "requests-after-goaway": "requests after a GOAWAY",
    "770-fields": "heads of 770 fields",
    "table-sizes": "heads that resize the table",
    "resets": "requests taken back",
    "requests": "requests, without reading the answers",
    "trailer": "a trailer without end",
    "extensions": "chunks of a byte with an extension",
    "pipelined": "requests, without reading the answers (HTTP/1.1)",
}


class Attacked(NamedTuple):
    """`wait`: the longest of another caller, in milliseconds; -1 if none was answered. `memory`: more MiB."""

    wait: float
    memory: float
    alive: bool


def attacked(bench: Bench, name: str, kind: str) -> Attacked:
    """One attack on a candidate of its own."""
    with bench.candidate(name, app="flask", compute=False) as port:
        bench.ask(port, workers=1, names=100, http2=False)
        before = memory()
        with (
            flooder() as flooding,
            flooding.flood(port, kind, connections=CONNECTIONS, size=BYTES, reading=False),
            sampled() as most,
        ):
            seen = bench.ask(port, workers=1, names=100, http2=False)
        after = bench.ask(port, workers=1, names=100, http2=False)
    wait = seen["max_us"] / 1000 if seen["requests"] else -1.0
    return Attacked(wait, (max(most) - before) / 2**20, alive=after["requests"] > 0 and not after["errors"])


@contextmanager
def sampled() -> Iterator[list[int]]:
    """The memory of the candidate, again and again while the block runs."""
    seen, over = [memory()], threading.Event()

    def sample() -> None:
        while not over.wait(0.05):
            seen.append(memory())

    sampling = threading.Thread(target=sample, name="memory of the candidate")
    sampling.start()
    try:
        yield seen
    finally:
        over.set()
        sampling.join()


def memory() -> int:
    """Of all that we have started and that serves: bytes."""
    return sum(_resident(pid) for pid in _descendants(os.getpid()) if _serves(pid))


def _descendants(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            yield int(child)
            yield from _descendants(int(child))


def _serves(pid: int) -> bool:
    with suppress(OSError):
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        return b"benchmarks.worker" in line or b"granian" in line or b"gunicorn" in line
    return False


def _resident(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0
