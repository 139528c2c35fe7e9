"""How long a drain takes beside `kubectl delete` of the same pods, and what it must not have done meanwhile.

On one cluster, in turns: the tree is drained, held and given back; then it is held, and the same pods are
deleted. Both end when the last of those that were to go is gone, as a watch sees it.

`PODS` is how many run (5000), `ROUNDS` how often both are done, each time with new Jobs (1).
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.drain_at_scale.load import OURS, PARENT, STAYS, Load, Size
from benchmarks.drain_at_scale.watching import PodWatch
from localcluster import processes
from localcluster.cluster import LocalCluster

PODS = int(os.environ.get("PODS", "5000"))
ROUNDS = int(os.environ.get("ROUNDS", "1"))
#: Pods a node: kubelet's own limit is 110.
CROWD = 100


@dataclass(frozen=True)
class Round:
    """Seconds: until all were gone, until the queue said so, until all was back, by `kubectl delete`.

    `memory`: VmRSS before, VmRSS after, VmHWM after, in MiB, of all processes of the server.
    """

    drained: float
    told: float
    given_back: float
    deleted: float
    memory: tuple[float, float, float]

    @property
    def ratio(self) -> float:
        return self.drained / self.deleted


def page() -> str:
    """Measure, and tell it as a page. Raises `RuntimeError` if anything was done that must not be."""
    size = Size.of(PODS)
    with tempfile.TemporaryDirectory() as folder:
        cluster = LocalCluster.start(Path(folder) / "cluster", nodes=-(-size.pods // CROWD), say=_say)
        try:
            bench = Bench(cluster, size)
            rounds = [bench.round() for _ in range(ROUNDS)]
        finally:
            cluster.stop()
    return _page(size, rounds)


class Bench:
    """The load in a cluster."""

    def __init__(self, cluster: LocalCluster, size: Size) -> None:
        self._cluster = cluster
        self._size = size
        self._load = Load(cluster, size)
        self._load.make_queues()
        self._load.make_budgets()
        self._watch = PodWatch(cluster, wanted={budget.key: budget.wanted for budget in self._load.budgets})

    def round(self) -> Round:
        """Drained, given back, deleted; nothing is left of it."""
        self._load.make_work()
        self._all_run()
        before = self._memory()
        drained, told = self._drained()
        self._nothing_was_lost()
        given_back = self._given_back()
        after = self._memory()
        found = Round(drained, told, given_back, self._deleted(), (before[0], *after))
        _say(f"{found}")
        self._removed()
        return found

    def _drained(self) -> tuple[float, float]:
        going, kept = self._watch.running(stays=""), self._watch.running(stays="kept")
        _must_be(len(going), self._size.going, "pods that are to go")
        began = time.monotonic()
        self._load.patch_queue(stopPolicy="HoldAndDrain", drain={"keep": {"matchLabels": {STAYS: "kept"}}})
        gone = self._wait("the pods to go", lambda: self._watch.are_gone(going), doing=self._load.move)
        told = self._until("the queues to say so", self._is_over)
        _must_be(self._watch.running(stays="kept"), kept, "kept pods")
        _must_be(len(self._watch.running()), self._size.kept + self._size.never, "pods that run still")
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
        self._load.move_back()
        alone = self._size.bare - self._size.kept
        began = time.monotonic()
        self._load.patch_queue(stopPolicy="None")
        back = self._wait("all to be back", lambda: self._watch.number() == self._size.pods - alone)
        jobs = self._load.jobs()
        whole = [job for job in jobs if not job["spec"].get("suspend") and not job["status"].get("failed")]
        _must_be(len(whole), self._size.jobs, "Jobs that are back")
        return back - began

    def _deleted(self) -> float:
        """By `kubectl delete`, in a held queue, so that no replacement runs."""
        self._load.make_bare()
        self._all_run()
        self._held()
        going = self._watch.running(stays="")
        _must_be(len(going), self._size.going, "pods that are to go")
        layout = self._cluster.layout
        command = [
            layout.bin / "kubectl",
            "--kubeconfig",
            layout.kubeconfig,
            "delete",
            "pods",
            "--all-namespaces",
        ]
        began = time.monotonic()
        subprocess.run([*command, "--selector", f"{OURS},!{STAYS}"], check=True, stdout=subprocess.DEVNULL)
        return self._wait("the pods to go", lambda: self._watch.are_gone(going)) - began

    def _held(self) -> None:
        self._load.patch_queue(stopPolicy="Hold")
        self._until(
            "the hold to be acknowledged", lambda: _reason(self._load.queues()[PARENT], "Active") == "Stopped"
        )

    def _removed(self) -> None:
        self._load.patch_queue(stopPolicy="None")
        self._load.remove_work()
        self._wait("the load to go", lambda: self._watch.number() == 0)

    def _all_run(self) -> None:
        began = time.monotonic()
        ended = self._wait("the load to run", lambda: self._watch.number() == self._size.pods)
        _say(f"{self._size.pods} pods run after {ended - began:.0f} s")

    def _wait(
        self, what: str, holds: Callable[[], bool], doing: Callable[[], object] = lambda: None
    ) -> float:
        return self._watch.wait(what, holds, doing=doing)

    def _until(self, what: str, holds: Callable[[], bool]) -> float:
        """As `_wait`, for what no pod tells."""
        found = False

        def look() -> None:
            nonlocal found
            found = holds()

        return self._wait(what, lambda: found, doing=look)

    def _memory(self) -> tuple[float, float]:
        """VmRSS and VmHWM of the server's processes, in MiB."""
        living = processes.find(self._cluster.layout.folder)
        found = [_memory(each.pid) for each in living if each.component == "server"]
        return sum(each["VmRSS"] for each in found), sum(each["VmHWM"] for each in found)


def _memory(pid: int) -> dict[str, float]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = dict(line.split(":", 1) for line in lines)
    return {name: int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")}


def _reason(queue: Object, kind: str) -> str:
    """Of a condition that is of the queue's present generation."""
    for condition in queue["status"].get("conditions", ()):
        if condition["type"] == kind and condition["observedGeneration"] == queue["metadata"]["generation"]:
            return str(condition["reason"])
    return ""


def _must_be(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise RuntimeError(f"{what}: {found!r} instead of {wanted!r}")


def _page(size: Size, rounds: list[Round]) -> str:
    ratios = [each.ratio for each in rounds]
    last = rounds[-1]
    return f"""# A drain at scale

{size.pods:,} running pods: {size.jobs} Jobs of {size.parallelism}, {size.deployments} Deployments of {size.replicas}, \
{size.bare} bare ones; in ten queues below one, which is drained,
held and given back. 20 PodDisruptionBudgets: 9 let all their pods go at once, 9 in steps, 2 never
(`benchmarks/drain_at_scale/load.py`). On a real control plane with kwok, beside `kubectl delete` of the same
{size.going:,} pods of the same, held queues. Rounds: {len(rounds)}. Again: `make bench ROW=drain`
(`PODS=500` for a trial, `ROUNDS=3` for more).

Seen from outside, by a watch, in each round: no budget overrun, no kept pod gone, no pod failed, every Job
back as it was, and exactly the two budgets that never let go named as blocking, for good.

| | |
|---|---:|
| time until the last pod was gone, by that of `kubectl delete` | {_told(ratios)} |
| until the queues said so as well | {_told([each.told / each.deleted for each in rounds])} |
| from the end of the stop until all ran again | {_told([each.given_back / each.deleted for each in rounds])} |
| server memory before, MiB (VmRSS) | {last.memory[0]:.0f} |
| server memory after, MiB (VmRSS) | {last.memory[1]:.0f} |
| its highest, MiB (VmHWM) | {last.memory[2]:.0f} |
"""


def _told(ratios: list[float]) -> str:
    span = f" ({min(ratios):.2f} to {max(ratios):.2f})" if len(ratios) > 1 else ""
    return f"{median(ratios):.2f}{span}"


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
