"""The row: what a pass over gangs costs, and one over the same pods without PodGroups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from benchmarks import scale
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.quota import passes
from localcluster.build import Say

GANGS, PODS, QUEUES = 1_000, 8, 50
#: CPU time that a pass over all of them may take, in ms.
GOAL = 200.0
#: Whether there is room for them, by what becomes of them.
FITS: Mapping[str, bool] = {"all are released": True, "none fits": False}


def measure(say: Say) -> RowResult:
    gangs = scale.scaled(GANGS)
    lines: list[Line] = []
    for name, fits in FITS.items():
        ours, singly = list[float](), list[float]()
        for _ in scale.rounds():
            for found, grouped in ((ours, True), (singly, False)):
                took = passes.of_gangs(gangs, gang=PODS, queues=QUEUES, fits=fits, grouped=grouped)
                found.append(took)
        say(f"{name}: {min(ours):.0f} ms at best; without PodGroups {min(singly):.0f}")
        lines += _lines(name, tuple(ours), tuple(singly))
    return RowResult(
        title="A pass over gangs that wait",
        about=f"{gangs:,} gangs of {PODS} pods each, over {QUEUES} queues with a capability, in the "
        "controller's own parts in one process: CPU time of a first pass, which reads all pods from the "
        "cache, finds which gangs are complete, puts them in order and chooses. The book and the patches are "
        "no part of it.",
        lines=tuple(lines),
    )


def _lines(name: str, ours: tuple[float, ...], singly: tuple[float, ...]) -> Iterator[Line]:
    what = f"CPU of a pass over gangs, {name}"
    yield Line(
        what=what,
        beside=f"{GOAL:.0f} ms",
        unit="ms",
        ours=ours,
        theirs=(GOAL,) * len(ours),
        goal=at_most(1.0),
    )
    yield Line(what=what, beside="the same pods without PodGroups", unit="ms", ours=ours, theirs=singly)
