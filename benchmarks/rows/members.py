"""Binds a second of members of an open queue, beside the scheduler alone and beside an extender in Go."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks import sizes
from benchmarks.bench import Bench, running
from benchmarks.configurations import RECOMMENDED_PERCENTAGE, asking, ours, plain
from benchmarks.figures import Found, Goal, Line, at_least
from benchmarks.filtering.twins import following, serving
from benchmarks.scheduling import backlog_rate, bind_rate
from benchmarks.shapes import QUEUE, pods
from localcluster.building import Say

PODS, NODES = 1_000, 500
SAME = f"percentageOfNodesToScore: {RECOMMENDED_PERCENTAGE}"

#: What is put beside what: how the other is measured, in words, how ours is, and the goal.
BESIDE: tuple[tuple[str, str, str, Goal | None], ...] = (
    ("plain", "nothing installed, default settings", "recommended", at_least(0.80)),
    ("plain, same", f"nothing installed, {SAME} too", "recommended", at_least(0.70)),
    ("twin", f"the Go extender, {SAME} too", "recommended", at_least(1.0)),
    ("plain", "nothing installed, default settings", "default", None),
)
WORDS = {"recommended": SAME, "default": "default settings"}


def found(say: Say) -> Found:
    rates: dict[str, list[float]] = {name: [] for name in WAYS}
    with running(nodes=sizes.scaled(NODES), say=say) as bench:
        for number in sizes.rounds():
            for name, measured in WAYS.items():
                rates[name].append(measured(bench))
                say(f"pair {number}: {name}: {rates[name][-1]:.0f} binds/s")
    return Found(
        title="Members of an open queue",
        about=f"{sizes.scaled(PODS):,} members on {sizes.scaled(NODES)} nodes, there before the scheduler "
        "is; from the first bind to the last by the audit log. The Go extender follows the same "
        "pods and queues, keeps them and answers the same; it writes nothing.",
        lines=tuple(_line(rates, *row) for row in BESIDE),
    )


def _line(rates: Mapping[str, list[float]], other: str, words: str, mine: str, goal: Goal | None) -> Line:
    return Line(
        what=f"binds/s of members, {WORDS[mine]}",
        beside=words,
        unit="/s",
        ours=tuple(rates[mine]),
        theirs=tuple(rates[other]),
        goal=goal,
    )


def _plain(percentage: int) -> Callable[[Bench], float]:
    def measured(bench: Bench) -> float:
        bench.remove()
        return bind_rate(bench, pods(sizes.scaled(PODS)), edit=plain(percentage))

    return measured


def _members(percentage: int) -> Callable[[Bench], float]:
    def measured(bench: Bench) -> float:
        bench.install()
        bench.queue(QUEUE, state="Open")
        return bind_rate(bench, pods(sizes.scaled(PODS), queue=QUEUE), edit=ours(percentage))

    return measured


def _twin(bench: Bench) -> float:
    """The pods are made while ours is there, and bound when it is not."""
    bench.install()
    bench.queue(QUEUE, state="Open")
    count = sizes.scaled(PODS)
    bench.create_pods(pods(count, queue=QUEUE))
    bench.remove()
    with serving(*following(bench.cluster), say=bench.say) as (url, ca):
        rate = backlog_rate(bench, count=count, edit=asking(url, ca=ca))
    bench.clear()
    return rate


#: In this order, so that everything is put in and taken out once a round.
WAYS: Mapping[str, Callable[[Bench], float]] = {
    "plain": _plain(0),
    "plain, same": _plain(RECOMMENDED_PERCENTAGE),
    "default": _members(0),
    "recommended": _members(RECOMMENDED_PERCENTAGE),
    "twin": _twin,
}
