"""Members beside pods of no queue in one cluster, whose scheduler has its default settings.

Nobody has set `percentageOfNodesToScore`: of 300 nodes the scheduler looks at 144 that fit, and sends the
extender as many names with each member.
"""

from __future__ import annotations

from functools import partial

from benchmarks import bind_costs, flows, scale
from benchmarks.backlog import Bound, bind, costs
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult, at_least
from benchmarks.flows import Flow
from benchmarks.interleaved import in_turns
from benchmarks.objects import HOME, QUEUE, pods
from benchmarks.parked_pods import Parked, park
from benchmarks.resume_times import create_and_bind, resume_and_bind
from benchmarks.rows.members import with_go_extender
from benchmarks.scheduler_configurations import ours
from localcluster.build import Say

PODS, NODES = 1_000, 300
DEFAULTS = ours(percentage=0)
OTHERS, MEMBERS, RESUMED = "pods of no queue", "members", "members after a resume"
GO = "members, the Go extender"
BESIDE = "pods of no queue, same cluster"


def measure_backlog(say: Say) -> RowResult:
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        ways = {
            OTHERS: partial(_backlog, bench, ""),
            MEMBERS: partial(_backlog, bench, QUEUE),
            GO: partial(with_go_extender, bench, count=scale.scaled(PODS), percentage=0),
        }
        bound = in_turns(ways, told=str, say=say)
    rates = {way: tuple(each.rate for each in seen) for way, seen in bound.items()}
    return RowResult(
        title="Members, the scheduler's default settings",
        about=f"{scale.scaled(PODS):,} members of an open queue on {scale.scaled(NODES)} nodes, there before "
        "the scheduler is; from the first bind to the last by the audit log. Beside it as many pods of no "
        "queue in the same cluster, everything installed, the same scheduler. The Go extender follows the "
        "same pods and queues and answers the same, with our webhooks and policies registered as ever.",
        lines=(
            Line(
                what="binds/s of members, default settings",
                beside=BESIDE,
                unit="/s",
                ours=rates[MEMBERS],
                theirs=rates[OTHERS],
                goal=at_least(0.75),
            ),
            Line(
                what="binds/s of members, default settings",
                beside="the Go extender, default settings too",
                unit="/s",
                ours=rates[MEMBERS],
                theirs=rates[GO],
            ),
            Line(
                what="binds/s of members, the Go extender in place of ours, default settings",
                beside=BESIDE,
                unit="/s",
                ours=rates[GO],
                theirs=rates[OTHERS],
            ),
            bind_costs.line(
                "members, default settings",
                beside=BESIDE,
                ours=costs(bound[MEMBERS]),
                theirs=costs(bound[OTHERS]),
            ),
        ),
        notes=(bind_costs.note({way: costs(seen) for way, seen in bound.items()}),),
    )


def measure_resume(say: Say) -> RowResult:
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        _install(bench)
        ways = {RESUMED: partial(_resumed, bench), OTHERS: partial(_fresh, bench)}
        seen = in_turns(ways, told=str, say=say)
    return RowResult(
        title="Resuming 1,000 parked pods, the scheduler's default settings",
        about=f"{scale.scaled(PODS):,} members parked by gate on {scale.scaled(NODES)} nodes, from the patch "
        "that resumes their queue to the last bind by the audit log. Beside it as many fresh pods of no "
        "queue in the same cluster, from the first creation by a client in Go over eight connections; so "
        f"the creations are in the figures of the fresh pods alone. {flows.ABOUT}",
        lines=tuple(
            flows.lines(
                "resumed members (gate), default settings",
                beside=f"fresh {BESIDE}",
                ours=seen[RESUMED],
                theirs=seen[OTHERS],
                goal=at_least(0.60),
            )
        ),
    )


def _install(bench: Bench) -> None:
    bench.install()
    bench.queue(QUEUE, state="Open")


def _backlog(bench: Bench, queue: str) -> Bound:
    _install(bench)
    return bind(bench, pods(scale.scaled(PODS), queue=queue), edit=DEFAULTS)


def _resumed(bench: Bench) -> Flow:
    count = scale.scaled(PODS)
    park(bench, count, how=Parked.BY_GATE, namespace=HOME)
    with bench.scheduling(DEFAULTS):
        resumed = flows.flow(bench, lambda: resume_and_bind(bench, count), count=count)
    bench.clear()
    return resumed


def _fresh(bench: Bench) -> Flow:
    """Nothing is stopped in their namespace any more."""
    bodies = pods(scale.scaled(PODS))
    bench.await_guard(on=False)
    with bench.scheduling(DEFAULTS):
        fresh = flows.flow(bench, lambda: create_and_bind(bench, bodies), count=len(bodies))
    bench.clear()
    return fresh


ROWS = {"members-default": measure_backlog, "resume-default": measure_resume}
