"""A filter call while parked pods are given back, beside the Go extender during another resume as large.

On the real control plane, with a scheduler that asks whichever of the two is measured. It is always our
server that takes the gates off, for nobody else does; so it also runs, unasked, while the Go extender is
measured: on two cores that takes from the Go extender what ours takes from itself.
"""

from __future__ import annotations

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.filtering import go_extender
from benchmarks.filtering.row import (
    Figures,
    Pair,
    ask,
)
from benchmarks.go_programs import built
from benchmarks.objects import (
    HOME,
    QUEUE,
    QUEUES,
)
from benchmarks.parked_pods import Parked, park
from benchmarks.scheduler_configurations import asking, ours
from benchmarks.target import Target, our_extender
from localcluster.build import Say
from localcluster.scheduler_config import Edit

PARKED, NODES = 5_000, 500
#: Of each: two resumes, and in each of them so many rounds, one after the other.
RESUMES, ROUNDS = 2, 3
#: Not the queue of the pod that is asked about: that one is let through and never heard of, and a stop of
#: its queue would wait for it.
WAITING = "waiting"
ABOUT = (
    f"**The resume is real:** {scale.scaled(PARKED):,} pods parked by gate, {scale.scaled(NODES)} nodes; "
    f"asked {ROUNDS} times from the patch of the queue on, beside a scheduler that asks the same one. The Go "
    "extender has resumes of its own, as large; our server takes the gates off in all, so that it runs "
    "beside the Go extender too."
)


def pairs(say: Say, *, names: int) -> list[Pair]:
    """Of calls with so many names; a pair is of the same stage of the two resumes."""
    found: list[Pair] = []
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        bench.install()
        bench.queue(QUEUE, state="Open")
        for number in scale.rounds(RESUMES):
            if number % 2:
                mine = _ours(bench, names)
                found += zip(mine, _theirs(bench, names), strict=True)
            else:
                other = _theirs(bench, names)
                found += zip(_ours(bench, names), other, strict=True)
    return found


def _ours(bench: Bench, names: int) -> list[Figures]:
    target = our_extender(bench.cluster)
    return _asked(bench, target, names, edit=ours())


def _theirs(bench: Bench, names: int) -> list[Figures]:
    with go_extender.serving(*go_extender.following(bench.cluster), say=bench.say) as target:
        return _asked(bench, target, names, edit=asking(target.url, ca=target.ca))


def _asked(bench: Bench, target: Target, names: int, *, edit: Edit) -> list[Figures]:
    """Raises RuntimeError if the last pod was bound before the last call was answered."""
    count, load = scale.scaled(PARKED), built("worker/load", say=bench.say)
    park(bench, count, how=Parked.BY_GATE, namespace=HOME, queue=WAITING)
    with bench.scheduling(edit):
        bench.quiet()
        mark = bench.audit.mark()
        bench.must("PATCH", f"{QUEUES}/{WAITING}", {"spec": {"state": "Open"}})
        found = [ask(load, target, names) for _ in scale.rounds(ROUNDS)]
        bound = len(bench.audit.binds(mark, namespace=HOME))
    if bound == count:
        raise RuntimeError(f"the resume of {count} pods was over before the calls were")
    told = ", ".join(f"{each['p50_us']:.0f}" for each in found)
    bench.say(f"{bound} of {count} were bound when the last call was answered: p50 {told} µs")
    bench.clear()
    return found
