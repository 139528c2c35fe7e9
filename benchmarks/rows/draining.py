"""A queue of running pods, emptied and given back."""

from __future__ import annotations

import time

from benchmarks import deployment_pods, scale
from benchmarks.bench import Bench, running
from benchmarks.deployment_pods import DEPLOYMENTS
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.objects import QUEUE
from benchmarks.resume_times import GATE, since, ungate_and_bind
from benchmarks.scheduler_configurations import (
    RECOMMENDED_PERCENTAGE,
    ours,
    plain,
)
from localcluster.build import Say

PODS, NODES = 1_000, 500
BY_HAND = "their gates taken off by hand, nothing installed"


def measure(say: Say) -> RowResult:
    seen: dict[str, list[float]] = {"drained": [], "back": [], "deleted": [], "fresh": [], "by hand": []}
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
        "creation of their Deployments to the last bind, and `kubectl delete` of them; and such pods with a "
        "gate of any name, which a client in Go takes off. No scheduler is at "
        "work while pods go: it would bind those that come after a plain delete. The replacements are told "
        "why they wait once the evictions have been sent.",
        lines=(
            _line(
                "drain of running pods", "`kubectl delete` of the same", seen["drained"], seen["deleted"], 1.5
            ),
            _line("giving them back, last bind", "the same pods fresh", seen["back"], seen["fresh"], 1.8),
            _line("giving them back, last bind", BY_HAND, seen["back"], seen["by hand"], None),
            _line(f"last bind, {BY_HAND}", "the same pods fresh", seen["by hand"], seen["fresh"], None),
        ),
    )


def _line(what: str, beside: str, mine: list[float], theirs: list[float], goal: float | None) -> Line:
    return Line(
        what=what,
        beside=beside,
        unit="s",
        ours=tuple(mine),
        theirs=tuple(theirs),
        goal=None if goal is None else at_most(goal),
    )


def _round(bench: Bench) -> dict[str, float]:
    """All five, in seconds; nothing is left."""
    bench.remove()
    with bench.scheduling(plain(RECOMMENDED_PERCENTAGE)):
        anew = _made(bench)
        deployment_pods.await_all_running(bench, replicas=_replicas())
    deleted = deployment_pods.empty(bench, lambda: deployment_pods.delete_by_kubectl(bench))
    deployment_pods.clear(bench)
    by_hand = _let_go_by_hand(bench)
    deployment_pods.clear(bench)
    bench.install()
    bench.queue(QUEUE, state="Open", stopPolicy="None")
    deployment_pods.create(bench, queue=QUEUE, replicas=_replicas())
    with bench.scheduling(ours()):
        deployment_pods.await_all_running(bench, replicas=_replicas())
    drained = deployment_pods.empty(bench, lambda: deployment_pods.set_stop_policy(bench, "HoldAndDrain"))
    with bench.scheduling(ours()):
        back = _given_back(bench)
    deployment_pods.clear(bench)
    return {"drained": drained, "back": back, "deleted": deleted, "fresh": anew, "by hand": by_hand}


def _made(bench: Bench) -> float:
    """Seconds to the last bind of pods of no queue."""
    bench.quiet()
    mark = bench.audit.mark()
    began = deployment_pods.create(bench, queue="", replicas=_replicas()).began
    return since(began, bench.binds(mark, count=_replicas() * DEPLOYMENTS)).last


def _let_go_by_hand(bench: Bench) -> float:
    """Seconds to the last bind of gated pods of no queue, from the first patch that takes a gate off."""
    deployment_pods.create(bench, queue="", replicas=_replicas(), schedulingGates=[GATE])
    deployment_pods.await_pods(bench, replicas=_replicas())
    with bench.scheduling(plain(RECOMMENDED_PERCENTAGE)):
        return ungate_and_bind(bench, _replicas() * DEPLOYMENTS).last


def _given_back(bench: Bench) -> float:
    """Seconds to the last bind of the replacements."""
    deployment_pods.await_pods(bench, replicas=_replicas())
    bench.quiet()
    mark, began = bench.audit.mark(), time.time()
    deployment_pods.set_stop_policy(bench, "None")
    return since(began, bench.binds(mark, count=_replicas() * DEPLOYMENTS)).last


def _replicas() -> int:
    return max(1, scale.scaled(PODS) // DEPLOYMENTS)
