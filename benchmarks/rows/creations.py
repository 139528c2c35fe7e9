"""Creations a second of member pods, and of pods of no queue."""

from __future__ import annotations

from functools import partial

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult, at_least
from benchmarks.go_webhook import answering
from benchmarks.interleaved import in_turns
from benchmarks.objects import QUEUE, pods
from localcluster.build import Say

PODS = 2_000
WAYS = ("none", "all", "others", "unmanaged", "go")
BARE, GO = "no webhooks, no server", "a webhook in Go that answers the same patch"
#: The last line is what a webhook in Go, which looks up nothing, leaves of a plain creation: a goal above it
#: cannot be reached by any webhook.
LINES = (
    ("all", "none", "creations/s of member pods, all webhooks on", BARE, at_least(0.75)),
    ("all", "go", "creations/s of member pods, all webhooks on", GO, at_least(0.95)),
    ("others", "none", "creations/s of pods of no queue, all webhooks on", BARE, at_least(0.97)),
    ("unmanaged", "none", "creations/s of pods of a namespace that is not managed", BARE, at_least(0.97)),
    ("go", "none", "creations/s of member pods, a webhook in Go in place of our server", BARE, None),
)


def measure(say: Say) -> RowResult:
    with running(nodes=10, say=say) as bench:
        ways = {way: partial(_measured, bench, way) for way in WAYS}
        rates = in_turns(ways, told=lambda rate: f"{rate:.0f} pods/s", say=say)
    return RowResult(
        title="Creating pods",
        about=f"{scale.scaled(PODS):,} pods created over eight connections by a client in Go; no "
        "scheduler runs. Members are of an open queue. The webhook in Go looks up nothing; our other "
        "webhooks and policies are registered as ever, and no server of ours runs. Where "
        "the namespace is not managed, all is installed with `manifests/managed-namespaces`.",
        lines=tuple(
            Line(
                what=what,
                beside=beside,
                unit="/s",
                ours=tuple(rates[way]),
                theirs=tuple(rates[other]),
                goal=goal,
            )
            for way, other, what, beside, goal in LINES
        ),
    )


def _measured(bench: Bench, way: str) -> float:
    if way == "none":
        bench.remove()
    else:
        bench.install(managed=way == "unmanaged")
    if way in ("all", "others", "go"):
        bench.queue(QUEUE, state="Open")
    if way != "go":
        return _rate(bench, queue=QUEUE if way == "all" else "")
    with answering(bench):
        return _rate(bench, queue=QUEUE)


def _rate(bench: Bench, *, queue: str) -> float:
    bench.quiet()
    done = bench.create_pods(pods(scale.scaled(PODS), queue=queue))
    bench.clear()
    return done.rate
