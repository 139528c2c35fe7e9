"""Creations a second of member pods."""

from __future__ import annotations

from functools import partial

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult, at_least
from benchmarks.interleaved import in_turns
from benchmarks.objects import QUEUE, pods
from localcluster.build import Say

PODS = 2_000
WAYS = ("none", "all", "others")
LINES = (
    ("all", "creations/s of member pods, all webhooks on", at_least(0.85)),
    ("others", "creations/s of pods of no queue, all webhooks on", None),
)


def measure(say: Say) -> RowResult:
    with running(nodes=10, say=say) as bench:
        ways = {way: partial(_measured, bench, way) for way in WAYS}
        rates = in_turns(ways, told=lambda rate: f"{rate:.0f} pods/s", say=say)
    return RowResult(
        title="Creating pods",
        about=f"{scale.scaled(PODS):,} pods created over eight connections by a client in Go; no "
        "scheduler runs. Members are of an open queue.",
        lines=tuple(
            Line(
                what=what,
                beside="no webhooks, no server",
                unit="/s",
                ours=tuple(rates[way]),
                theirs=tuple(rates["none"]),
                goal=goal,
            )
            for way, what, goal in LINES
        ),
    )


def _measured(bench: Bench, way: str) -> float:
    if way == "none":
        bench.remove()
    else:
        bench.install()
        bench.queue(QUEUE, state="Open")
    bench.quiet()
    done = bench.create_pods(pods(scale.scaled(PODS), queue="" if way == "others" else QUEUE))
    bench.clear()
    return done.rate
