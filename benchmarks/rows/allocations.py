"""What a pod makes kube-apiserver allocate, and the CPU time of it: what repeats on a busy machine too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from benchmarks import scale
from benchmarks.allocations import Spent, measured
from benchmarks.bench import Bench, running
from benchmarks.figures import Goal, Line, RowResult, at_most, confidence
from benchmarks.interleaved import in_turns
from benchmarks.objects import QUEUE, pods
from benchmarks.scheduler_configurations import ours, plain
from localcluster.build import Say

PODS, NODES = 2_000, 100
PAIRS = 10
#: The steps of one round, by what they are called below.
CREATED, BOUND, MEMBERS = "created", "bound", "members"
#: Everything installed for managed namespaces alone, of which that of the pods is none.
UNMANAGED = "unmanaged"
WAYS = ("plain", "installed", UNMANAGED)
Seen = Mapping[str, Sequence[Mapping[str, Spent]]]


def measure(say: Say) -> RowResult:
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        ways = {way: partial(_measured, bench, way) for way in WAYS}
        seen = in_turns(ways, told=_in_words, say=say, usual=PAIRS)
    lines = tuple(_lines(seen))
    return RowResult(
        title="What a pod costs the API server",
        about=f"{scale.scaled(PODS):,} pods on {scale.scaled(NODES)} nodes: created by a client in Go, then "
        "bound by a scheduler with its default settings, each with one status of its kubelet. KiB are what "
        "kube-apiserver allocates (`go_memstats_alloc_bytes_total`), CPU time is as in `others`; those of a "
        "bind are from before the scheduler is started until all is at rest. Where a namespace is not "
        "managed, all is installed with `manifests/managed-namespaces`.",
        lines=lines,
        notes=tuple(f"{line.what}: mean ratio {confidence(line.ratios)}." for line in lines),
    )


def _lines(seen: Seen) -> Iterator[Line]:
    for what, way, step, beside, goal in (
        ("bind of a pod of no queue", "installed", BOUND, BOUND, at_most(1.05)),
        ("creation of a pod of no queue", "installed", CREATED, CREATED, None),
        ("creation of a pod of a namespace that is not managed", UNMANAGED, CREATED, CREATED, at_most(1.02)),
        ("creation of a member", "installed", MEMBERS, CREATED, None),
    ):
        yield _line(f"KiB per {what}", "KiB", _kib(seen[way], step), _kib(seen["plain"], beside), goal)
    for what, way, step, beside, goal in (
        ("binds of pods of no queue", "installed", BOUND, BOUND, at_most(1.03)),
        ("creations of pods of no queue", "installed", CREATED, CREATED, None),
        ("creations of pods of a namespace that is not managed", UNMANAGED, CREATED, CREATED, None),
        ("creations of members", "installed", MEMBERS, CREATED, None),
    ):
        ours, theirs = _cpu(seen[way], step), _cpu(seen["plain"], beside)
        yield _line(f"CPU per 1,000 {what}, all components", "s", ours, theirs, goal)


def _line(what: str, unit: str, ours: Sequence[float], theirs: Sequence[float], goal: Goal | None) -> Line:
    return Line(
        what=what, beside="nothing installed", unit=unit, ours=tuple(ours), theirs=tuple(theirs), goal=goal
    )


def _kib(rounds: Sequence[Mapping[str, Spent]], step: str) -> list[float]:
    return [each[step].kib for each in rounds]


def _cpu(rounds: Sequence[Mapping[str, Spent]], step: str) -> list[float]:
    return [sum(each[step].cpu.values()) for each in rounds]


def _in_words(steps: Mapping[str, Spent]) -> str:
    return "; ".join(f"{step} {each}" for step, each in steps.items())


def _measured(bench: Bench, way: str) -> dict[str, Spent]:
    count = scale.scaled(PODS)
    steps: dict[str, Spent] = {}
    if way == "plain":
        bench.remove()
    else:
        bench.install(managed=way == UNMANAGED)
    if way == "installed":
        bench.queue(QUEUE, state="Open")
        members = pods(count, queue=QUEUE)
        steps[MEMBERS] = measured(bench, lambda: bench.create_pods(members), count=count)
        bench.clear()
    steps[CREATED] = measured(bench, lambda: bench.create_pods(pods(count)), count=count)
    if way != UNMANAGED:
        steps[BOUND] = measured(
            bench, lambda: _bind(bench, count, plain_scheduler=way == "plain"), count=count
        )
        bench.await_running()
    bench.clear()
    return steps


def _bind(bench: Bench, count: int, *, plain_scheduler: bool) -> None:
    """Returns once all are bound and nothing is left to do for them."""
    mark = bench.audit.mark()
    with bench.scheduling(plain() if plain_scheduler else ours(percentage=0)):
        bench.binds(mark, count=count)
        bench.quiet()
