"""Members of a stopped queue that wait: by the gate, or by filter alone."""

from __future__ import annotations

from enum import StrEnum

from benchmarks.bench import Bench
from benchmarks.objects import QUEUE, pods


class Parked(StrEnum):
    """How."""

    BY_GATE = "gate"  #: created after the stop
    BY_FILTER = "filter"  #: pending before it


def park(bench: Bench, count: int, *, how: Parked, namespace: str, queue: str = QUEUE) -> None:
    """So many wait afterwards. To park by filter, no scheduler may run."""
    bench.namespace(namespace)
    made = pods(count, prefix="parked", queue=queue)
    bench.queue(queue, state="Open")
    if how == Parked.BY_FILTER:
        bench.create_pods(made, namespace=namespace)
        bench.quiet()
    bench.queue(queue, state="Suspended")
    if how == Parked.BY_GATE:
        bench.create_pods(made, namespace=namespace)
