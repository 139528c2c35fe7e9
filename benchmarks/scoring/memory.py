"""What the server holds of nodes and assigned pods while a policy scores, beside client-go informers.

A difference of two servers, each started anew: one while a policy scores, one while none does. `FEW` nodes
and pods first, then all nodes, then all pods too: so what a node and a pod add is told apart from numpy and
the two watches. The Go extender is seen at the same three points, and holds no members beside.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

import msgspec

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult
from benchmarks.memory import KIB, resident
from benchmarks.objects import pods_path
from benchmarks.scoring.cluster import (
    await_scores,
    create_nodes,
    go_extender,
    names,
    pending_pod,
    stop_node_controllers,
)
from benchmarks.scoring.policies import BINPACK, SCORELESS, write_policies
from benchmarks.syncing.replayed_list import PODS, SERVER, Large, record, replayed, serving
from benchmarks.syncing.row import SETTLING
from benchmarks.target import our_extender
from localcluster import processes
from localcluster.build import Say

NODES, FEW, ROUNDS = 5_000, 10, 1
POLICY = "packed"


class Held(NamedTuple):
    """MiB (VmRSS): the server while a policy scores, the server while none does, the Go extender."""

    scoring: float
    indifferent: float
    go: float

    @property
    def added(self) -> float:
        return self.scoring - self.indifferent


class Stage(msgspec.Struct, frozen=True):
    """How many nodes and pods there are, and what was held of them."""

    nodes: int
    pods: int
    held: tuple[Held, ...]


def measure(say: Say) -> RowResult:
    with running(nodes=1, say=say) as bench:
        bench.install()
        write_policies(bench, {POLICY: SCORELESS})
        bench.queue(POLICY, schedulerPolicy=POLICY)
        recorded = record(bench)
        stop_node_controllers(bench)
        few, nodes, pods = _stages(bench, recorded)
    return RowResult(
        title="Memory of nodes and assigned pods",
        about=f"{nodes.nodes:,} nodes and {pods.pods:,} assigned pods (**recorded and multiplied**), VmRSS "
        f"{SETTLING:.0f} s after they are known. Ours is what the server holds while a policy scores, minus "
        "what a server holds of the same cluster while none does; beside it the whole Go extender, whose "
        "client-go informers keep nodes and pods as they come, without managed fields.",
        lines=(
            Line(
                what=f"memory of {nodes.nodes:,} nodes and {pods.pods:,} assigned pods",
                beside="the Go extender",
                unit="MiB",
                ours=tuple(each.added for each in pods.held),
                theirs=tuple(each.go for each in pods.held),
            ),
        ),
        notes=tuple(_notes(few, nodes, pods)),
    )


def _stages(bench: Bench, recorded: bytes) -> Iterator[Stage]:
    create_nodes(bench, range(FEW))
    yield _stage(bench, recorded, nodes=FEW, pods=FEW)
    create_nodes(bench, range(FEW, NODES))
    yield _stage(bench, recorded, nodes=NODES, pods=FEW)
    yield _stage(bench, recorded, nodes=NODES, pods=scale.scaled(PODS))


def _stage(bench: Bench, recorded: bytes, *, nodes: int, pods: int) -> Stage:
    numbers = ("-pods", str(pods), "-members", str(max(1, pods // 10)))
    held = []
    with replayed(bench, recorded, *numbers) as large:
        for _ in scale.rounds(ROUNDS):
            indifferent = _server(bench, large, scoring=False)
            scoring = _server(bench, large, scoring=True)
            with go_extender(bench, large) as (_, pid):
                time.sleep(SETTLING)
                held.append(Held(scoring, indifferent, resident([pid])))
            bench.say(f"{nodes} nodes, {pods} pods: {held[-1]}")
    return Stage(nodes, pods, tuple(held))


def _server(bench: Bench, large: Large, *, scoring: bool) -> float:
    """MiB of a new server. The ConfigMap is changed for the next one while a server can admit it."""
    with serving(bench, large):
        if scoring:
            _scoring(bench)
        time.sleep(SETTLING)
        memory = resident(processes.pids(bench.cluster.layout.folder, SERVER))
        write_policies(bench, {POLICY: SCORELESS if scoring else BINPACK})
    return memory


def _scoring(bench: Bench) -> None:
    """Returns once the server scores nodes."""
    bench.api.request("DELETE", f"{pods_path()}/asked?gracePeriodSeconds=0")
    await_scores(our_extender(bench.cluster), pending_pod(bench, "asked", queue=POLICY), names(FEW))


def _notes(few: Stage, nodes: Stage, pods: Stage) -> Iterator[str]:
    added = {
        "ours": [median(each.added for each in stage.held) for stage in (few, nodes, pods)],
        "the Go extender": [median(each.go for each in stage.held) for stage in (few, nodes, pods)],
    }
    for words, (base, with_nodes, with_pods) in added.items():
        per_node = KIB * (with_nodes - base) / (nodes.nodes - few.nodes)
        per_pod = KIB * (with_pods - with_nodes) / (pods.pods - nodes.pods)
        yield (
            f"{words}: {base:.0f} MiB with {few.nodes} nodes and {few.pods} pods, "
            f"{per_node:.2f} KiB for each further node, {per_pod:.2f} KiB for each further assigned pod"
        )
