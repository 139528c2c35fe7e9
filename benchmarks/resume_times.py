"""From a moment to the first bind and to the last, of pods that a scheduler gets while it is at work."""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec

from benchmarks.bench import Bench
from benchmarks.objects import QUEUE, QUEUES, Object, Request, pods, pods_path
from benchmarks.scheduler_configurations import RECOMMENDED_PERCENTAGE, plain
from cluster.api.client import STRATEGIC_MERGE_PATCH
from server.settings import Settings

#: Any gate but ours.
GATE = {"name": "bench.dev/gate"}
#: As many connections as the server has writers.
WRITERS = Settings().writers


class Times(msgspec.Struct, frozen=True):
    """Seconds to the first bind and to the last."""

    first: float
    last: float

    def __str__(self) -> str:
        return f"first {self.first:.2f} s, last {self.last:.2f} s"


def since(began: float, binds: Sequence[float]) -> Times:
    """`began` and the binds are Unix seconds."""
    return Times(binds[0] - began, binds[-1] - began)


def fresh(bench: Bench, count: int) -> Times:
    """So many new pods in a scheduler that is at work and has never heard of us, from the first creation."""
    with bench.scheduling(plain(RECOMMENDED_PERCENTAGE)):
        bench.quiet()
        return create_and_bind(bench, pods(count))


def create_and_bind(bench: Bench, bodies: Sequence[Object]) -> Times:
    """From the first creation of these pods; the scheduler runs."""
    mark = bench.audit.mark()
    began = bench.create_pods(bodies).began
    return since(began, bench.binds(mark, count=len(bodies)))


def resume_and_bind(bench: Bench, count: int) -> Times:
    """From the patch that resumes the queue of so many parked pods; the scheduler runs."""
    mark = bench.audit.mark()
    began = time.time()
    bench.must("PATCH", f"{QUEUES}/{QUEUE}", {"spec": {"state": "Open"}})
    return since(began, bench.binds(mark, count=count))


def ungate_and_bind(bench: Bench, count: int) -> Times:
    """From the first of the patches by which a client in Go takes `GATE` off all pods; the scheduler runs."""
    patch = {"spec": {"schedulingGates": [{**GATE, "$patch": "delete"}]}}
    patches = [
        Request("PATCH", f"{pods_path()}/{name}", STRATEGIC_MERGE_PATCH, patch) for name in bench.pod_names()
    ]
    bench.quiet()
    mark = bench.audit.mark()
    began = bench.write(patches, workers=WRITERS).began
    return since(began, bench.binds(mark, count=count))
