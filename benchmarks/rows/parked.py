"""What those pay who wait for nobody while others are parked: binds a second beside parked members."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks import scale
from benchmarks.bench import PATIENCE, Bench, running
from benchmarks.figures import Line, RowResult, at_least
from benchmarks.interleaved import in_turns
from benchmarks.objects import (
    Object,
    condition,
    pods,
    pods_path,
)
from benchmarks.parked_pods import Parked, park
from benchmarks.scheduler_configurations import ours
from localcluster.build import Say
from localcluster.components import until

PODS, NODES = 1_000, 500
#: The parked are elsewhere, so that no bind of the others is asked about.
ELSEWHERE = "parked"
#: Longer than kube-scheduler's first back-off: what it refused once it refuses a second time.
RESTING = 5
#: kube-scheduler tries refused pods again as soon as it has nothing else to do; with this not before their
#: back-off is over.
PATIENT = "--feature-gates=SchedulerPopFromBackoffQ=false"
NONE, BY_GATE, BY_FILTER, PATIENTLY = "none", "gate", "filter", f"filter, {PATIENT}"
WAYS: dict[str, Parked | None] = {
    NONE: None,
    BY_GATE: Parked.BY_GATE,
    BY_FILTER: Parked.BY_FILTER,
    PATIENTLY: Parked.BY_FILTER,
}


def measure(say: Say, *, parked: int, beside: Sequence[str]) -> RowResult:
    """Everything is installed on both sides. `beside`: how those are parked that the others come beside."""
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        bench.install()
        bench.namespace(ELSEWHERE)
        ways = {way: partial(_measured, bench, way, parked=scale.scaled(parked)) for way in (NONE, *beside)}
        rates = in_turns(ways, told=lambda rate: f"{rate:.0f} binds/s", say=say)
    return RowResult(
        title=f"Beside {parked:,} pods parked {_how(beside)}",
        about=f"{scale.scaled(PODS):,} pods of no queue are made on {scale.scaled(NODES)} nodes while the "
        f"scheduler is at work with the recommended settings, beside {scale.scaled(parked):,} members of a "
        "suspended queue in another namespace: from their first bind to their last. Those "
        "parked by filter were pending before the stop, and have been refused twice at least; the scheduler "
        "tries each again when anything is bound.",
        lines=tuple(
            Line(
                what=f"binds/s of others while {parked:,} pods are parked by {way}",
                beside="none parked",
                unit="/s",
                ours=tuple(rates[way]),
                theirs=tuple(rates[NONE]),
                goal=at_least(0.95) if way == BY_GATE else None,
            )
            for way in beside
        ),
    )


def _how(beside: Sequence[str]) -> str:
    return " and ".join(f"by {how}" for how in Parked if how in {WAYS[way] for way in beside})


def _measured(bench: Bench, way: str, *, parked: int) -> float:
    how = WAYS[way]
    if how is not None:
        park(bench, parked, how=how, namespace=ELSEWHERE)
    with bench.scheduling(ours(), flags=[PATIENT] if way == PATIENTLY else []):
        until(lambda: _all_told(bench), what="all that are parked to be told so", seconds=PATIENCE)
        rate = _rate(bench)
    bench.clear(namespace=ELSEWHERE)
    return rate


def _rate(bench: Bench) -> float:
    bench.quiet(windows=RESTING)
    mark, count = bench.audit.mark(), scale.scaled(PODS)
    bench.create_pods(pods(count))
    times = bench.binds(mark, count=count)
    bench.clear()
    return (len(times) - 1) / (times[-1] - times[0])


def _all_told(bench: Bench) -> bool:
    """Whether each parked pod has a condition that says why it waits."""
    held: list[Object] = bench.must("GET", pods_path(ELSEWHERE))["items"]
    return all(condition(each, "PodScheduled") for each in held)


ROWS = {
    "parked-1000": partial(measure, parked=1_000, beside=(BY_GATE, BY_FILTER, PATIENTLY)),
    "parked-5000": partial(measure, parked=5_000, beside=(BY_GATE,)),
    "parked-5000-by-filter": partial(measure, parked=5_000, beside=(PATIENTLY,)),
}
