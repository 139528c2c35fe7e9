"""Members that are created while all runs: from the first creation to the last bind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from benchmarks import flows, scale
from benchmarks.bench import Bench, running
from benchmarks.figures import RowResult, at_least
from benchmarks.filtering.go_extender import following, serving
from benchmarks.flows import Flow
from benchmarks.go_webhook import answering
from benchmarks.interleaved import in_turns
from benchmarks.objects import QUEUE, pods
from benchmarks.scheduler_configurations import asking, ours, plain
from localcluster.build import Say

PODS, NODES = 1_500, 300
MEMBERS, OTHERS, PLAIN = "members", "pods of no queue, same cluster", "nothing installed, the same pods"
#: The least that makes pods members and asks an extender about them, in any language.
GO = "a webhook and an extender in Go in place of our server"
#: What members are put beside, and what their rate is to be.
BESIDE = {OTHERS: at_least(0.75), PLAIN: at_least(0.75), GO: None}


def measure(say: Say) -> RowResult:
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        seen = in_turns({name: partial(way, bench) for name, way in WAYS.items()}, told=str, say=say)
    return RowResult(
        title="Live flow",
        about=f"{scale.scaled(PODS):,} members of an open queue on {scale.scaled(NODES)} nodes, created by a "
        "client in Go over eight connections while a scheduler with its default settings is at work: "
        "from the first creation to the last bind by the audit log. Beside it pods of no queue that are "
        "created the same way, in the same cluster and where nothing is installed; and members with a "
        "webhook and an extender in Go in the place of our server, with all our webhooks and policies "
        f"registered: the webhook looks up nothing, and nobody decides anything. {flows.ABOUT}",
        lines=(
            *(
                line
                for other, goal in BESIDE.items()
                for line in flows.lines(
                    "members, created live", beside=other, ours=seen[MEMBERS], theirs=seen[other], goal=goal
                )
            ),
            *flows.lines(
                f"members, created live, {GO}", beside=PLAIN, ours=seen[GO], theirs=seen[PLAIN], goal=None
            ),
        ),
    )


def _members(bench: Bench) -> Flow:
    bench.install()
    bench.queue(QUEUE, state="Open")
    return flows.created_live(bench, pods(scale.scaled(PODS), queue=QUEUE), edit=ours(percentage=0))


def _members_by_go(bench: Bench) -> Flow:
    bench.install()
    bench.queue(QUEUE, state="Open")
    with answering(bench), serving(*following(bench.cluster), say=bench.say) as twin:
        bodies = pods(scale.scaled(PODS), queue=QUEUE)
        return flows.created_live(bench, bodies, edit=asking(twin.url, ca=twin.ca, percentage=0))


def _others(bench: Bench) -> Flow:
    bench.install()
    return flows.created_live(bench, pods(scale.scaled(PODS)), edit=ours(percentage=0))


def _plain(bench: Bench) -> Flow:
    bench.remove()
    return flows.created_live(bench, pods(scale.scaled(PODS)), edit=plain())


#: In this order, so that everything is put in and taken out about once a round.
WAYS: Mapping[str, Callable[[Bench], Flow]] = {
    PLAIN: _plain,
    OTHERS: _others,
    MEMBERS: _members,
    GO: _members_by_go,
}
