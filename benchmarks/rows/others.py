"""What those pay who have nothing to do with us: binds a second of pods of no queue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from benchmarks import bind_costs, scale
from benchmarks.backlog import (
    Bound,
    bind,
    costs,
)
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult, at_least
from benchmarks.interleaved import in_turns
from benchmarks.objects import (
    QUEUE,
    pod,
    pods,
    pods_path,
)
from benchmarks.scheduler_configurations import never_asking, ours, plain
from localcluster.build import Say

PODS, NODES = 2_000, 500
#: A pod that waits, and that no scheduler asks anybody about.
NOWHERE = {"bench": "nowhere"}


#: What is put beside nothing installed, in words, and the goal of its rate.
BESIDE = {
    "quiet": ("nothing stopped in their namespace", 0.98),
    "guarded": ("something stopped in their namespace", 0.93),
}
#: Nothing installed, but that entry in the scheduler's configuration: what no extender does without.
ENTRY = "an extender's entry that is asked about no pod"
_WORDS = {"plain": "nothing installed", "entry": ENTRY} | {way: words for way, (words, _) in BESIDE.items()}
Seen = Mapping[str, Sequence[Bound]]


def measure(say: Say) -> RowResult:
    """Everything installed, nothing or something stopped in their namespace, beside nothing installed."""
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        ways = {way: partial(_measured, bench, way) for way in _WORDS}
        bound = in_turns(ways, told=str, say=say)
    return RowResult(
        title="Pods of no queue",
        about=f"{scale.scaled(PODS):,} pods on {scale.scaled(NODES)} nodes, there before the scheduler "
        "is, which has its default settings; from the first bind to the last by the audit log. "
        "With something stopped in their namespace each of their binds is asked about. Beside it, with "
        "nothing installed, a scheduler whose configuration has the entry of an extender that is asked about "
        "no pod.",
        lines=(*_rates(bound), *_costs(bound)),
        notes=(bind_costs.note({words: costs(bound[way]) for way, words in _WORDS.items()}),),
    )


def _rates(bound: Seen) -> Iterator[Line]:
    for way, (words, goal) in BESIDE.items():
        yield Line(
            what=f"binds/s of pods of no queue, everything installed, {words}",
            beside="nothing installed",
            unit="/s",
            ours=tuple(each.rate for each in bound[way]),
            theirs=tuple(each.rate for each in bound["plain"]),
            goal=at_least(goal),
        )
    quiet = BESIDE["quiet"][0]
    for what, way, beside, other in (
        (f"everything installed, {quiet}", "quiet", ENTRY, "entry"),
        (ENTRY, "entry", "nothing installed", "plain"),
    ):
        yield Line(
            what=f"binds/s of pods of no queue, {what}",
            beside=beside,
            unit="/s",
            ours=tuple(each.rate for each in bound[way]),
            theirs=tuple(each.rate for each in bound[other]),
        )


def _costs(bound: Seen) -> Iterator[Line]:
    for way, (words, _) in BESIDE.items():
        yield bind_costs.line(
            words, beside="nothing installed", ours=costs(bound[way]), theirs=costs(bound["plain"])
        )
    quiet, entry = BESIDE["quiet"][0], costs(bound["entry"])
    yield bind_costs.line(quiet, beside=ENTRY, ours=costs(bound["quiet"]), theirs=entry)
    yield bind_costs.line(ENTRY, beside="nothing installed", ours=entry, theirs=costs(bound["plain"]))


def _measured(bench: Bench, way: str) -> Bound:
    bodies = pods(scale.scaled(PODS))
    if way in ("plain", "entry"):
        bench.remove()
        return bind(bench, bodies, edit=never_asking() if way == "entry" else plain())
    bench.install()
    with_guard(bench, on=way == "guarded")
    return bind(bench, bodies, edit=ours(percentage=0))


def with_guard(bench: Bench, *, on: bool) -> None:
    """A queue with a pod in the namespace of the others is stopped, or not."""
    bench.queue(QUEUE, state="Open")
    bench.api.request("DELETE", f"{pods_path()}/stopped?gracePeriodSeconds=0")
    if on:
        bench.must("POST", pods_path(), pod("stopped", queue=QUEUE, labels={}, nodeSelector=NOWHERE))
        bench.queue(QUEUE, state="Suspended")
    bench.await_guard(on=on)
