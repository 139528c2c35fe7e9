"""Pods of a queue with a quota that are created while all runs; and what follows when one of them ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

from benchmarks import flows, scale
from benchmarks.audit_log import EVERY_REQUEST, Asked
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult, at_least
from benchmarks.filtering.go_extender import following, serving
from benchmarks.flows import Flow
from benchmarks.go_webhook import answering
from benchmarks.interleaved import in_turns
from benchmarks.objects import HOME, QUEUE, pods, pods_path
from benchmarks.resume_times import GATE
from benchmarks.rows.requests import SERVER, Counts, counted
from benchmarks.scheduler_configurations import asking, ours, plain
from localcluster.build import Say

PODS, NODES = 1_500, 300
#: Of which requests are counted; and that end, one after the other.
COUNTED, ENDS, FEW_NODES = 300, 40, 50
QUOTA, MEMBERS, PLAIN = "members with a quota", "members without a quota", "nothing installed, the same pods"
#: The least that holds pods back at creation and lets each go by one patch, in any language.
GO = "a gate at creation and one patch, in Go, in place of our server"
ROOM = {"cpu": "1000", "pods": "100k"}
#: What flow goes on at, as their own projects and others have measured it.
PEERS = "Known of peers, on other machines: Kueue 28 to 31 pods/s live, Volcano 64 to 84."


def measure(say: Say) -> RowResult:
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        seen = in_turns({name: partial(way, bench) for name, way in WAYS.items()}, told=str, say=say)
    with running(nodes=FEW_NODES, say=say, audit_policy=EVERY_REQUEST) as bench:
        notes = [*_requests(bench), *_ends(bench)]
    for note in notes:
        say(note)
    return RowResult(
        title="Live flow with a quota",
        about=f"{scale.scaled(PODS):,} members of a queue with a capability that has room for all, on "
        f"{scale.scaled(NODES)} nodes, created by a client in Go over eight connections while a scheduler "
        "with its default settings is at work: from the first creation to the last bind by the audit log. "
        "Beside it the same pods where nothing is installed; members of a queue without a capability; and "
        "members for which a webhook in Go adds a gate, which a program in Go takes off by one patch as soon "
        "as its watch shows it, with an extender in Go and all our webhooks and policies registered: nobody "
        f"counts anything, and nobody writes down what was begun. {flows.ABOUT}",
        lines=(
            *_lines(QUOTA, PLAIN, seen, goal=0.45),
            *_lines(QUOTA, MEMBERS, seen, goal=None),
            *_lines(QUOTA, GO, seen, goal=0.9),
            *_lines(MEMBERS, PLAIN, seen, goal=None),
            *_lines(GO, PLAIN, seen, goal=None),
        ),
        notes=(*notes, PEERS),
    )


def _lines(
    ours: str, beside: str, seen: Mapping[str, Sequence[Flow]], *, goal: float | None
) -> tuple[Line, ...]:
    bound = None if goal is None else at_least(goal)
    return tuple(flows.lines(ours, beside=beside, ours=seen[ours], theirs=seen[beside], goal=bound))


def _quota(bench: Bench) -> Flow:
    return _members(bench, capability=ROOM)


def _members(bench: Bench, *, capability: Mapping[str, str] | None = None) -> Flow:
    bench.install()
    bench.queue(QUEUE, state="Open", capability=capability)
    return flows.created_live(bench, pods(scale.scaled(PODS), queue=QUEUE), edit=ours(percentage=0))


def _go(bench: Bench) -> Flow:
    bench.install()
    bench.queue(QUEUE, state="Open", capability=None)
    gate = GATE["name"]
    with (
        answering(bench, gate=gate),
        serving(*following(bench.cluster), "-gate", gate, say=bench.say) as twin,
    ):
        bodies = pods(scale.scaled(PODS), queue=QUEUE)
        return flows.created_live(bench, bodies, edit=asking(twin.url, ca=twin.ca, percentage=0))


def _plain(bench: Bench) -> Flow:
    bench.remove()
    return flows.created_live(bench, pods(scale.scaled(PODS)), edit=plain())


#: In this order, so that everything is put in and taken out about once a round.
WAYS: Mapping[str, Callable[[Bench], Flow]] = {PLAIN: _plain, MEMBERS: _members, QUOTA: _quota, GO: _go}


# What a pod costs in requests, and what follows when one ends


def _requests(bench: Bench) -> list[str]:
    """Of the server, for each pod from its creation until it runs: with a quota, and without."""
    bench.install()
    with bench.scheduling(ours()):
        found = {}
        for name, capability in {MEMBERS: None, QUOTA: ROOM}.items():
            bench.queue(QUEUE, state="Open", capability=capability)
            bench.quiet()
            found[name] = counted(bench, partial(_run, bench, COUNTED), pods=COUNTED)
            bench.clear()
    return [
        f"Requests of the server for each of {COUNTED} pods created live, {name}: {_in_words(counts)}."
        for name, counts in found.items()
    ]


def _run(bench: Bench, count: int) -> None:
    bench.create_pods(pods(count, queue=QUEUE))
    bench.await_running()


def _in_words(counts: Counts) -> str:
    parts = sorted(
        (-each.requests, f"{each.requests:.2f} {verb} {resource}")
        for (user, verb, resource), each in counts.items()
        if user == SERVER
    )
    return ", ".join(text for _, text in parts) or "none"


def _ends(bench: Bench) -> list[str]:
    """A queue is full and others wait; running pods are deleted one by one."""
    bench.queue(QUEUE, state="Open", capability={"pods": str(ENDS)})
    with bench.scheduling(ours()):
        bench.create_pods(pods(5 * ENDS, queue=QUEUE))
        _await_bound(bench, ENDS)
        bench.quiet()
        mark = bench.audit.mark()
        names = bench.pod_names(field="status.phase=Running")
        for number, name in enumerate(names, 1):
            bench.must("DELETE", f"{pods_path()}/{name}?gracePeriodSeconds=0")
            while len(bench.audit.binds(mark, namespace=HOME)) < number:
                time.sleep(0.02)
        asked = list(bench.audit.requests(mark))
    bench.clear()
    released, bound = _delays(asked)
    return [
        f"One pod ends, {4 * ENDS} wait: from its deletion to the patch that releases the next one "
        f"{_spread(released)}; from that patch to the bind {_spread(bound)} (goal: p50 at most 100 ms); "
        f"{len(bound)} ends, by the audit log."
    ]


def _spread(seconds: Sequence[float]) -> str:
    return f"p50 {1000 * median(seconds):.0f} ms, greatest {1000 * max(seconds):.0f} ms"


def _delays(asked: Sequence[Asked]) -> tuple[list[float], list[float]]:
    """Seconds from each deletion to the release that follows, and from that to the bind."""
    deleted = sorted(
        {
            each.name: each.answered
            for each in reversed(asked)
            if (each.verb, each.resource, each.code) == ("delete", "pods", 200)
        }.values()
    )
    patched = {
        each.name: each.answered
        for each in asked
        if each.user == SERVER and (each.verb, each.resource, each.code) == ("patch", "pods", 200)
    }
    bound = {
        each.name: each.answered for each in asked if each.resource == "pods/binding" and each.code == 201
    }
    released = sorted(patched[name] for name in bound if name in patched)
    return (
        [after - before for before, after in zip(deleted, released, strict=False)],
        [bound[name] - patched[name] for name in bound if name in patched],
    )


def _await_bound(bench: Bench, count: int) -> None:
    while len(bench.pod_names(field="status.phase=Running")) < count:
        time.sleep(0.2)
