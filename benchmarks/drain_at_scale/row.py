"""How long a drain takes beside `kubectl delete` of the same pods, and what it must not have done meanwhile.

On one cluster, in turns: the tree is drained, held and given back; then it is held, and the same pods are
deleted. Both end when the last of those that were to go is gone, as a watch sees it.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.drain_at_scale.load import OURS, PARENT, STAYS, Load, Size
from benchmarks.drain_at_scale.pod_watch import PodWatch
from benchmarks.figures import Line, RowResult
from benchmarks.memory import highest, resident
from benchmarks.objects import Object, condition
from benchmarks.scheduler_configurations import ours
from localcluster import processes
from localcluster.build import Say

PODS = 5_000
#: Pods a node: kubelet's own limit is 110.
CROWD = 100


@dataclass(frozen=True)
class Seen:
    """What one round took, in seconds, and the server's memory, in MiB.

    `begun`: from making the load until all of it ran. `gone`, `told`: from the wish to drain until the last
    pod was gone, and until the queues said so. `back`: from the end of the stop until all ran again.
    """

    begun: float
    gone: float
    told: float
    back: float
    deleted: float
    before: float
    after: float
    highest: float


def measure(say: Say) -> RowResult:
    """Raises `RuntimeError` if anything was done that must not be."""
    size = Size.of(scale.scaled(PODS))
    with running(nodes=-(-size.pods // CROWD), say=say) as bench:
        bench.install()
        with bench.scheduling(ours()):
            draining = Draining(bench, size)
            rounds = [draining.round() for _ in scale.rounds()]
    return _found(size, rounds)


class Draining:
    """The load in a cluster, emptied in turns."""

    def __init__(self, bench: Bench, size: Size) -> None:
        self._bench = bench
        self._size = size
        self._load = Load(bench, size)
        self._load.make_queues()
        self._watch = PodWatch(
            bench.cluster, wanted={budget.key: budget.wanted for budget in self._load.budgets}
        )

    def round(self) -> Seen:
        """Drained, given back, deleted; nothing is left of it."""
        say = self._bench.say
        began = time.monotonic()
        self._load.make_work()
        begun = self._all_run() - began
        say(f"{self._size.pods} pods run after {begun:.0f} s")
        self._bench.quiet()
        before, _ = self._memory()
        gone, told = self._drained()
        say(f"drained after {gone:.1f} s, told after {told:.1f} s")
        back = self._given_back()
        after, most = self._memory()
        say(f"back after {back:.1f} s; {before:.0f} MiB before, {after:.0f} after, {most:.0f} at most")
        deleted = self._deleted(self._by_kubectl)
        say(f"deleted after {deleted:.1f} s")
        self._removed()
        return Seen(begun, gone, told, back, deleted, before, after, most)

    def _drained(self) -> tuple[float, float]:
        going, kept = self._watch.running(stays=""), self._watch.running(stays="kept")
        _must_be(len(going), self._size.going, "pods that are to go")
        self._watch.begin()
        began = time.monotonic()
        self._load.stop("HoldAndDrain", drain={"keep": {"matchLabels": {STAYS: "kept"}}})
        gone = self._wait("the pods to go", lambda: self._watch.are_gone(going), doing=self._load.move)
        told = self._until("the queues to say so", self._is_over)
        _must_be(self._watch.running(stays="kept"), kept, "kept pods")
        _must_be(self._watch.number(), self._size.kept + self._size.never, "pods that run still")
        self._nothing_was_lost()
        return gone - began, told - began

    def _is_over(self) -> bool:
        """All that are left are blocked, by those two budgets, for good; and what is kept is told."""
        queues = self._load.queues()
        told = [queue["status"].get("drain") or {} for queue in queues.values()]
        blockers = [blocker for drain in told for blocker in drain.get("blockers", ())]
        return (
            _reason(queues[PARENT], "Drained") == "Blocked"
            and sum(drain.get("left", 0) for drain in told) == self._size.never
            and sum(drain.get("kept", 0) for drain in told) == self._size.kept
            and [blocker["never"] for blocker in blockers] == [True, True]
        )

    def _nothing_was_lost(self) -> None:
        _must_be(self._watch.overruns, [], "budgets that were overrun")
        _must_be(self._watch.failed, set(), "pods that failed")
        jobs = self._load.jobs()
        failed = [job["metadata"]["name"] for job in jobs if job["status"].get("failed")]
        _must_be(failed, [], "Jobs with failed pods")
        _must_be(sum(1 for job in jobs if job["spec"].get("suspend")), self._size.jobs, "suspended Jobs")

    def _given_back(self) -> float:
        """From the end of the stop until all runs that something makes again."""
        self._held()
        alone = self._size.bare - self._size.kept
        began = time.monotonic()
        self._load.stop("None")
        back = self._wait("all to be back", lambda: self._watch.number() == self._size.pods - alone)
        whole = [
            job
            for job in self._load.jobs()
            if not job["spec"].get("suspend") and not job["status"].get("failed")
        ]
        _must_be(len(whole), self._size.jobs, "Jobs that are back")
        return back - began

    def _deleted(self, delete: Callable[[], subprocess.Popen[bytes]]) -> float:
        """By others, in held queues, so that no replacement runs."""
        self._load.make_bare()
        self._all_run()
        self._held()
        self._bench.quiet()
        going = self._watch.running(stays="")
        _must_be(len(going), self._size.going, "pods that are to go")
        began = time.monotonic()
        with delete():
            return self._wait("the pods to go", lambda: self._watch.are_gone(going)) - began

    def _by_kubectl(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                *self._bench.kubectl,
                "delete",
                "pods",
                "--all-namespaces",
                f"--selector={OURS},!{STAYS}",
                "--wait=false",
            ],
            stdout=subprocess.DEVNULL,
        )

    def _held(self) -> None:
        self._load.stop("Hold")
        self._until(
            "the hold to be acknowledged", lambda: _reason(self._load.queues()[PARENT], "Active") == "Stopped"
        )

    def _removed(self) -> None:
        self._load.stop("None")
        self._load.remove_work()
        self._wait("the load to go", lambda: not self._watch.any_is_there())

    def _all_run(self) -> float:
        return self._wait("the load to run", lambda: self._watch.number() == self._size.pods)

    def _wait(
        self, what: str, holds: Callable[[], bool], doing: Callable[[], object] = lambda: None
    ) -> float:
        return self._watch.wait(what, holds, doing=doing)

    def _until(self, what: str, holds: Callable[[], bool]) -> float:
        """As `_wait`, for what no pod tells."""
        seen = False

        def look() -> None:
            nonlocal seen
            seen = holds()

        return self._wait(what, lambda: seen, doing=look)

    def _memory(self) -> tuple[float, float]:
        """What the server's processes hold, and have held at most, in MiB."""
        pids = processes.pids(self._bench.cluster.layout.folder, "server")
        return resident(pids), sum(highest([pid]) for pid in pids)


def _reason(queue: Object, kind: str) -> str:
    """Of a condition, if that is of the queue's present generation."""
    held = condition(queue, kind)
    current = held.get("observedGeneration") == queue["metadata"]["generation"]
    return str(held["reason"]) if current else ""


def _must_be(seen: object, wanted: object, what: str) -> None:
    if seen != wanted:
        raise RuntimeError(f"{what}: {seen!r:.500} instead of {wanted!r:.500}")


def _found(size: Size, rounds: list[Seen]) -> RowResult:
    def line(what: str, beside: str, unit: str, mine: str, other: str) -> Line:
        seen = [tuple(float(getattr(each, key)) for each in rounds) for key in (mine, other)]
        return Line(what=what, beside=beside, unit=unit, ours=seen[0], theirs=seen[1])

    deletion = "`kubectl delete` of the same pods, in held queues"
    return RowResult(
        title="A drain at scale",
        about=f"{size.pods:,} running pods: {size.jobs} Jobs of {size.parallelism}, {size.deployments} "
        f"Deployments of {size.replicas} and {size.bare} bare ones, {size.kept} of them to be kept, in ten "
        "queues below one; that is drained, held and given back. Of 20 PodDisruptionBudgets 9 let all their "
        f"pods go at once, 9 in steps, 2 ({size.never} pods) never: `benchmarks/drain_at_scale/load.py`.",
        lines=(
            line("until the last pod is gone that was to go", deletion, "s", "gone", "deleted"),
            line("until the queues say so too", deletion, "s", "told", "deleted"),
            line("from the end of the stop until all runs again", "making it all", "s", "back", "begun"),
            line("server memory after it (VmRSS)", "before it", "MiB", "after", "before"),
            line("server memory at most (VmHWM)", "before it (VmRSS)", "MiB", "highest", "before"),
        ),
        notes=(
            "Seen from outside, by a watch of all pods, in each round: no budget overrun by an eviction or a "
            "suspended Job, no kept pod gone, no pod and no Job failed, every Job suspended and back.",
            "The two budgets that never let go are named as blocking for good, and nothing else is.",
            "The server's limits are the default ones: 200 evictions a second, 500 in flight.",
        ),
    )
