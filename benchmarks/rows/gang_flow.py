"""Gangs of a queue with a quota, while all runs: a large one, and many small ones; beside single pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import TypeVar

import msgspec

from benchmarks import flows, scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Goal, Line, RowResult, at_least, at_most
from benchmarks.flows import Flow
from benchmarks.interleaved import in_turns
from benchmarks.objects import (
    GROUPED_BY,
    QUEUE,
    Object,
    Request,
    creations,
    podgroup,
    podgroups_path,
    pods,
    pods_path,
)
from benchmarks.resume_times import Times, since
from benchmarks.scheduler_configurations import ours
from localcluster.build import Say

#: The large gang; the pods of all small ones, and of each.
LARGE, PODS, SMALL, NODES = 100, 300, 4, 100
ROOM = {"cpu": "1000", "pods": "100k"}
GANG, SINGLE = "a gang", "as many single pods"
GANGS, SINGLES = f"pods of gangs of {SMALL}", "single pods"
GROUPED = f"{GANGS}, PodGroups there before"


T = TypeVar("T")


class Bound(msgspec.Struct, frozen=True):
    """The last bind, in seconds: since the first creation, and since the last one."""

    since_first: float
    since_last: float

    def __str__(self) -> str:
        return f"last bind {self.since_last:.2f} s after the last creation ({self.since_first:.2f} in all)"


def measure(say: Say) -> RowResult:
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        bench.install()
        bench.queue(QUEUE, state="Open", capability=ROOM)
        numbers = count()
        large = in_turns(
            {name: partial(_large, bench, numbers, way) for name, way in _LARGE.items()}, told=str, say=say
        )
        small = in_turns(
            {name: partial(_small, bench, numbers, way) for name, way in _SMALL.items()}, told=str, say=say
        )
    return RowResult(
        title="Gangs with a quota, live",
        about=f"One gang of {scale.scaled(LARGE)} pods, and {scale.scaled(PODS)} pods in gangs of {SMALL}, "
        f"of a queue with a capability that has room for all, on {scale.scaled(NODES)} nodes. A client in Go "
        "creates PodGroups and pods over eight connections while a scheduler with its default settings is at "
        "work. Times are by the audit log. A gang can start with its last pod, of single pods each with its "
        "own creation. The PodGroup of the large gang is there before. Those of small gangs are created each "
        f"before its pods, or all of them before anything is measured. {flows.ABOUT}",
        lines=(
            _bind(large, "creation of the last one", lambda each: each.since_last, at_most(1.5)),
            _bind(large, "creation of the first one", lambda each: each.since_first),
            *_rates(small, GANGS, SINGLES, at_least(0.9)),
            *_rates(small, GROUPED, SINGLES),
        ),
    )


def _bind(
    seen: Mapping[str, Sequence[Bound]],
    since_when: str,
    figure: Callable[[Bound], float],
    goal: Goal | None = None,
) -> Line:
    return Line(
        what=f"last bind of {GANG} of {scale.scaled(LARGE)}, from the {since_when}",
        beside=SINGLE,
        unit="s",
        ours=tuple(map(figure, seen[GANG])),
        theirs=tuple(map(figure, seen[SINGLE])),
        goal=goal,
    )


def _rates(
    seen: Mapping[str, Sequence[Flow]], of: str, beside: str, goal: Goal | None = None
) -> Iterator[Line]:
    return flows.lines(of, beside=beside, ours=seen[of], theirs=seen[beside], goal=goal)


# What is created


class _Way(msgspec.Struct, frozen=True):
    """`is_grouped`: with PodGroups; `before`: which are there before anything is measured."""

    is_grouped: bool
    before: bool = False


_LARGE = {SINGLE: _Way(is_grouped=False), GANG: _Way(is_grouped=True, before=True)}
_SMALL = {
    SINGLES: _Way(is_grouped=False),
    GANGS: _Way(is_grouped=True),
    GROUPED: _Way(is_grouped=True, before=True),
}


def _large(bench: Bench, numbers: Iterator[int], way: _Way) -> Bound:
    total = scale.scaled(LARGE)
    pods_of, groups = made(next(numbers), total, size=total, is_grouped=way.is_grouped)
    bench.write(groups)
    with bench.scheduling(ours(percentage=0)):
        bench.quiet()
        mark = bench.audit.mark()
        done = bench.write(pods_of)
        last = bench.binds(mark, count=len(pods_of))[-1]
    _clear(bench, groups)
    return Bound(last - done.began, last - done.ended)


def _small(bench: Bench, numbers: Iterator[int], way: _Way) -> Flow:
    total = scale.scaled(PODS)
    pods_of, groups = made(next(numbers), total, size=SMALL, is_grouped=way.is_grouped)
    if way.before:
        bench.write(groups)
    requests = pods_of if way.before else in_order(pods_of, groups)

    def create_and_bind() -> Times:
        mark = bench.audit.mark()
        began = bench.write(requests).began
        return since(began, bench.binds(mark, count=total))

    with bench.scheduling(ours(percentage=0)):
        created = flows.flow(bench, create_and_bind, count=total)
    _clear(bench, groups)
    return created


def made(number: int, total: int, *, size: int, is_grouped: bool) -> tuple[list[Request], list[Request]]:
    """The creations of so many pods, and of their PodGroups of that size, if there are some."""
    bodies, groups = pods(total, prefix=f"pod-{number}", queue=QUEUE), list[Object]()
    for at, members in enumerate(in_parts(bodies, size)) if is_grouped else ():
        name = f"gang-{number}-{at}"
        groups.append(podgroup(name, queue=QUEUE, least=len(members)))
        for body in members:
            body["metadata"]["annotations"][GROUPED_BY] = name
    return list(creations(pods_path(), bodies)), list(creations(podgroups_path(), groups))


def in_order(pods_of: Sequence[Request], groups: Sequence[Request]) -> list[Request]:
    """Each PodGroup, and then its pods."""
    if not groups:
        return list(pods_of)
    size = -(-len(pods_of) // len(groups))
    return [
        each
        for group, members in zip(groups, in_parts(pods_of, size), strict=True)
        for each in (group, *members)
    ]


def in_parts(each: Sequence[T], size: int) -> list[Sequence[T]]:
    return [each[start : start + size] for start in range(0, len(each), size)]


def _clear(bench: Bench, groups: Sequence[Request]) -> None:
    bench.clear()
    names = (each.body["metadata"]["name"] for each in groups if each.body is not None)
    bench.write([Request("DELETE", f"{podgroups_path()}/{name}") for name in names])
