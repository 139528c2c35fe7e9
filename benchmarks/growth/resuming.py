"""A resume, until the first gate is off and until the last pod is bound, by how many are parked."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.growth.costs import Cost
from benchmarks.growth.repetitions import (
    FEW,
    rounds,
    scaled,
)
from benchmarks.objects import (
    HOME,
    QUEUE,
    QUEUES,
    pods_path,
)
from benchmarks.parked_pods import Parked, park
from benchmarks.resume_times import Times
from benchmarks.scheduler_configurations import ours
from benchmarks.watch import watched

NUMBERS = (100, 500, 2_000)


def costs(bench: Bench) -> Iterator[Cost]:
    """One scheduler for all of them; nothing is left but the queue."""
    with bench.scheduling(ours()):
        seen = {number: [_resumed(bench, number) for _ in rounds(FEW)] for number in scaled(NUMBERS)}
    for part, what in (("first", "first gate off"), ("last", "last bind")):
        yield Cost(
            name=f"resume-{part}",
            title=f"Resume to the {what}",
            by="parked pods",
            unit="s",
            seen={number: tuple(getattr(each, part) for each in times) for number, times in seen.items()},
        )


def _resumed(bench: Bench, count: int) -> Times:
    """To the first gate taken off, and the last bind."""
    park(bench, count, how=Parked.BY_GATE, namespace=HOME)
    bench.quiet()
    mark = bench.audit.mark()
    listed = bench.must("GET", f"{pods_path()}?limit=1")
    with watched(bench.cluster, pods_path(), since=listed["metadata"]["resourceVersion"]) as states:
        began = time.time()
        bench.must("PATCH", f"{QUEUES}/{QUEUE}", {"spec": {"state": "Open"}})
        next(each for each in states if not each["spec"].get("schedulingGates"))
        first = time.time() - began
    last = bench.binds(mark, count=count)[-1] - began
    bench.say(f"{count} parked: first gate off after {first:.3f} s, last bind after {last:.2f} s")
    bench.clear()
    return Times(first, last)
