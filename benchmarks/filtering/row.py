"""p50 and p99 of one filter call, as kube-scheduler makes them: serial, keep-alive, TLS.

Ours is the whole server in a running control plane; beside it stands `twin`, a Go program that does the
same work. They are asked in turns, `SECONDS` each.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Curve, Line, Point, RowResult, at_most
from benchmarks.filtering.go_extender import serving
from benchmarks.go_programs import built
from benchmarks.objects import QUEUE
from benchmarks.target import Target, our_extender
from localcluster.build import Say

NAMES = (100, 1_000, 5_000)
SECONDS = 2.0 * min(1.0, scale.SCALE * 4)
#: Of p50, by how many names are sent; the goal between is ours.
GOALS = {100: 1.5, 1_000: 1.5, 5_000: 1.0}

Figures = dict[str, float]
#: Ours, and the other's.
Pair = tuple[Figures, Figures]


def measure(say: Say) -> RowResult:
    load = built("worker/load", say=say)
    with running(nodes=1, say=say) as bench:
        bench.install()
        # Stopped first: a pod that was let through and is never heard of holds up a stop for a while.
        lines = [line for stopped in (True, False) for line in _lines(bench, load, stopped=stopped)]
    return RowResult(
        title="Filter over the real wire",
        about="Ours beside a Go extender that does the same (`benchmarks/filtering/twin`): serial calls "
        f"over one TLS connection, a pod of 4 KiB, {SECONDS:.1f} s each in turns; nothing else goes "
        "on.",
        lines=tuple(lines),
        curves=(_curve(lines),),
    )


def _lines(bench: Bench, load: Path, *, stopped: bool) -> Iterator[Line]:
    bench.queue(QUEUE, state="Suspended" if stopped else "Open")
    ours = our_extender(bench.cluster)
    word = "stopped" if stopped else "open"
    with serving("-stopped", QUEUE if stopped else "another", say=bench.say) as theirs:
        for names in NAMES:
            pairs = [(ask(load, ours, names), ask(load, theirs, names)) for _ in scale.rounds()]
            for key, part in (("p50_us", "p50"), ("p99_us", "p99")):
                line = Line(
                    what=f"{part} of a filter call, {word} queue, {names:,} names",
                    beside="the Go extender",
                    unit="µs",
                    ours=tuple(mine[key] for mine, _ in pairs),
                    theirs=tuple(other[key] for _, other in pairs),
                    goal=at_most(GOALS[names]) if part == "p50" else None,
                )
                bench.say(f"{line.what}: {line.ratio}")
                yield line


def _curve(lines: list[Line]) -> Curve:
    """The ratios by the number of names."""
    series = {
        f"{part}, {word}": tuple(
            Point(names, line.ratio)
            for names in NAMES
            for line in lines
            if line.what == f"{part} of a filter call, {word} queue, {names:,} names"
        )
        for word in ("stopped", "open")
        for part in ("p50", "p99")
    }
    return Curve(
        name="filter", title="One filter call, ours by Go's", across="node names", up="ratio", series=series
    )


def ask(
    load: Path,
    target: Target,
    names: int,
    *,
    seconds: float = SECONDS,
    verb: str = "filter",
    more: Sequence[str] = (),
) -> Figures:
    """One round at one server; raises if any call failed. `more`: further arguments of the load program."""
    url = target.url
    command = [str(load), "request", "-url", f"{url}/{verb}", "-ca", str(target.ca)]
    if target.client is not None:
        certificate, key = target.client
        command += ["-cert", str(certificate), "-key", str(key)]
    command += ["-seconds", str(seconds), "-names", str(names), *more]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    seen: Figures = json.loads(answer.stdout)
    if seen["errors"]:
        raise RuntimeError(f"{seen['errors']} calls to {url} failed")
    return seen
