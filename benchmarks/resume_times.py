"""From a moment to the first bind and to the last."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from benchmarks.bench import Bench
from benchmarks.objects import pods
from benchmarks.scheduler_configurations import RECOMMENDED_PERCENTAGE, plain


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
        mark = bench.audit.mark()
        began = bench.create_pods(pods(count)).began
        return since(began, bench.binds(mark, count=count))
