"""What the server is like at a moment."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.filtering.row import ask
from benchmarks.go_programs import built
from benchmarks.memory import resident
from benchmarks.soak.pod_churn import NAMESPACES
from benchmarks.soak.quarters import Reading
from benchmarks.target import our_extender
from localcluster import processes

#: Of filter calls, one after the other: node names, and for how long.
NAMES, SECONDS = 100, 1.0


class Samples:
    """All that was read so far, by what it is. For one thread."""

    def __init__(self, bench: Bench, *, began: float) -> None:
        self._bench, self._began = bench, began
        self._load = built("worker/load", say=bench.say)
        self._mark, self._marked = bench.audit.mark(), time.monotonic()
        self.memory: list[Reading] = []  #: MiB
        self.files: list[Reading] = []
        self.threads: list[Reading] = []
        self.p50: list[Reading] = []  #: µs, of a filter call
        self.p99: list[Reading] = []
        self.binds: list[Reading] = []  #: a second

    def take(self, _: int = 0) -> None:
        """One of each, of this moment; takes somewhat longer than the filter calls."""
        at = time.monotonic() - self._began
        self.binds.append(Reading(at, self._rate()))
        pids = processes.pids(self._bench.cluster.layout.folder, "server")
        self.memory.append(Reading(at, resident(pids)))
        self.files.append(Reading(at, open_files(pids)))
        self.threads.append(Reading(at, threads(pids)))
        seen = ask(self._load, our_extender(self._bench.cluster), NAMES, seconds=SECONDS)
        self.p50.append(Reading(at, seen["p50_us"]))
        self.p99.append(Reading(at, seen["p99_us"]))

    def _rate(self) -> float:
        """Binds a second since it was asked last."""
        audit, now = self._bench.audit, time.monotonic()
        count = sum(len(audit.binds(self._mark, namespace=each)) for each in NAMESPACES)
        seconds = now - self._marked
        self._mark, self._marked = audit.mark(), now
        return count / seconds


def open_files(pids: Sequence[int]) -> int:
    return sum(_entries(pid, "fd") for pid in pids)


def threads(pids: Sequence[int]) -> int:
    return sum(_entries(pid, "task") for pid in pids)


def _entries(pid: int, folder: str) -> int:
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/{folder}").iterdir())
    except OSError:  # it has just ended
        return 0
