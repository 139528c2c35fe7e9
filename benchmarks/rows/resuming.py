"""How soon parked pods are bound after a resume, beside a plain scheduler that gets the same pods fresh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.filtering.go_extender import following, serving
from benchmarks.interleaved import in_turns
from benchmarks.objects import (
    HOME,
    QUEUE,
    pods,
)
from benchmarks.parked_pods import Parked, park
from benchmarks.resume_times import (
    GATE,
    WRITERS,
    Times,
    fresh,
    resume_and_bind,
    ungate_and_bind,
)
from benchmarks.scheduler_configurations import (
    RECOMMENDED_PERCENTAGE,
    asking,
    ours,
    plain,
)
from localcluster.build import Say
from localcluster.scheduler_config import Edit

NODES = 500
#: What stands beside it: the same pods new; and gated, with nothing installed, let go by a client in Go; and
#: members let go by that client, with an extender in Go.
FRESH, BARE, TWIN = "fresh", "bare", "twin"
BESIDE = {
    FRESH: "the same pods fresh, nothing installed",
    BARE: "their gates taken off by hand, nothing installed",
    TWIN: "gates of members taken off by hand, the Go extender",
}
ABOUT_TWIN = (
    " The Go extender answers in the server's place, with our webhooks and policies registered; nobody "
    "decides anything: what no server in any language does without."
)
#: Of the first and the last bind beside each.
GOALS = {(FRESH, "first"): 1.2, (FRESH, "last"): 1.2, (BARE, "first"): 1.5, (BARE, "last"): 1.1}


def measure(say: Say, *, parked: int, ways: Sequence[Parked], beside: Sequence[str]) -> RowResult:
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        turns = {way: partial(_measured, bench, way, count=scale.scaled(parked)) for way in (*beside, *ways)}
        seen = in_turns(turns, told=str, say=say)
    return RowResult(
        title=f"Resuming {parked:,} parked pods",
        about=f"{scale.scaled(parked):,} members on {scale.scaled(NODES)} nodes: from the patch that "
        "resumes their queue to the bind, by the audit log. Beside it the same scheduler with "
        "nothing installed, from the first creation of as many pods by a client in Go over eight "
        "connections; both with the recommended settings. Gates taken off by hand are patches of the same "
        f"pods by that client over {WRITERS} connections: what the way costs whoever goes it."
        + (ABOUT_TWIN if TWIN in beside else ""),
        lines=tuple(
            Line(
                what=f"{which} bind after the resume of {parked:,} pods parked by {way}",
                beside=BESIDE[other],
                unit="s",
                ours=tuple(getattr(each, which) for each in seen[way]),
                theirs=tuple(getattr(each, which) for each in seen[other]),
                goal=at_most(GOALS[other, which]) if (other, which) in GOALS else None,
            )
            for way in ways
            for other in beside
            for which in ("first", "last")
            if other == FRESH or way == Parked.BY_GATE
        )
        + tuple(_lines_of_twin(seen) if TWIN in beside else ()),
    )


def _lines_of_twin(seen: Mapping[str, Sequence[Times]]) -> Iterator[Line]:
    """What the members and the extender in Go make of it by themselves."""
    for which in ("first", "last"):
        yield Line(
            what=f"{which} bind, {BESIDE[TWIN]}",
            beside=BESIDE[BARE],
            unit="s",
            ours=tuple(getattr(each, which) for each in seen[TWIN]),
            theirs=tuple(getattr(each, which) for each in seen[BARE]),
        )


def _measured(bench: Bench, way: str, *, count: int) -> Times:
    if way == FRESH:
        bench.remove()
        times = fresh(bench, count)
    elif way == BARE:
        bench.remove()
        times = _let_go_by_hand(bench, count, queue="", edit=plain(RECOMMENDED_PERCENTAGE))
    elif way == TWIN:
        bench.install()
        bench.queue(QUEUE, state="Open")
        with serving(*following(bench.cluster), say=bench.say) as twin:
            edit = asking(twin.url, ca=twin.ca)
            times = _let_go_by_hand(bench, count, queue=QUEUE, edit=edit)
    else:
        bench.install()
        times = _resumed(bench, count, how=Parked(way))
    bench.clear()
    return times


def _resumed(bench: Bench, count: int, *, how: Parked) -> Times:
    park(bench, count, how=how, namespace=HOME)
    with bench.scheduling(ours()):
        bench.quiet()
        return resume_and_bind(bench, count)


def _let_go_by_hand(bench: Bench, count: int, *, queue: str, edit: Edit) -> Times:
    """Our server, if it runs, has only to make the pods members."""
    bench.create_pods(pods(count, queue=queue, schedulingGates=[GATE]))
    bench.halt()
    with bench.scheduling(edit):
        return ungate_and_bind(bench, count)


ROWS = {
    "resume-1000": partial(measure, parked=1_000, ways=tuple(Parked), beside=(FRESH, BARE, TWIN)),
    "resume-5000": partial(measure, parked=5_000, ways=(Parked.BY_GATE,), beside=(FRESH, BARE)),
}
