"""How many requests, and of how many bytes, a pod costs in each phase of its life, by whoever sends them.

Counts repeat where times do not: also on a machine that is busy with something else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from statistics import median
from typing import Any, NamedTuple

from benchmarks import deployment_pods, scale
from benchmarks.audit_log import EVERY_REQUEST, Asked
from benchmarks.bench import Bench, running
from benchmarks.deployment_pods import DEPLOYMENTS
from benchmarks.figures import Line, RowResult
from benchmarks.objects import HOME, QUEUE, QUEUES, Request, pods, pods_path
from benchmarks.parked_pods import Parked, park
from benchmarks.scheduler_configurations import RECOMMENDED_PERCENTAGE, ours, plain
from cluster.api.client import STRATEGIC_MERGE_PATCH
from localcluster.build import Say

PODS, NODES = 200, 50
SERVER = "system:serviceaccount:sluice-system:sluice"
#: Who watches and sets up, and is no part of what is measured.
ONLOOKERS = frozenset({"admin"})
#: The least status of an answer that is no success. How often a controller tries again does not repeat.
REFUSED = 400
GATE = {"name": "bench.dev/gate"}
#: What happens to a pod, and what stands beside it with nothing installed.
PHASES = {
    "create": "the same pods",
    "bind": "the same pods",
    "park": "created with another gate",
    "resume by gate": "that gate taken off by hand",
    "refuse by filter": "bound",
    "resume by filter": "bound",
    "drain": "`kubectl delete`",
    "give back": "bound",
}
#: Fewer than one request for so many pods is not told.
LEAST = 0.02


class Count(NamedTuple):
    """Of one user's requests of one kind, for each pod. `sent`: bytes of the objects in them."""

    requests: float
    sent: float


#: By user, verb and resource.
Counts = Mapping[tuple[str, str, str], Count]


def measure(say: Say) -> RowResult:
    seen: dict[str, list[Counts]] = {}
    beside: dict[str, list[Counts]] = {}
    with running(nodes=NODES, say=say, audit_policy=EVERY_REQUEST) as bench:
        for number in scale.rounds(2):
            for side, phases in ((beside, _with_nothing_installed(bench)), (seen, _with_all(bench))):
                for phase, counts in phases.items():
                    side.setdefault(phase, []).append(counts)
            say(f"pair {number}: " + ", ".join(f"{each} {_requests(seen[each][-1]):.2f}" for each in PHASES))
    return RowResult(
        title="Requests for each pod",
        about=f"{_count():,} pods on {NODES} nodes: the requests of all components, by an audit log that has "
        "every one of them, but those that were refused, those for Leases and those of whoever measures; "
        "bytes are of the objects in the requests. Pods are refused by filter until the scheduler rests. "
        "Pods of Deployments are drained and given back.",
        lines=tuple(
            Line(
                what=f"{what} for a pod: {phase}",
                beside=f"nothing installed, {PHASES[phase]}",
                unit=unit,
                ours=tuple(map(total, seen[phase])),
                theirs=tuple(map(total, beside[phase])),
            )
            for phase in PHASES
            for what, unit, total in (("requests", "", _requests), ("bytes of requests", "B", _sent))
        ),
        notes=tuple(_note(phase, seen[phase]) for phase in PHASES),
    )


def _with_nothing_installed(bench: Bench) -> dict[str, Counts]:
    bench.remove()
    found = {"create": counted(bench, lambda: _create(bench, queue=""))}
    with bench.scheduling(plain(RECOMMENDED_PERCENTAGE)):
        found["bind"] = counted(bench, bench.await_running)
    bench.clear()
    found["park"] = counted(bench, lambda: _create(bench, queue="", schedulingGates=[GATE]))
    with bench.scheduling(plain(RECOMMENDED_PERCENTAGE)):
        bench.quiet()
        found["resume by gate"] = counted(bench, lambda: _remove_gates(bench))
    bench.clear()
    deployment_pods.create(bench, queue="", replicas=_replicas())
    deployment_pods.await_pods(bench, replicas=_replicas())
    bench.quiet()
    with bench.scheduling(plain(RECOMMENDED_PERCENTAGE)):
        found["give back"] = counted(bench, bench.await_running)
    found["drain"] = counted(bench, lambda: _empty(bench, lambda: deployment_pods.delete_by_kubectl(bench)))
    deployment_pods.clear(bench)
    return {**found, "refuse by filter": found["bind"], "resume by filter": found["bind"]}


def _with_all(bench: Bench) -> dict[str, Counts]:
    bench.install()
    bench.queue(QUEUE, state="Open", stopPolicy="None")
    found = {"create": counted(bench, lambda: _create(bench, queue=QUEUE))}
    with bench.scheduling(ours()):
        found["bind"] = counted(bench, bench.await_running)
    bench.clear()
    bench.queue(QUEUE, state="Suspended")
    found["park"] = counted(bench, lambda: _create(bench, queue=QUEUE))
    with bench.scheduling(ours()):
        bench.quiet()
        found["resume by gate"] = counted(bench, lambda: _resume(bench))
    bench.clear()
    park(bench, _count(), how=Parked.BY_FILTER, namespace=HOME)
    bench.quiet()
    found["refuse by filter"] = counted(bench, lambda: bench.start_scheduler(ours()), windows=3)
    found["resume by filter"] = counted(bench, lambda: _resume(bench))
    bench.clear()
    deployment_pods.create(bench, queue=QUEUE, replicas=_replicas())
    deployment_pods.await_all_running(bench, replicas=_replicas())
    bench.stop_scheduler()
    found["drain"] = counted(
        bench,
        lambda: _empty(bench, lambda: deployment_pods.set_stop_policy(bench, "HoldAndDrain")),
        windows=5,
    )
    with bench.scheduling(ours()):
        bench.quiet()
        found["give back"] = counted(bench, lambda: _give_back(bench))
    deployment_pods.clear(bench)
    return found


def _create(bench: Bench, *, queue: str, **spec: Any) -> None:
    bench.create_pods(pods(_count(), queue=queue, **spec))


def _remove_gates(bench: Bench) -> None:
    patch = {"spec": {"schedulingGates": [{**GATE, "$patch": "delete"}]}}
    names = bench.pod_names()
    bench.write(Request("PATCH", f"{pods_path()}/{name}", STRATEGIC_MERGE_PATCH, patch) for name in names)
    bench.await_running()


def _resume(bench: Bench) -> None:
    bench.must("PATCH", f"{QUEUES}/{QUEUE}", {"spec": {"state": "Open"}})
    bench.await_running()


def _empty(bench: Bench, begin: Callable[[], None]) -> None:
    """All replacements are there, too."""
    deployment_pods.empty(bench, begin)
    deployment_pods.await_pods(bench, replicas=_replicas())


def _give_back(bench: Bench) -> None:
    deployment_pods.set_stop_policy(bench, "None")
    bench.await_running()


def counted(bench: Bench, work: Callable[[], object], *, pods: int | None = None, windows: int = 2) -> Counts:
    """What the work cost for each of the pods, once the control plane rests."""
    mark = bench.audit.mark()
    work()
    bench.quiet(windows=windows)
    return _counts(bench.audit.requests(mark), pods=pods or _count())


def _counts(asked: Iterable[Asked], *, pods: int) -> Counts:
    requests, sent = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    for each in asked:
        key = (each.user, each.verb, each.resource)
        is_sent_for_pods = each.user == SERVER or each.namespace in {HOME, ""}
        is_counted = each.user not in ONLOOKERS and each.verb != "watch" and each.code < REFUSED
        if is_sent_for_pods and is_counted and not _is_overhead(each.resource):
            requests[key] += 1
            sent[key] += each.sent
    return {key: Count(number / pods, sent[key] / pods) for key, number in requests.items()}


def _is_overhead(resource: str) -> bool:
    """Whether its requests come with time, not with pods: Leases, checks of health."""
    return resource == "leases" or resource.startswith("/")


def _requests(counts: Counts) -> float:
    return sum(each.requests for each in counts.values())


def _sent(counts: Counts) -> float:
    return sum(each.sent for each in counts.values())


def _note(phase: str, seen: list[Counts]) -> str:
    """What the server itself asked for, most of it first."""
    keys = {key for counts in seen for key in counts if key[0] == SERVER}
    nothing = Count(0.0, 0.0)
    parts = []
    for user, verb, resource in keys:
        counts = [each.get((user, verb, resource), nothing) for each in seen]
        number = median(count.requests for count in counts)
        if number >= LEAST:
            size = median(count.sent for count in counts) / number
            parts.append((number, f"{number:.2f} {verb} {resource}" + (f" of {size:.0f} B" if size else "")))
    told = ", ".join(text for _, text in sorted(parts, reverse=True))
    return f"Of the server itself, {phase}: {told or 'nothing'}."


def _replicas() -> int:
    return max(1, scale.scaled(PODS) // DEPLOYMENTS)


def _count() -> int:
    return _replicas() * DEPLOYMENTS
