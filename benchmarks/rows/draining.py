"""A queue of running pods, emptied and given back."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable

from benchmarks import scale
from benchmarks.bench import PATIENCE, Bench, running
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.objects import (
    HOME,
    QUEUE,
    QUEUES,
    creations,
    deployment,
    pods_path,
)
from benchmarks.resume_times import since
from benchmarks.scheduler_configurations import (
    RECOMMENDED_PERCENTAGE,
    ours,
    plain,
)
from localcluster.build import Say
from localcluster.components import until

PODS, NODES, DEPLOYMENTS = 1_000, 500, 10
DEPLOYMENTS_PATH = f"/apis/apps/v1/namespaces/{HOME}/deployments"
#: Each look goes through all pods.
LOOK_SECONDS = 0.25
RUNNING = f"{pods_path()}?limit=1&fieldSelector=status.phase=Running"


def measure(say: Say) -> RowResult:
    seen: dict[str, list[float]] = {"drained": [], "back": [], "deleted": [], "fresh": []}
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        for number in scale.rounds():
            for name, seconds in _round(bench).items():
                seen[name].append(seconds)
            say(f"pair {number}: " + ", ".join(f"{name} {each[-1]:.2f} s" for name, each in seen.items()))
    return RowResult(
        title="Draining and giving back",
        about=f"{_replicas() * DEPLOYMENTS:,} running pods of {DEPLOYMENTS} Deployments: from the patch "
        "of `stopPolicy` until no pod runs, and from the patch that takes it back to the last bind "
        "of the replacements. Beside it, with nothing installed, the same pods fresh, from the first "
        "creation of their Deployments to the last bind, and `kubectl delete` of them. No scheduler is at "
        "work while pods go: it would bind those that come after a plain delete. The replacements are told "
        "why they wait once the evictions have been sent.",
        lines=(
            _line(
                "drain of running pods", "`kubectl delete` of the same", seen["drained"], seen["deleted"], 1.5
            ),
            _line("giving them back, last bind", "the same pods fresh", seen["back"], seen["fresh"], 1.2),
        ),
    )


def _line(what: str, beside: str, mine: list[float], theirs: list[float], goal: float) -> Line:
    return Line(
        what=what, beside=beside, unit="s", ours=tuple(mine), theirs=tuple(theirs), goal=at_most(goal)
    )


def _round(bench: Bench) -> dict[str, float]:
    """All four, in seconds; nothing is left."""
    bench.remove()
    with bench.scheduling(plain(RECOMMENDED_PERCENTAGE)):
        anew = _made(bench)
        _all_run(bench)
    deleted = _emptied(bench, lambda: _kubectl_delete(bench))
    _clear(bench)
    bench.install()
    bench.queue(QUEUE, state="Open", stopPolicy="None")
    bench.write(creations(DEPLOYMENTS_PATH, _deployments(QUEUE)))
    with bench.scheduling(ours()):
        _all_run(bench)
    drained = _emptied(bench, lambda: _wish(bench, "HoldAndDrain"))
    with bench.scheduling(ours()):
        back = _given_back(bench)
    _clear(bench)
    return {"drained": drained, "back": back, "deleted": deleted, "fresh": anew}


def _made(bench: Bench) -> float:
    """Seconds to the last bind of pods of no queue."""
    bench.quiet()
    mark = bench.audit.mark()
    began = bench.write(creations(DEPLOYMENTS_PATH, _deployments(""))).began
    return since(began, bench.binds(mark, count=_replicas() * DEPLOYMENTS)).last


def _emptied(bench: Bench, begin: Callable[[], None]) -> float:
    """Seconds until no pod runs."""
    bench.quiet()
    began = time.perf_counter()
    begin()
    until(
        lambda: not bench.must("GET", RUNNING)["items"],
        what="the last pod to stop running",
        seconds=PATIENCE,
        pause=LOOK_SECONDS,
    )
    return time.perf_counter() - began


def _kubectl_delete(bench: Bench) -> None:
    subprocess.run(
        [*bench.kubectl, "delete", "pods", "--selector=bench=load", f"--namespace={HOME}", "--wait=false"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _given_back(bench: Bench) -> float:
    """Seconds to the last bind of the replacements."""
    count = _replicas() * DEPLOYMENTS
    until(lambda: len(bench.pod_names()) == count, what="all replacements to be there", seconds=PATIENCE)
    bench.quiet()
    mark, began = bench.audit.mark(), time.time()
    _wish(bench, "None")
    return since(began, bench.binds(mark, count=count)).last


def _wish(bench: Bench, policy: str) -> None:
    bench.must("PATCH", f"{QUEUES}/{QUEUE}", {"spec": {"stopPolicy": policy}})


def _all_run(bench: Bench) -> None:
    """As many as the Deployments want."""
    count = _replicas() * DEPLOYMENTS
    until(lambda: len(bench.pod_names()) == count, what="all pods to be there", seconds=PATIENCE)
    bench.await_running()


def _clear(bench: Bench) -> None:
    bench.must("DELETE", f"{DEPLOYMENTS_PATH}?propagationPolicy=Orphan")
    replica_sets = DEPLOYMENTS_PATH.replace("deployments", "replicasets")
    bench.must("DELETE", f"{replica_sets}?propagationPolicy=Orphan")
    until(
        lambda: not bench.must("GET", replica_sets)["items"], what="the ReplicaSets to go", seconds=PATIENCE
    )
    bench.clear()


def _deployments(queue: str) -> list[dict[str, object]]:
    return [deployment(f"app-{number}", queue=queue, replicas=_replicas()) for number in range(DEPLOYMENTS)]


def _replicas() -> int:
    return max(1, scale.scaled(PODS) // DEPLOYMENTS)
