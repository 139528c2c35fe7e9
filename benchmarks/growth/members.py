"""What many members cost while they wait: their queue's stop until it is acknowledged, and memory."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.growth.costs import Cost
from benchmarks.growth.repetitions import (
    REPEATS,
    rounds,
    scaled,
)
from benchmarks.memory import resident
from benchmarks.objects import QUEUE, pod
from benchmarks.rows.suspending import suspended
from localcluster import processes

NUMBERS = (100, 1_000, 5_000, 10_000)
#: Somebody else's, so that they wait while the queue is open as well.
GATES = [{"name": "bench.sluice.dev/waits"}]


def costs(bench: Bench) -> Iterator[Cost]:
    """By members of the one queue, more and more of them; they stay."""
    bench.queue(QUEUE, state="Open")
    stops: dict[int, tuple[float, ...]] = {}
    memory: dict[int, tuple[float, ...]] = {}
    there = 0
    for number in scaled(NUMBERS):
        bench.create_pods(
            pod(f"waits-{each}", queue=QUEUE, schedulingGates=GATES) for each in range(there, number)
        )
        there = number
        bench.quiet()
        stops[number] = tuple(1000 * suspended(bench) for _ in rounds(REPEATS))
        memory[number] = (_held(bench),)
        bench.say(f"{number} members: {min(stops[number]):.1f} ms at best, {memory[number][0]:.0f} MiB")
    yield Cost(
        name="members",
        title="Suspend to acknowledged",
        by="members",
        unit="ms",
        seen=stops,
    )
    yield Cost(name="memory", title="VmRSS of the server", by="members", unit="MiB", seen=memory)


def _held(bench: Bench) -> float:
    return resident(processes.pids(bench.cluster.layout.folder, "server"))
