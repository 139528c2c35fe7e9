"""The row: one control plane, used through; what leaves little behind comes first."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import RowResult
from benchmarks.filtering.row import ask
from benchmarks.go_programs import built
from benchmarks.growth import members, resuming, trees
from benchmarks.growth.costs import Cost, curve, note
from benchmarks.growth.repetitions import (
    FEW,
    REPEATS,
    SIZE_SECONDS,
    rounds,
)
from benchmarks.objects import QUEUE
from benchmarks.regression import straight
from benchmarks.target import our_extender
from localcluster.build import Say

NODES = 100
NAMES = (100, 300, 1_000, 3_000, 5_000)
#: Of calls, at each number of names, each time.
SECONDS = 1.0 * min(1.0, scale.SCALE * 4)
KIB = 1024


def measure(say: Say) -> RowResult:
    with running(nodes=NODES, say=say) as bench, _deep():
        costs = list(_costs(bench))
    return RowResult(
        title="How costs grow",
        about="One server that is stopped and resumed at growing scale, nothing beside it. n^1 grows in "
        "proportion, n^0 not at all: the exponent is the slope of log cost over log size, by least "
        "squares through the medians. Filter: serial calls over one TLS connection, open queue. Queues: "
        "all below `root`; depth: the same queues in chains, with `depth_limit` raised to "
        f"{max(trees.DEPTHS)}. Members: gated pods of one queue. Resume: pods parked by gate, {NODES} "
        "nodes, the recommended settings; by the watch and by the audit log. Rounds at each size: filter and "
        f"members {REPEATS}, trees and resumes {FEW}, none begun after {SIZE_SECONDS:.0f} s; memory 1.",
        lines=(),
        notes=tuple(said for cost in costs for said in _work_queue(cost)),
        curves=tuple(curve(cost) for cost in costs),
    )


def _costs(bench: Bench) -> Iterator[Cost]:
    bench.install()
    yield _filter(bench)
    # What was let through and is never heard of would hold up a stop; a new server knows nothing of it.
    bench.cluster.restart_components("server")
    yield from trees.costs(bench)
    trees.cut(bench)
    yield from resuming.costs(bench)
    yield from members.costs(bench)


def _filter(bench: Bench) -> Cost:
    bench.queue(QUEUE, state="Open")
    load = built("worker/load", say=bench.say)
    target = our_extender(bench.cluster)
    seen = {
        names: tuple(ask(load, target, names, seconds=SECONDS)["p50_us"] for _ in rounds(REPEATS))
        for names in NAMES
    }
    return Cost(name="filter", title="p50 of a filter call", by="node names", unit="µs", seen=seen)


def _work_queue(cost: Cost) -> Iterator[str]:
    yield note(cost)
    if cost.name == "memory":
        line = straight(cost.medians)
        yield f"Of that {line.base:.0f} MiB without any member, and {line.each * KIB:.1f} KiB for each."


@contextmanager
def _deep() -> Iterator[None]:
    """A server that starts meanwhile takes trees as deep as the deepest here."""
    name = "SLUICE_DEPTH_LIMIT"
    before = os.environ.get(name)
    os.environ[name] = str(max(trees.DEPTHS))
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
