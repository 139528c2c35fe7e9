"""How fast a backlog is bound: the pods are there before the scheduler is."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.bench import Bench
from benchmarks.shapes import Object
from localcluster.schedulers import Edit


def bind_rate(bench: Bench, bodies: Sequence[Object], *, edit: Edit) -> float:
    """Binds a second of these pods, from the first to the last by the audit log; nothing of them is left."""
    bench.create_pods(bodies)
    rate = backlog_rate(bench, count=len(bodies), edit=edit)
    bench.clear()
    return rate


def backlog_rate(bench: Bench, *, count: int, edit: Edit) -> float:
    """The same for pods that exist already, which stay."""
    bench.quiet()
    mark = bench.audit.mark()
    with bench.scheduling(edit):
        times = bench.binds(mark, count=count)
    return (len(times) - 1) / (times[-1] - times[0])
