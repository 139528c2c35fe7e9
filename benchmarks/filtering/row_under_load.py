"""A filter call while the server has other things to do, beside the Go extender under the same load.

Most of the load comes from a replay (`benchmarks.syncing.replayed_list`): watch events of members, or
lists of all pods again and again. Only the one that is asked runs, so that neither takes from the other.
A resume is no replay (`benchmarks.filtering.during_resume`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.filtering import during_resume, go_extender
from benchmarks.filtering.row import (
    Figures,
    Pair,
    ask,
)
from benchmarks.go_programs import built
from benchmarks.syncing.replayed_list import (
    MEMBERS,
    PODS,
    Large,
    record,
    replayed,
    serving,
)
from benchmarks.target import our_extender
from localcluster.build import Say

NAMES = 100
#: What is asked of the replay: an event a millisecond; a list soon after there was one.
LOADS: Mapping[str, tuple[str, ...]] = {
    "under 1,000 pod events a second": ("-events", "1000"),
    "during full lists": ("-events", "100", "-expires", "100ms"),
}
#: Until the load has set in.
SETTING_IN = 1.0


def measure(say: Say) -> RowResult:
    with running(nodes=1, say=say) as bench:
        recorded = record(bench)
        seen = {words: _pairs(bench, recorded, load) for words, load in LOADS.items()}
    seen[f"during the resume of {during_resume.PARKED:,} parked pods"] = during_resume.pairs(say, names=NAMES)
    lines = [line for words, pairs in seen.items() for line in _lines(pairs, words)]
    for line in lines:
        say(f"{line.what}: {line.ratio}")
    return RowResult(
        title="Filter under load",
        about=f"Serial calls with {NAMES} names over one TLS connection. **Recorded and multiplied:** "
        f"{scale.scaled(PODS):,} pods, {scale.scaled(MEMBERS):,} of them members, from a replay. "
        "The Go extender follows the same pods and queues; it keeps all of them. "
        f"{during_resume.ABOUT}",
        lines=tuple(lines),
    )


def _pairs(bench: Bench, recorded: bytes, load: tuple[str, ...]) -> list[Pair]:
    with replayed(bench, recorded, *load) as large:
        return [(_ours(bench, large), _theirs(bench, large)) for _ in scale.rounds()]


def _lines(pairs: Sequence[Pair], words: str) -> Iterator[Line]:
    for key, part in (("p50_us", "p50"), ("p99_us", "p99")):
        yield Line(
            what=f"{part} of a filter call, {NAMES} names, {words}",
            beside="the Go extender, same load",
            unit="µs",
            ours=tuple(mine[key] for mine, _ in pairs),
            theirs=tuple(other[key] for _, other in pairs),
            goal=at_most(1.5 if part == "p50" else 3.0),
        )


def _ours(bench: Bench, large: Large) -> Figures:
    with serving(bench, large):
        time.sleep(SETTING_IN)
        target = our_extender(bench.cluster)
        return ask(built("worker/load", say=bench.say), target, NAMES)


def _theirs(bench: Bench, large: Large) -> Figures:
    arguments = go_extender.following(bench.cluster, url=large.url)
    with go_extender.serving(*arguments, say=bench.say) as target:
        time.sleep(SETTING_IN)
        return ask(built("worker/load", say=bench.say), target, NAMES)
