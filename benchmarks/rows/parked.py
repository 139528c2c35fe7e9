"""What those pay who wait for nobody while others are parked: binds a second beside parked members."""

from __future__ import annotations

from functools import partial

from benchmarks import sizes
from benchmarks.bench import Bench, running
from benchmarks.configurations import ours
from benchmarks.figures import Found, Line, at_least
from benchmarks.parking import Parked, park
from benchmarks.scheduling import bind
from benchmarks.shapes import pods
from benchmarks.turns import in_turns
from localcluster.building import Say

PODS, NODES = 1_000, 500
#: The parked are elsewhere, so that no bind of the others is asked about.
ELSEWHERE = "parked"


def found(say: Say, *, parked: int) -> Found:
    """Everything is installed on both sides."""
    with running(nodes=sizes.scaled(NODES), say=say) as bench:
        bench.install()
        bench.namespace(ELSEWHERE)
        ways = {how: partial(_measured, bench, how, parked=sizes.scaled(parked)) for how in ("", *Parked)}
        rates = in_turns(ways, told=lambda rate: f"{rate:.0f} binds/s", say=say)
    return Found(
        title=f"Beside {parked:,} parked pods",
        about=f"{sizes.scaled(PODS):,} pods of no queue on {sizes.scaled(NODES)} nodes, there before the "
        f"scheduler is, beside {sizes.scaled(parked):,} members of a suspended queue in another "
        "namespace. Those parked by filter were pending before the stop: the scheduler tries each "
        "again whenever anything is bound.",
        lines=tuple(
            Line(
                what=f"binds/s of others while {parked:,} pods are parked by {how}",
                beside="none parked",
                unit="/s",
                ours=tuple(rates[how]),
                theirs=tuple(rates[""]),
                goal=goal,
            )
            for how, goal in ((Parked.BY_GATE, at_least(0.95)), (Parked.BY_FILTER, None))
        ),
    )


def _measured(bench: Bench, how: str, *, parked: int) -> float:
    if how:
        park(bench, parked, how=Parked(how), namespace=ELSEWHERE)
    rate = bind(bench, pods(sizes.scaled(PODS)), edit=ours(percentage=0)).rate
    bench.clear(namespace=ELSEWHERE)
    return rate


ROWS = {"parked-1000": partial(found, parked=1_000), "parked-5000": partial(found, parked=5_000)}
