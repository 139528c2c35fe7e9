"""Binds a second of members of an open queue, beside the scheduler alone and beside an extender in Go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from benchmarks import bind_costs, scale
from benchmarks.backlog import (
    Bound,
    backlog,
    bind,
    costs,
)
from benchmarks.bench import Bench, running
from benchmarks.figures import Goal, Line, RowResult, at_least
from benchmarks.filtering.go_extender import following, serving
from benchmarks.interleaved import in_turns
from benchmarks.objects import QUEUE, pods
from benchmarks.scheduler_configurations import (
    RECOMMENDED_PERCENTAGE,
    asking,
    ours,
    plain,
)
from localcluster.build import Say

PODS, NODES = 2_000, 500
SAME = f"percentageOfNodesToScore: {RECOMMENDED_PERCENTAGE}"

#: What ours is put beside: how that is measured, in words, and the goal.
BESIDE: tuple[tuple[str, str, Goal], ...] = (
    ("plain", "nothing installed, default settings", at_least(0.85)),
    ("plain, same", f"nothing installed, {SAME} too", at_least(0.70)),
    ("twin", f"the Go extender, {SAME} too", at_least(1.05)),
)
Seen = Mapping[str, Sequence[Bound]]


def measure(say: Say) -> RowResult:
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        ways = {name: partial(measured, bench) for name, measured in WAYS.items()}
        bound = in_turns(ways, told=str, say=say)
    return RowResult(
        title="Members of an open queue",
        about=f"{scale.scaled(PODS):,} members on {scale.scaled(NODES)} nodes, there before the scheduler "
        "is; from the first bind to the last by the audit log. The Go extender follows the same "
        "pods and queues, keeps them and answers the same, with our webhooks and policies registered as "
        "ever; it writes nothing. Beside nothing installed it shows what any extender costs.",
        lines=(
            *(_line(bound, *row) for row in BESIDE),
            Line(
                what="binds/s of members, the Go extender in place of ours",
                beside=BESIDE[0][1],
                unit="/s",
                ours=tuple(each.rate for each in bound["twin"]),
                theirs=tuple(each.rate for each in bound["plain"]),
            ),
            *(_cost(bound, other, words) for other, words, _ in BESIDE if other != "twin"),
        ),
        notes=(
            bind_costs.note(
                {SAME: costs(bound["ours"])} | {words: costs(bound[other]) for other, words, _ in BESIDE}
            ),
        ),
    )


def _line(bound: Seen, other: str, words: str, goal: Goal) -> Line:
    return Line(
        what=f"binds/s of members, {SAME}",
        beside=words,
        unit="/s",
        ours=tuple(each.rate for each in bound["ours"]),
        theirs=tuple(each.rate for each in bound[other]),
        goal=goal,
    )


def _cost(bound: Seen, other: str, words: str) -> Line:
    return bind_costs.line(
        f"members, {SAME}", beside=words, ours=costs(bound["ours"]), theirs=costs(bound[other])
    )


def _plain(percentage: int) -> Callable[[Bench], Bound]:
    def measured(bench: Bench) -> Bound:
        bench.remove()
        return bind(bench, pods(scale.scaled(PODS)), edit=plain(percentage))

    return measured


def _ours(bench: Bench) -> Bound:
    bench.install()
    bench.queue(QUEUE, state="Open")
    return bind(bench, pods(scale.scaled(PODS), queue=QUEUE), edit=ours())


def with_go_extender(bench: Bench, *, count: int, percentage: int = RECOMMENDED_PERCENTAGE) -> Bound:
    """Members that are made while ours is there, and bound when the Go extender answers in its place."""
    bench.install()
    bench.queue(QUEUE, state="Open")
    bench.create_pods(pods(count, queue=QUEUE))
    bench.halt()
    with serving(*following(bench.cluster), say=bench.say) as twin:
        edit = asking(twin.url, ca=twin.ca, percentage=percentage)
        bound = backlog(bench, count=count, edit=edit)
    bench.clear()
    return bound


#: In this order, so that everything is put in and taken out about once a round.
WAYS: Mapping[str, Callable[[Bench], Bound]] = {
    "plain": _plain(0),
    "plain, same": _plain(RECOMMENDED_PERCENTAGE),
    "ours": _ours,
    "twin": lambda bench: with_go_extender(bench, count=scale.scaled(PODS)),
}
