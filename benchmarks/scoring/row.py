"""p50 and p99 of one prioritize call, as kube-scheduler makes them: serial, keep-alive, TLS.

Ours is the whole server; beside it stands `twin`, a Go extender that computes the same levels from client-go
informers. Both hold the same nodes and pods (see `cluster`). They are asked in turns, `SECONDS` each. Before
anything is measured, both are asked the same once and must give the same levels.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks import scale
from benchmarks.bench import PATIENCE, Bench, running
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.filtering.row import SECONDS, Pair, ask
from benchmarks.go_programs import built
from benchmarks.scoring.cluster import (
    NODE_FORMAT,
    await_scores,
    create_nodes,
    go_extender,
    names,
    pending_pod,
    post,
    stop_node_controllers,
)
from benchmarks.scoring.policies import BINPACK, NODEORDER, write_policies
from benchmarks.syncing.replayed_list import NODES, PODS, Large, record, replayed, serving
from benchmarks.target import Target, our_extender
from localcluster.build import Say
from localcluster.components import until

NAMES = (100, 1_000, 5_000)
GOALS = {"p50": 1.0, "p99": 1.5}
#: A queue for each policy, both of the same name, and what the line calls it.
POLICIES: Mapping[str, tuple[str, str]] = {
    "binpack": (BINPACK, "binpack"),
    "nodeorder": (NODEORDER, "nodeorder (least, balanced)"),
}
#: In an answer that scores: no node of an indifferent one gets it.
BEST = '"Score":10'


def measure(say: Say) -> RowResult:
    with running(nodes=1, say=say) as bench:
        bench.install()
        write_policies(bench, {name: text for name, (text, _) in POLICIES.items()})
        for name in POLICIES:
            bench.queue(name, schedulerPolicy=name)
        recorded = record(bench)
        stop_node_controllers(bench)
        create_nodes(bench, range(max(NAMES)))
        with replayed(bench, recorded) as large, serving(bench, large):
            lines = [line for policy in POLICIES for line in _lines(bench, large, policy)]
    return RowResult(
        title="Prioritize over the real wire",
        about="Ours beside a Go extender that computes the same levels (`benchmarks/scoring/twin`: client-go "
        "informers, net/http, encoding/json): serial calls over one TLS connection, a pod of 4 KiB, "
        f"{SECONDS:.1f} s each in turns; nothing else goes on. Both hold {max(NAMES):,} nodes and "
        f"{scale.scaled(PODS):,} pods on {scale.scaled(NODES):,} of them (**the pods are recorded and "
        "multiplied**), assume the pod on the best node, and were seen to give the same levels.",
        lines=tuple(lines),
    )


def _lines(bench: Bench, large: Large, policy: str) -> Iterator[Line]:
    sent = pending_pod(bench, f"asked-{policy}", queue=policy)
    ours = our_extender(bench.cluster)
    with (
        go_extender(bench, large, "-policy", policy) as (theirs, _),
        tempfile.NamedTemporaryFile("w", suffix=".json") as file,
    ):
        json.dump(sent, file)
        file.flush()
        await_scores(ours, sent, names(10))
        for count in NAMES:
            _await_same_levels(ours, theirs, sent, count)
            pairs = [_pair(bench, ours, theirs, Path(file.name), count) for _ in scale.rounds()]
            for key, part in (("p50_us", "p50"), ("p99_us", "p99")):
                line = Line(
                    what=f"{part} of a prioritize call, {POLICIES[policy][1]}, {count:,} names",
                    beside="the Go extender",
                    unit="µs",
                    ours=tuple(mine[key] for mine, _ in pairs),
                    theirs=tuple(other[key] for _, other in pairs),
                    goal=at_most(GOALS[part]),
                )
                bench.say(f"{line.what}: {line.ratio}")
                yield line


def _pair(bench: Bench, ours: Target, theirs: Target, pod: Path, count: int) -> Pair:
    load = built("worker/load", say=bench.say)
    more = ("-format", NODE_FORMAT, "-pod", str(pod), "-expect", BEST)
    mine, other = (ask(load, target, count, verb="prioritize", more=more) for target in (ours, theirs))
    return mine, other


def _await_same_levels(ours: Target, theirs: Target, sent: dict[str, Any], count: int) -> None:
    """They may differ in which of several equal nodes is chosen, and while another pod is still assumed."""

    def same() -> bool:
        answers = [post(target, "prioritize", sent, names(count)) for target in (ours, theirs)]
        mine, other = (sorted(each["Score"] for each in answer) for answer in answers)
        return mine == other and len(mine) == count

    until(same, what="both to give the same levels", seconds=PATIENCE)
