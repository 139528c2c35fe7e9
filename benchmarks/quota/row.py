"""The row: what a pass costs, by how many pods wait, and what filter calls notice of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import median, quantiles

from benchmarks import scale
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.growth.costs import Cost, curve, note
from benchmarks.quota import during_passes, passes
from localcluster.build import Say

NUMBERS = (1_000, 5_000, 20_000, 100_000)
#: From here on a size is measured less often.
LARGE = 10_000
ENDS = 400
MEMBERS, WAITING = 100_000, 20_000
#: What a pass over 5,000 is to cost at most, in ms; what one end is to.
GOALS, END_GOAL, MEMORY_GOAL = {"all are released": 100, "none fits": 30}, 1.0, 60


def measure(say: Say) -> RowResult:
    costs = [_cost(say, name, work) for name, work in _WORK.items()]
    notes = [*(note(each) for each in costs), *_at_5000(costs), _one_end(say), _memory(say)]
    calls = during_passes.measure(say)
    return RowResult(
        title="A pass over the pods that wait",
        about=f"Pods of {passes.QUEUES} queues with a capability, of {passes.SIZES} sizes each, in the "
        "controller's own parts in one process: CPU time of a first pass, which reads all pods from the "
        "cache, puts them in order and chooses. The book and the patches are no part of it. Filter calls "
        f"are asked of a real server: {scale.scaled(during_passes.WAITING):,} pods wait in "
        f"{during_passes.BELOW} queues, no two of a queue alike, since all that is left is guaranteed to "
        "another queue; ten times a second a pod of theirs ends, and each time all are looked at again (the "
        "queue above them has a guarantee of its own; without it none would be, since no end frees enough).",
        lines=tuple(_lines(calls)),
        notes=tuple(notes),
        curves=tuple(curve(each) for each in costs),
    )


def _lines(calls: during_passes.Seen) -> Iterator[Line]:
    besides = {
        "the same while all is quiet": calls.quiet,
        "the same beside the ends, nobody waits": calls.ends,
    }
    for beside, theirs in besides.items():
        for key, part in (("p50_us", "p50"), ("p99_us", "p99")):
            yield Line(
                what=f"{part} of a filter call during passes",
                beside=beside,
                unit="µs",
                ours=tuple(each[key] for each in calls.passes),
                theirs=tuple(each[key] for each in theirs),
                goal=at_most(1.5) if part == "p99" else None,
            )


_WORK: dict[str, Callable[[int], float]] = {
    "all are released": passes.all_released,
    "none fits": passes.none_fits,
}


def _cost(say: Say, name: str, work: Callable[[int], float]) -> Cost:
    seen = {}
    for number in NUMBERS:
        count = scale.scaled(number)
        seen[count] = tuple(work(count) for _ in scale.rounds(3 if number > LARGE else 5))
        say(f"{name}: {count:,} pods: {min(seen[count]):.1f} ms at best")
    slug = name.replace(" ", "-")
    return Cost(
        name=f"quota-{slug}", title=f"CPU of a pass, {name}", by="pods that wait", unit="ms", seen=seen
    )


def _at_5000(costs: Sequence[Cost]) -> Iterator[str]:
    for cost, (name, goal) in zip(costs, GOALS.items(), strict=True):
        seen = cost.seen.get(5_000)
        if seen:
            reached = "reached" if median(seen) <= goal else "not reached"
            yield f"5,000 pods, {name}: {median(seen):.0f} ms (goal: at most {goal}, {reached})."


def _one_end(say: Say) -> str:
    took = passes.one_ends(scale.scaled(5_000), ends=scale.scaled(ENDS))
    text = (
        f"One pod ends while {scale.scaled(5_000):,} of {passes.QUEUES} queues wait: the next is chosen "
        f"after {median(took):.2f} ms of CPU, p99 {quantiles(took, n=100)[98]:.2f} ms "
        f"(goal: under {END_GOAL:.0f})."
    )
    say(text)
    return text


def _memory(say: Say) -> str:
    members, waiting = scale.scaled(MEMBERS), scale.scaled(WAITING)
    held = passes.memory(members=members, waiting=waiting)
    text = (
        f"{waiting:,} of {members:,} members wait: what is kept of them for the next pass is {held:.0f} MiB "
        f"(goal: at most {MEMORY_GOAL})."
    )
    say(text)
    return text
