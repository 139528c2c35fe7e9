"""The picture of shares: three queues over time, as their work comes and goes, on the real control plane.

Pods of one CPU each. A queue always has so many that it wants; each ends after a while, and the next one is
created. What a queue uses is what its pods with a node request.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Curve, Point, RowResult, spread
from benchmarks.objects import HOME, NAMED_BY, Object, creations, deletions, pod, pods_path
from benchmarks.scheduler_configurations import ours
from localcluster.build import Say

#: The whole, in CPUs.
WHOLE = 40
QUEUES: Mapping[str, Mapping[str, object]] = {
    "research": {"deserved": {"cpu": "20"}},
    "training": {"deserved": {"cpu": "15"}},
    "serving": {"guarantee": {"resource": {"cpu": "5"}}, "deserved": {"cpu": "5"}},
}
NODES = 20
#: For how long a pod runs.
RUNS_SECONDS = 4.0
SAMPLE_SECONDS = 0.5
#: For how long the last stage goes on.
LAST_SECONDS = 15.0


class Stage(msgspec.Struct, frozen=True):
    """From `second` on each queue wants so many CPUs at a time."""

    second: float
    wants: Mapping[str, int]


STAGES = (
    Stage(0, {"research": 60}),
    Stage(15, {"research": 60, "training": 60}),
    Stage(35, {"research": 60, "training": 60, "serving": 5}),
    Stage(50, {"research": 60, "serving": 5}),
)


class Running(msgspec.Struct, frozen=True):
    name: str
    queue: str
    is_bound: bool


class Sharing:
    """The work of the queues, and what was seen of it. For one thread. `now`: seconds since it began."""

    def __init__(self) -> None:
        self.seen: dict[str, list[tuple[float, int]]] = {queue: [] for queue in QUEUES}
        self._bound_since: dict[str, float] = {}
        self._created: Counter[str] = Counter()

    def look(self, pods: Sequence[Running], *, now: float) -> None:
        """What each queue uses at this moment."""
        bound = Counter(each.queue for each in pods if each.is_bound)
        for queue, samples in self.seen.items():
            samples.append((now, bound[queue]))
        for each in pods:
            if each.is_bound:
                self._bound_since.setdefault(each.name, now)

    def ended(self, pods: Sequence[Running], *, now: float) -> list[str]:
        """The pods that have run for long enough, and those that wait though their queue wants none."""
        wants = wanted(now)
        return [
            each.name
            for each in pods
            if (each.is_bound and now - self._bound_since[each.name] >= RUNS_SECONDS)
            or (not each.is_bound and not wants.get(each.queue))
        ]

    def missing(self, pods: Sequence[Running], *, now: float) -> Iterator[Object]:
        """The pods that are to be created, so that each queue has as many as it wants."""
        there = Counter(each.queue for each in pods)
        for queue, count in wanted(now).items():
            for _ in range(count - there[queue]):
                self._created[queue] += 1
                yield _pod(f"{queue}-{self._created[queue]}", queue=queue)


def wanted(now: float) -> Mapping[str, int]:
    """CPUs by queue."""
    return next(stage.wants for stage in reversed(STAGES) if stage.second <= now)


def measure(say: Say) -> RowResult:
    with running(nodes=NODES, say=say) as bench:
        bench.install()
        bench.queue("root", capability={"cpu": str(WHOLE)})
        for name, spec in QUEUES.items():
            bench.queue(name, **spec)
        with bench.scheduling(ours()):
            seen = _run(bench)
    most = max(sum(values) for values in zip(*(_values(each) for each in seen.values()), strict=True))
    say(f"all queues used {most} of {WHOLE} CPUs at most")
    return RowResult(
        title="Shares of three queues over time",
        about=f"`root` has a capability of {WHOLE} CPUs. `research` deserves 20, `training` 15, and "
        "`serving` is guaranteed 5, which are kept free for it. At first only `research` has work, and "
        "borrows. At "
        f"{STAGES[1].second:.0f} s `training` comes, at {STAGES[2].second:.0f} s `serving`, and at "
        f"{STAGES[3].second:.0f} s `training` goes. Each pod requests one CPU and runs for "
        f"{RUNS_SECONDS:.0f} s. Nothing is evicted: what was borrowed comes back as pods end.",
        lines=(),
        notes=(f"In use at one moment, of all queues: {most} of {WHOLE} CPUs at most.",),
        curves=(_curve(seen),),
    )


def _run(bench: Bench) -> Mapping[str, Sequence[tuple[float, int]]]:
    sharing, began = Sharing(), time.monotonic()
    end = STAGES[-1].second + LAST_SECONDS
    end = max(1.0, end * min(1.0, scale.SCALE))
    while (now := time.monotonic() - began) < end:
        pods = _pods(bench)
        sharing.look(pods, now=now)
        ended = sharing.ended(pods, now=now)
        left = [each for each in pods if each.name not in set(ended)]
        requests = [*deletions(pods_path(), ended), *creations(pods_path(), sharing.missing(left, now=now))]
        if requests:
            bench.write(requests)
        time.sleep(max(0.0, SAMPLE_SECONDS - (time.monotonic() - began - now)))
    return sharing.seen


def _pods(bench: Bench) -> list[Running]:
    return [
        Running(
            each["metadata"]["name"],
            each["metadata"]["annotations"][NAMED_BY],
            is_bound="nodeName" in each["spec"],
        )
        for each in bench.must("GET", f"{pods_path(HOME)}?resourceVersion=0")["items"]
    ]


def _pod(name: str, *, queue: str) -> Object:
    made = pod(name, queue=queue)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    return made


def _values(samples: Sequence[tuple[float, int]]) -> Iterator[int]:
    return (used for _, used in samples)


def _curve(seen: Mapping[str, Sequence[tuple[float, int]]]) -> Curve:
    return Curve(
        name="quota-shares",
        title=f"CPUs in use, of {WHOLE}",
        across="seconds",
        up="CPUs",
        series={
            queue: tuple(Point(round(second, 1), spread((float(used),))) for second, used in samples)
            for queue, samples in seen.items()
        },
    )
