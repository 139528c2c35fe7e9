"""Binds a second of members of a queue whose policy scores nodes, beside a queue without a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from benchmarks import bind_costs, scale
from benchmarks.backlog import Bound, bind, costs
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult, at_least
from benchmarks.interleaved import in_turns
from benchmarks.objects import pods
from benchmarks.scheduler_configurations import RECOMMENDED_PERCENTAGE, ours
from benchmarks.scoring.policies import BINPACK, write_policies
from localcluster.build import Say

PODS, NODES = 1_000, 500
#: Each queue, the policy that it names, and what the line calls it.
QUEUES: Mapping[str, tuple[str, str]] = {
    "plain": ("", "a queue without a policy, in the same cluster"),
    "packed": (BINPACK, "binpack"),
}
Seen = Mapping[str, Sequence[Bound]]


def measure(say: Say) -> RowResult:
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        bench.install()
        write_policies(bench, {queue: text for queue, (text, _) in QUEUES.items() if text})
        for queue, (text, _) in QUEUES.items():
            bench.queue(queue, **({"schedulerPolicy": queue} if text else {}))
        ways = {queue: partial(_bound, bench, queue) for queue in QUEUES}
        bound = in_turns(ways, told=str, say=say)
    return RowResult(
        title="Members of a scoring queue",
        about=f"{scale.scaled(PODS):,} members on {scale.scaled(NODES)} nodes, there before the scheduler "
        f"is (percentageOfNodesToScore: {RECOMMENDED_PERCENTAGE}); from the first bind to the last by the "
        "audit log. Nodes and assigned pods are watched all the while, whichever queue the members are of.",
        lines=(
            *(_line(bound, queue) for queue, (text, _) in QUEUES.items() if text),
            *(_cost(bound, queue) for queue, (text, _) in QUEUES.items() if text),
        ),
        notes=(bind_costs.note({words: costs(bound[queue]) for queue, (_, words) in QUEUES.items()}),),
    )


def _bound(bench: Bench, queue: str) -> Bound:
    return bind(bench, pods(scale.scaled(PODS), queue=queue), edit=ours())


def _line(bound: Seen, queue: str) -> Line:
    return Line(
        what=f"binds/s of members, {QUEUES[queue][1]}",
        beside=QUEUES["plain"][1],
        unit="/s",
        ours=tuple(each.rate for each in bound[queue]),
        theirs=tuple(each.rate for each in bound["plain"]),
        goal=at_least(0.80),
    )


def _cost(bound: Seen, queue: str) -> Line:
    return bind_costs.line(
        f"members, {QUEUES[queue][1]}",
        beside=QUEUES["plain"][1],
        ours=costs(bound[queue]),
        theirs=costs(bound["plain"]),
    )
