"""A stop, from its write to its acknowledgement."""

from __future__ import annotations

import time

from benchmarks.bench import Bench
from benchmarks.objects import (
    QUEUES,
    Object,
    stopped,
    version,
)
from benchmarks.watch import watched


def acknowledged(bench: Bench, name: str) -> float:
    """Seconds from before the write until a client that only watches the queue reads it; it stays stopped."""
    path = f"{QUEUES}/{name}"
    since = version(bench.must("GET", path))
    with watched(bench.cluster, QUEUES, since=since, name=name) as states:
        began = time.perf_counter()
        wanted = bench.must("PATCH", path, {"spec": {"state": "Suspended"}})["metadata"]["generation"]
        next(each for each in states if _is_acknowledged(each, wanted))
        return time.perf_counter() - began


def _is_acknowledged(found: Object, generation: int) -> bool:
    return stopped(found) and found["status"]["observedGeneration"] == generation
