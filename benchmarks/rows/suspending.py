"""From the write of a stop to its acknowledgement, with many members.

Beside it stand one write, and the least that could work: a Go program that watches the Queue and writes its
status at once, where nothing of ours is registered. It looks at nothing, so it promises nothing.
"""

from __future__ import annotations

import time

from benchmarks import companions, scale
from benchmarks.acknowledgement import acknowledged
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.go_programs import built
from benchmarks.objects import (
    HOME,
    QUEUE,
    pods,
    version,
)
from benchmarks.replicas import joined
from benchmarks.watch import watched
from localcluster.build import Say

MEMBERS, NODES = 10_000, 50
PAIRS = 15
SEVERAL = 3
#: The goals are 15 ms with one replica and 20 with three, on a machine on which one write and its event take
#: 2.5. So the same is asked of every machine: by so many such writes.
GOALS = {1: at_most(15 / 2.5), SEVERAL: at_most(20 / 2.5)}
NOTES = f"/api/v1/namespaces/{HOME}/configmaps"


def measure(say: Say) -> RowResult:
    with running(nodes=NODES, say=say) as bench:
        bench.install()
        bench.queue(QUEUE, state="Open")
        say(f"creating {scale.scaled(MEMBERS):,} running members")
        _fill(bench, scale.scaled(MEMBERS))
        lines = [_line(bench, replicas=1)]
        with joined(bench, more=SEVERAL - 1):
            lines.append(_line(bench, replicas=SEVERAL))
        bench.remove()
        least = _least(bench)
        lines += [_beside_least(line, least) for line in lines]
    return RowResult(
        title="Suspending a queue",
        about=f"{scale.scaled(MEMBERS):,} running members. From before the patch of the Queue until a "
        "client that only watches it reads `Active=False` with that generation. Beside it: a patch "
        "of a ConfigMap, and its event read the same way. And, measured last: the same stop where no "
        "webhook is registered and a small Go program (`benchmarks/stopping`) writes `Active=False` as soon "
        "as it sees the patch, without looking at any pod, bind or replica.",
        lines=tuple(lines),
    )


def _fill(bench: Bench, count: int) -> None:
    """Bound by hand, so that no scheduler is needed."""
    bench.must("POST", NOTES, {"metadata": {"name": "note"}})
    bodies = pods(count, queue=QUEUE)
    bench.create_pods(bodies)
    bench.bind_pods({body["metadata"]["name"]: f"node-{n % NODES}" for n, body in enumerate(bodies)})
    bench.await_running()


def _line(bench: Bench, *, replicas: int) -> Line:
    bench.quiet()
    pairs = [(suspended(bench), _note(bench, number)) for number in range(PAIRS)]
    line = Line(
        what=f"suspend to acknowledged, {replicas} replica{'s' if replicas > 1 else ''}",
        beside="one write and its watch event",
        unit="ms",
        ours=tuple(1000 * stop for stop, _ in pairs),
        theirs=tuple(1000 * note for _, note in pairs),
        goal=GOALS[replicas],
    )
    bench.say(f"{line.what}: {line.ratio}")
    return line


def _least(bench: Bench) -> tuple[float, ...]:
    """Milliseconds of a stop that nobody checks. Nothing of ours runs or is registered."""
    bench.quiet()
    with companions.started(_acknowledging(bench)):
        return tuple(1000 * suspended(bench) for _ in range(PAIRS))


def _acknowledging(bench: Bench) -> list[str]:
    """The command of the Go program that writes the status of a stop at once."""
    pki = bench.cluster.layout.pki
    return [
        *(str(built("stopping", say=bench.say)), "-url", bench.cluster.ports.apiserver_url, "-queue", QUEUE),
        *("-ca", str(pki / "ca.crt"), "-cert", str(pki / "admin.crt"), "-key", str(pki / "admin.key")),
    ]


def _beside_least(line: Line, least: tuple[float, ...]) -> Line:
    return Line(
        what=line.what,
        beside="a status written at once by a Go program, no webhook",
        unit=line.unit,
        ours=line.ours,
        theirs=least,
    )


def suspended(bench: Bench) -> float:
    """Seconds from the write of the stop until its acknowledgement is read; the queue is open again then."""
    took = acknowledged(bench, QUEUE)
    bench.queue(QUEUE, state="Open")
    bench.quiet()
    return took


def _note(bench: Bench, number: int) -> float:
    path = f"{NOTES}/note"
    with watched(bench.cluster, NOTES, since=version(bench.must("GET", path)), name="note") as states:
        began = time.perf_counter()
        written = version(bench.must("PATCH", path, {"data": {"number": f"{time.time()}-{number}"}}))
        next(each for each in states if version(each) == written)
        return time.perf_counter() - began
