"""A queue takes back what it deserves from one that borrows; beside somebody who deletes the same pods."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, count

import msgspec

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Goal, Line, RowResult, at_most
from benchmarks.interleaved import in_turns
from benchmarks.objects import HOME, LABELS, Request, creations, pods, pods_path
from benchmarks.resume_times import Times, since
from benchmarks.scheduler_configurations import ours
from benchmarks.scoring.policies import write_policies
from localcluster.build import Say

PODS, NODES = 100, 50
GIVEN_BACK, KUBECTL, GO = "given back", "`kubectl delete` of the same pods", "a client in Go deletes them"
#: The policy whose queues take back what was lent.
POLICY = "takes"
POLICIES = {POLICY: 'actions: "allocate, reclaim"\ntiers: [{}]\n'}
#: On the pods of the queue that borrows.
LENT = {"lent": "yes"}
#: What is known of others.
PEERS = (
    "No figure is known of peers. Of Kueue it is reported that plain pods of one ClusterQueue which all "
    "preempt are admitted one after the other, each once the pods preempted for it have ended (its issue "
    "6143, open when it was read)."
)
Take = Callable[[Bench, Sequence[Request]], float]
Seen = Mapping[str, Sequence[Times]]


class _Way(msgspec.Struct, frozen=True):
    """`take` creates the pods that ask, and returns when the first was; what it does to others is its own."""

    take: Take
    reclaims: bool = False


def measure(say: Say) -> RowResult:
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        write_policies(bench, POLICIES)
        bench.install()
        numbers = count()
        ways = {name: partial(_taken, bench, numbers, way) for name, way in WAYS.items()}
        seen = in_turns(ways, told=str, say=say)
    return RowResult(
        title="Giving back",
        about=f"A queue runs {_pods()} bare pods of 1 cpu, which fill the capability of its parent, and "
        "deserves nothing. A queue beside it, which deserves all of it, gets as many pods of 1 cpu, created "
        f"by a client in Go over eight connections. {scale.scaled(NODES)} nodes have room for both, and a "
        "scheduler with its default settings is at work. From the first of these creations to the first "
        "bind and to the last, by the audit log. With a policy that has action `reclaim` the leader evicts "
        "the pods. Beside it no queue has a policy, and somebody else deletes the same pods: `kubectl "
        "delete` by label, started together with the creations; or that client, one with each creation. "
        "The quota lets those that wait go in all of them. Pods end at once when they are deleted. Each "
        "turn has queues of its own, and nothing else differs.",
        lines=(
            _line(seen, KUBECTL, "last", at_most(1.5)),
            _line(seen, GO, "last"),
            _line(seen, KUBECTL, "first"),
            _line(seen, GO, "first"),
        ),
        notes=(PEERS,),
    )


def _line(seen: Seen, beside: str, which: str, goal: Goal | None = None) -> Line:
    return Line(
        what=f"{which} bind of what was {GIVEN_BACK}",
        beside=beside,
        unit="s",
        ours=tuple(getattr(each, which) for each in seen[GIVEN_BACK]),
        theirs=tuple(getattr(each, which) for each in seen[beside]),
        goal=goal,
    )


def _taken(bench: Bench, numbers: count[int], way: _Way) -> Times:
    """In queues of its own; no pod is left."""
    number = next(numbers)
    lender, borrower, owner = (f"{name}-{number}" for name in ("lender", "borrower", "owner"))
    all_of_it = {"cpu": str(_pods())}
    policy = {"schedulerPolicy": POLICY} if way.reclaims else {}
    bench.queue(lender, capability=all_of_it, **policy)
    bench.queue(borrower, parent=lender)
    bench.queue(owner, parent=lender, deserved=all_of_it)
    lent = pods(_pods(), prefix=borrower, queue=borrower, labels={**LABELS, **LENT}, cpu="1")
    asking = list(creations(pods_path(), pods(_pods(), prefix=owner, queue=owner, cpu="1")))
    with bench.scheduling(ours(percentage=0)):
        bench.create_pods(lent)
        bench.await_running()
        bench.quiet()
        mark = bench.audit.mark()
        times = since(way.take(bench, asking), bench.binds(mark, count=len(asking)))
    bench.clear()
    return times


def _created(bench: Bench, asking: Sequence[Request]) -> float:
    return bench.write(asking).began


def _with_kubectl(bench: Bench, asking: Sequence[Request]) -> float:
    selector = ",".join(f"{key}={value}" for key, value in LENT.items())
    command = [
        *(*bench.kubectl, "delete", "pods"),
        *(f"--namespace={HOME}", f"--selector={selector}", "--wait=false"),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as deleting:
        began = bench.write(asking).began
    if deleting.returncode:
        raise RuntimeError(f"kubectl delete ended with {deleting.returncode}")
    return began


def _with_go(bench: Bench, asking: Sequence[Request]) -> float:
    lent = bench.pod_names(label=",".join(f"{key}={value}" for key, value in LENT.items()))
    return bench.write(exchanged(asking, lent, namespace=HOME)).began


def exchanged(created: Sequence[Request], deleted: Sequence[str], *, namespace: str) -> list[Request]:
    """A pod is deleted after each creation, in the grace of its own."""
    deletions = (Request("DELETE", f"{pods_path(namespace)}/{name}") for name in deleted)
    return list(chain.from_iterable(zip(created, deletions, strict=True)))


def _pods() -> int:
    return scale.scaled(PODS)


WAYS: Mapping[str, _Way] = {
    GIVEN_BACK: _Way(_created, reclaims=True),
    KUBECTL: _Way(_with_kubectl),
    GO: _Way(_with_go),
}
