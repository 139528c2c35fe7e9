"""What those pay who wait for nobody while others wait: binds a second, and kube-scheduler's CPU for them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import partial

import msgspec

from benchmarks import scale
from benchmarks.bench import PATIENCE, Bench, running
from benchmarks.figures import Goal, Line, RowResult, at_least
from benchmarks.interleaved import in_turns
from benchmarks.objects import (
    Object,
    condition,
    pods,
    pods_path,
)
from benchmarks.parked_pods import (
    Parked,
    all_gated,
    clear_recreated,
    park,
    park_to_recreate,
    wait_for_no_node,
)
from benchmarks.process_cpu import cpu_seconds
from benchmarks.scheduler_configurations import RECOMMENDED_PERCENTAGE, ours, plain
from localcluster.build import Say
from localcluster.components import until

PODS, NODES = 1_000, 500
#: The parked are elsewhere, so that no bind of the others is asked about.
ELSEWHERE = "parked"
#: Longer than kube-scheduler's first back-off: what it refused once it refuses a second time.
RESTING = 5
#: Each look goes through all pods.
LOOK_SECONDS = 1.0
#: kube-scheduler tries refused pods again as soon as it has nothing else to do; with this not before their
#: back-off is over.
PATIENT = "--feature-gates=SchedulerPopFromBackoffQ=false"


class Way(StrEnum):
    """Who waits meanwhile. The last two are measured with nothing of ours installed."""

    NONE = "none parked"
    BY_GATE = "gate"
    BY_FILTER = "filter"
    PATIENTLY = f"filter, {PATIENT}"
    RECREATED = "filter, then recreated (spec.parked: Recreate)"
    PLAIN = "none pending, nothing of ours installed"
    UNFIT = "pods that no node fits"


_NOTHING_OF_OURS = frozenset({Way.PLAIN, Way.UNFIT})
#: What binds/s are to be of those beside none.
_GOALS: dict[tuple[Way, int], Goal] = {
    (Way.BY_GATE, 1_000): at_least(0.95),
    (Way.BY_GATE, 5_000): at_least(0.95),
    (Way.RECREATED, 1_000): at_least(0.90),
    (Way.RECREATED, 5_000): at_least(0.80),
}


class Measured(msgspec.Struct, frozen=True):
    """`cpu`: seconds of kube-scheduler for 1,000 binds."""

    rate: float
    cpu: float


def measure(say: Say, *, parked: int, beside: Sequence[Way]) -> RowResult:
    """`beside`: how those are parked that the others come beside; all of one installation."""
    none = Way.PLAIN if beside[0] in _NOTHING_OF_OURS else Way.NONE
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        if none is Way.NONE:
            bench.install()
        bench.namespace(ELSEWHERE)
        ways = {
            str(way): partial(_measured, bench, way, parked=scale.scaled(parked)) for way in (none, *beside)
        }
        found = in_turns(ways, told=lambda one: f"{one.rate:.0f} binds/s, {one.cpu:.1f} s for 1,000", say=say)
    return RowResult(
        title=f"Beside {parked:,} {_title(beside)}",
        about=_about(parked, none),
        lines=tuple(
            line
            for way in beside
            for line in (
                Line(
                    what=f"binds/s of others while {_waiting(way, parked)}",
                    beside=str(none),
                    unit="/s",
                    ours=tuple(one.rate for one in found[way]),
                    theirs=tuple(one.rate for one in found[none]),
                    goal=_GOALS.get((way, parked)),
                ),
                Line(
                    what=f"CPU of kube-scheduler for 1,000 binds of others while {_waiting(way, parked)}",
                    beside=str(none),
                    unit="s",
                    ours=tuple(one.cpu for one in found[way]),
                    theirs=tuple(one.cpu for one in found[none]),
                ),
            )
        ),
    )


def _title(beside: Sequence[Way]) -> str:
    if Way.UNFIT in beside:
        return "pods that no node fits"
    if Way.RECREATED in beside:
        return "pods parked by filter that are created again"
    names = [how for how in Parked if any(way.startswith(how) for way in beside)]
    return f"pods parked {' and '.join(f'by {name}' for name in names)}"


def _about(parked: int, none: Way) -> str:
    begin = (
        f"{scale.scaled(PODS):,} pods of no queue are made on {scale.scaled(NODES)} nodes while the "
        "scheduler is at work with the recommended settings, beside "
    )
    end = "from their first bind to their last."
    if none is Way.PLAIN:
        return (
            f"{begin}{scale.scaled(parked):,} pods that no node fits, with nothing of ours installed: {end} "
            "It is what any pods cost that wait without a gate: kube-scheduler looks at each of them "
            "whenever anything is bound."
        )
    return (
        f"{begin}{scale.scaled(parked):,} members of a suspended queue in another namespace: {end} Those "
        "parked by filter were pending before the stop, and have been refused twice at least; the scheduler "
        "tries each again when anything is bound. Everything is installed on both sides."
    )


def _waiting(way: Way, parked: int) -> str:
    return f"{parked:,} {way} wait" if way is Way.UNFIT else f"{parked:,} pods are parked by {way}"


def _measured(bench: Bench, way: Way, *, parked: int) -> Measured:
    match way:
        case Way.BY_GATE:
            park(bench, parked, how=Parked.BY_GATE, namespace=ELSEWHERE)
        case Way.BY_FILTER | Way.PATIENTLY:
            park(bench, parked, how=Parked.BY_FILTER, namespace=ELSEWHERE)
        case Way.RECREATED:
            park_to_recreate(bench, parked, namespace=ELSEWHERE)
        case Way.UNFIT:
            wait_for_no_node(bench, parked, namespace=ELSEWHERE)
    edit = plain(RECOMMENDED_PERCENTAGE) if way in _NOTHING_OF_OURS else ours()
    with bench.scheduling(edit, flags=[PATIENT] if way is Way.PATIENTLY else []):
        if way is Way.RECREATED:
            until(
                lambda: all_gated(bench, parked, namespace=ELSEWHERE),
                what="all to be created again",
                seconds=5 * PATIENCE,
                pause=LOOK_SECONDS,
            )
        until(lambda: _all_told(bench), what="all that are parked to be told so", seconds=PATIENCE)
        measured = _rate(bench)
    if way is Way.RECREATED:
        clear_recreated(bench, namespace=ELSEWHERE)
    bench.clear(namespace=ELSEWHERE)
    return measured


def _rate(bench: Bench) -> Measured:
    bench.quiet(windows=RESTING)
    scheduler = [bench.cluster.pids["kube-scheduler"]]
    mark, count, used = bench.audit.mark(), scale.scaled(PODS), cpu_seconds(scheduler)
    bench.create_pods(pods(count))
    times = bench.binds(mark, count=count)
    used = cpu_seconds(scheduler) - used
    bench.clear()
    return Measured(rate=(len(times) - 1) / (times[-1] - times[0]), cpu=used * 1000 / count)


def _all_told(bench: Bench) -> bool:
    """Whether each parked pod has a condition that says why it waits."""
    held: list[Object] = bench.must("GET", pods_path(ELSEWHERE))["items"]
    return all(condition(each, "PodScheduled") for each in held)


ROWS = {
    "parked-1000": partial(measure, parked=1_000, beside=(Way.BY_GATE, Way.BY_FILTER, Way.PATIENTLY)),
    "parked-5000": partial(measure, parked=5_000, beside=(Way.BY_GATE,)),
    "parked-5000-by-filter": partial(measure, parked=5_000, beside=(Way.PATIENTLY,)),
    "recreated-1000": partial(measure, parked=1_000, beside=(Way.RECREATED,)),
    "recreated-5000": partial(measure, parked=5_000, beside=(Way.RECREATED,)),
    "unfit-1000": partial(measure, parked=1_000, beside=(Way.UNFIT,)),
    "unfit-5000": partial(measure, parked=5_000, beside=(Way.UNFIT,)),
}
