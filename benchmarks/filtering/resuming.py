"""A filter call while parked pods are given back: ours and the Go extender in turns, in the same resume.

On the real control plane, with a scheduler that asks one of the two for each pod that it binds: ours in one
resume, the Go extender in the next. Our server takes the gates off in both, for nobody else does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks import sizes
from benchmarks.bench import Bench, running
from benchmarks.configurations import asking, ours
from benchmarks.filtering import twins
from benchmarks.filtering.measuring import Pair, ask
from benchmarks.filtering.twins import Target
from benchmarks.parking import Parked, park
from benchmarks.shapes import HOME, QUEUE, QUEUES
from benchmarks.tools import built
from localcluster.building import Say
from localcluster.schedulers import Edit

PARKED, NODES = 5_000, 500
#: In each of the two resumes.
ROUNDS = 3
#: Not the queue of the pod that is asked about: that one is let through and never heard of, and a stop of
#: its queue would wait for it.
WAITING = "waiting"
ABOUT = (
    f"**The resume is real:** {sizes.scaled(PARKED):,} pods parked by gate, {sizes.scaled(NODES)} nodes; "
    "asked in turns, from the patch of the queue on, while both run. There are two resumes, with a scheduler "
    "that asks ours and with one that asks the Go extender; our server takes the gates off in both."
)


def pairs(say: Say, *, names: int) -> list[Pair]:
    """Of calls with so many names."""
    with running(nodes=sizes.scaled(NODES), say=say) as bench:
        bench.install()
        bench.queue(QUEUE, state="Open")
        mine = (bench.cluster.ports.server_url + "/extender", Path(bench.cluster.info["ca_file"]))
        with twins.serving(*twins.following(bench.cluster), say=say) as other:
            url, ca = other
            return [
                pair
                for edit in (ours(), asking(url, ca=ca))
                for pair in _during_a_resume(bench, (mine, other), names, edit=edit)
            ]


def _during_a_resume(bench: Bench, targets: Sequence[Target], names: int, *, edit: Edit) -> list[Pair]:
    """Raises RuntimeError if the last pod was bound before the last call was answered."""
    count = sizes.scaled(PARKED)
    park(bench, count, how=Parked.BY_GATE, namespace=HOME, queue=WAITING)
    with bench.scheduling(edit):
        bench.quiet()
        mark = bench.audit.mark()
        bench.must("PATCH", f"{QUEUES}/{WAITING}", {"spec": {"state": "Open"}})
        found = list(_in_turns(bench, targets, names))
        bound = len(bench.audit.binds(mark, namespace=HOME))
    if bound == count:
        raise RuntimeError(f"the resume of {count} pods was over before the calls were")
    bench.say(f"{bound} of {count} were bound when the last call was answered")
    bench.clear()
    return found


def _in_turns(bench: Bench, targets: Sequence[Target], names: int) -> Iterator[Pair]:
    """Every other pair begins with the other: a resume is not the same from its beginning to its end."""
    load = built("worker/load", say=bench.say)
    mine, other = targets
    for number in sizes.rounds(ROUNDS):
        if number % 2:
            first = ask(load, mine, names)
            pair = first, ask(load, other, names)
        else:
            second = ask(load, other, names)
            pair = ask(load, mine, names), second
        bench.say(f"p50 {pair[0]['p50_us']:.0f} µs beside {pair[1]['p50_us']:.0f} µs")
        yield pair
