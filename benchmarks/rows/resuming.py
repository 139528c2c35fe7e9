"""How soon parked pods are bound after a resume, beside a plain scheduler that gets the same pods fresh."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from benchmarks import sizes
from benchmarks.bench import Bench, running
from benchmarks.configurations import ours
from benchmarks.figures import Found, Line, at_most
from benchmarks.parking import Parked, park
from benchmarks.resumed import Times, fresh, since
from benchmarks.shapes import HOME, QUEUE, QUEUES
from benchmarks.turns import in_turns
from localcluster.building import Say

NODES = 500
FRESH = "fresh"


def found(say: Say, *, parked: int, ways: Sequence[Parked]) -> Found:
    with running(nodes=sizes.scaled(NODES), say=say) as bench:
        turns = {way: partial(_measured, bench, way, count=sizes.scaled(parked)) for way in (FRESH, *ways)}
        seen = in_turns(turns, told=str, say=say)
    return Found(
        title=f"Resuming {parked:,} parked pods",
        about=f"{sizes.scaled(parked):,} members on {sizes.scaled(NODES)} nodes: from the patch that "
        "resumes their queue to the bind, by the audit log. Beside it the same scheduler with "
        "nothing installed, from the first creation of as many pods by a client in Go over eight "
        "connections; both with the recommended settings.",
        lines=tuple(
            Line(
                what=f"{which} bind after the resume of {parked:,} pods parked by {way}",
                beside="the same pods fresh, nothing installed",
                unit="s",
                ours=tuple(getattr(each, which) for each in seen[way]),
                theirs=tuple(getattr(each, which) for each in seen[FRESH]),
                goal=at_most(1.2),
            )
            for way in ways
            for which in ("first", "last")
        ),
    )


def _measured(bench: Bench, way: str, *, count: int) -> Times:
    if way == FRESH:
        bench.remove()
        times = fresh(bench, count)
    else:
        bench.install()
        times = _resumed(bench, count, how=Parked(way))
    bench.clear()
    return times


def _resumed(bench: Bench, count: int, *, how: Parked) -> Times:
    park(bench, count, how=how, namespace=HOME)
    with bench.scheduling(ours()):
        bench.quiet()
        mark = bench.audit.mark()
        began = time.time()
        bench.must("PATCH", f"{QUEUES}/{QUEUE}", {"spec": {"state": "Open"}})
        return since(began, bench.binds(mark, count=count))


ROWS = {
    "resume-1000": partial(found, parked=1_000, ways=tuple(Parked)),
    "resume-5000": partial(found, parked=5_000, ways=(Parked.BY_GATE,)),
}
