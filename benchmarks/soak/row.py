"""Twenty minutes of churn, and what the server is like meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Curve, Line, RowResult, at_most
from benchmarks.objects import QUEUE
from benchmarks.scheduler_configurations import ours
from benchmarks.soak import quarters
from benchmarks.soak.pod_churn import (
    ENDING,
    LIFE,
    RATE,
    writes,
)
from benchmarks.soak.queue_churn import (
    DRAINED,
    Turns,
    Visits,
    make_queues,
)
from benchmarks.soak.repeated import Repeated
from benchmarks.soak.samples import (
    NAMES,
    SECONDS,
    Samples,
)
from localcluster.build import Say

NODES = 500
#: Connections of whoever writes the pods.
WRITERS = 2
TURN, VISIT = 5.0, 20.0
#: The first of each: filter calls are over when a queue stops, and that is when another comes.
TURN_AFTER, VISIT_AFTER = 3.0, 9.0
WHOLE = 60 * scale.MINUTES
#: At least three in a quarter.
SAMPLE = min(15.0, WHOLE / 12)


def measure(say: Say) -> RowResult:
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        bench.install()
        make_queues(bench)
        bench.queue(QUEUE, state="Suspended")
        with bench.scheduling(ours()):
            samples, turns, repeated = _soaked(bench)
    return RowResult(
        title="Under churn",
        about=_about(),
        lines=tuple(_lines(samples, turns)),
        notes=tuple(_work_queue(repeated)),
        curves=tuple(_curves(samples, turns)),
    )


def _soaked(bench: Bench) -> tuple[Samples, Turns, Sequence[Repeated]]:
    """All of it; nothing is done any more afterwards."""
    began, ended, say = time.monotonic(), threading.Event(), bench.say
    samples, turns = Samples(bench, began=began), Turns(Bench(bench.cluster, say=say), began=began)
    writer, visits = Bench(bench.cluster, say=say), Visits(Bench(bench.cluster, say=say))

    def write(second: int) -> None:
        writer.write(writes(second, rate=scale.scaled(RATE)), workers=WRITERS)

    repeated = (
        Repeated("pods", write, every=1.0, ended=ended, say=say),
        Repeated("turn", turns.turn, every=TURN, after=TURN_AFTER, ended=ended, say=say),
        Repeated("visit", visits.visit, every=VISIT, after=VISIT_AFTER, ended=ended, say=say),
        Repeated("sample", samples.take, every=SAMPLE, ended=ended, say=say),
    )
    with ExitStack() as stack:
        for each in repeated:
            stack.enter_context(each)
        ended.wait(WHOLE)
    return samples, turns, repeated


def _lines(samples: Samples, turns: Turns) -> Iterator[Line]:
    for what, unit, readings, bound in (
        ("memory of the server", "MiB", samples.memory, 1.10),
        (f"p50 of a filter call, {NAMES} names", "µs", samples.p50, 1.25),
        (f"p99 of a filter call, {NAMES} names", "µs", samples.p99, 1.50),
        ("suspend to acknowledged", "ms", turns.took, 1.25),
        ("open files of the server", "", samples.files, 1.10),
        ("threads of the server", "", samples.threads, 1.10),
    ):
        yield quarters.line(what, unit, readings, whole=WHOLE, goal=at_most(bound))
    yield quarters.line("binds/s", "/s", samples.binds, whole=WHOLE)


def _curves(samples: Samples, turns: Turns) -> Iterator[Curve]:
    for name, title, up, series in (
        ("memory", "Memory of the server", "MiB", {"resident": samples.memory}),
        ("filter", f"One filter call, {NAMES} names", "µs", {"p50": samples.p50, "p99": samples.p99}),
        ("suspend", "Suspend to acknowledged", "ms", {"acknowledged": turns.took}),
        ("open", "What the server holds", "", {"open files": samples.files, "threads": samples.threads}),
    ):
        yield quarters.curve(f"soak-{name}", title, up, series, whole=WHOLE)


def _about() -> str:
    return (
        f"{scale.MINUTES:g} minutes on {scale.scaled(NODES)} nodes, everything installed, the recommended "
        f"scheduler settings. {scale.scaled(RATE)} pods a second are created and as many deleted, {LIFE} s "
        f"later; half of them are members, of eight queues below one; every {ENDING}th ends by itself "
        f"before. Every {TURN:.0f} s the next of the queues is suspended and the one before resumed, each "
        f"{DRAINED}th time another is drained until the next. Every {VISIT:.0f} s a queue, a namespace and "
        f"some pods come and go. Watches end when the server lets them. Every {SAMPLE:.0f} s it is looked "
        "at, and asked about a pod of a queue that is stopped all the time, over one TLS connection, for "
        f"{SECONDS:.0f} s."
    )


def _work_queue(repeated: Sequence[Repeated]) -> Iterator[str]:
    for each in repeated:
        told = f"; {len(each.troubles)} failed, the first: {each.troubles[0]}" if each.troubles else ""
        yield (
            f"{each.name}: {each.calls} times; at most {each.latest:.1f} s late, the longest took "
            f"{each.longest:.1f} s{told}."
        )
