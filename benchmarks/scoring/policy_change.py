"""From the write of the policies' ConfigMap until every replica scores by it, with many queues.

All queues inherit the policy of `root`. Of two nodes one is used: binpack prefers it, nodeorder the other. So
the answer for a pod says which text counts. `ASKED` queues of all levels have a pod that is asked about, at
each replica by a thread of its own, until all answers are by the new text.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks import scale
from benchmarks.bench import PATIENCE, Bench, running
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.objects import QUEUES, pod, pods_path
from benchmarks.replicas import joined
from benchmarks.rows.trees import plant
from benchmarks.scoring.cluster import await_scores, pending_pod, post
from benchmarks.scoring.policies import BINPACK, NODEORDER, write_policies
from benchmarks.target import Target, our_extender
from localcluster.build import Say

REPLICAS, ASKED, ROUNDS = 3, 20, 10
POLICY = "policy"
USED, FREE = "node-0", "node-1"
SECOND = 1.0


def measure(say: Say) -> RowResult:
    with running(nodes=2, say=say) as bench:
        bench.install()
        write_policies(bench, {POLICY: BINPACK})
        count = plant(bench)
        bench.queue("root", schedulerPolicy=POLICY)
        bench.must("POST", pods_path(), _use(USED))
        pods = _pods(bench)
        with joined(bench, more=REPLICAS - 1) as ports:
            targets = [
                our_extender(bench.cluster, port=port) for port in (bench.cluster.ports.server, *ports)
            ]
            for target in targets:
                for each in pods:
                    await_scores(target, each, (USED, FREE))
            took = tuple(_change(bench, targets, pods, number) for number in scale.rounds(ROUNDS))
    return RowResult(
        title="A change of a scheduling policy",
        about=f"{count:,} queues that inherit a policy, {REPLICAS} replicas: from before the write of the "
        f"ConfigMap until each replica has scored a pod of {len(pods)} of the queues, on all levels, by the "
        "new text. Beside it: one second.",
        lines=(
            Line(
                what=f"change of a policy to its effect, {count:,} queues, {REPLICAS} replicas",
                beside="a second",
                unit="s",
                ours=took,
                theirs=(SECOND,) * len(took),
                goal=at_most(1.0),
            ),
        ),
    )


def _use(node: str) -> dict[str, Any]:
    body = pod("user", nodeName=node)
    body["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "4", "memory": "8Gi"}
    return body


def _pods(bench: Bench) -> list[dict[str, Any]]:
    """One of each of `ASKED` queues; small, for those that are assumed on a node must not decide."""
    names = [
        each["metadata"]["name"]
        for each in bench.must("GET", QUEUES)["items"]
        if each["metadata"]["name"].startswith("level-")
    ]
    step = max(1, len(names) // ASKED)
    return [
        pending_pod(bench, f"asked-{name}", queue=name, cpu="10m", memory="16Mi")
        for name in sorted(names)[::step][:ASKED]
    ]


def _change(bench: Bench, targets: list[Target], pods: list[dict[str, Any]], number: int) -> float:
    text, best = ((NODEORDER, FREE), (BINPACK, USED))[number % 2 == 0]
    bench.quiet()
    with ThreadPoolExecutor(len(targets)) as threads:
        began = time.perf_counter()
        seen = [threads.submit(_await_best, target, pods, best) for target in targets]
        write_policies(bench, {POLICY: text})
        took = max(each.result() for each in seen) - began
    bench.say(f"change {number}: {took:.3f} s")
    return took


def _await_best(target: Target, pods: list[dict[str, Any]], best: str) -> float:
    """When the answer for the last of the pods preferred that node."""
    end = time.monotonic() + PATIENCE
    for each in pods:
        while _best(target, each) != best:
            if time.monotonic() > end:
                raise RuntimeError(f"{target.url} does not score by the new policy")
    return time.perf_counter()


def _best(target: Target, sent: dict[str, Any]) -> str:
    answer = post(target, "prioritize", sent, (USED, FREE))
    return next((each["Host"] for each in answer if each["Score"] == 10), "")
