"""How fast pods are bound that a scheduler gets while it is at work, and what they cost meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from benchmarks.allocations import Spent, measured
from benchmarks.bench import Bench
from benchmarks.figures import Goal, Line
from benchmarks.objects import Object
from benchmarks.resume_times import Times, create_and_bind
from localcluster.scheduler_config import Edit

#: How the figures of `lines` are made, for the `about` of a row.
ABOUT = (
    "KiB are what kube-apiserver allocates, CPU time is of the server, kube-scheduler and kube-apiserver: "
    "both from before that moment until all is at rest, the statuses of the kubelets included."
)


class Flow(msgspec.Struct, frozen=True):
    """So many pods, from a moment on."""

    count: int
    times: Times
    spent: Spent

    @property
    def rate(self) -> float:
        """Binds a second from that moment to the last bind."""
        return self.count / self.times.last

    def __str__(self) -> str:
        return f"{self.rate:.0f} binds/s ({self.times}; {self.spent})"


def flow(bench: Bench, work: Callable[[], Times], *, count: int) -> Flow:
    """What came of `work`, which returns when so many pods are bound; the scheduler runs."""
    times: list[Times] = []
    spent = measured(bench, lambda: times.append(work()), count=count)
    return Flow(count, times[0], spent)


def created_live(bench: Bench, bodies: Sequence[Object], *, edit: Edit) -> Flow:
    """Of these pods, created while a scheduler with that configuration is at work; then all is cleared."""
    with bench.scheduling(edit):
        created = flow(bench, lambda: create_and_bind(bench, bodies), count=len(bodies))
    bench.clear()
    return created


def lines(
    pods: str, *, beside: str, ours: Sequence[Flow], theirs: Sequence[Flow], goal: Goal | None = None
) -> Iterator[Line]:
    """Of `pods`; the goal is of the rate."""

    def line(what: str, unit: str, figure: Callable[[Flow], float], goal: Goal | None = None) -> Line:
        return Line(
            what=f"{what} {pods}",
            beside=beside,
            unit=unit,
            ours=tuple(map(figure, ours)),
            theirs=tuple(map(figure, theirs)),
            goal=goal,
        )

    yield line("binds/s of", "/s", lambda each: each.rate, goal)
    yield line("CPU of all components per 1,000 of", "s", lambda each: sum(each.spent.cpu.values()))
    yield line("KiB of kube-apiserver for each of", "KiB", lambda each: each.spent.kib)
