"""A filter call while passes go on, beside the same call while none does, on the real control plane.

What is left in `root` is guaranteed to a queue that uses none of it, so that thousands of pods wait. The
queue above them is guaranteed a little, too: so no number says when they have room, and whenever a pod ends,
all of them are looked at, in vain.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import msgspec

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.filtering.row import Figures, ask
from benchmarks.go_programs import built
from benchmarks.objects import QUEUE, QUEUES, Object, creations, pod, pods_path, queue
from benchmarks.target import our_extender
from localcluster.build import Say

#: Pods that wait, in so many queues below one.
WAITING, BELOW = 5_000, 100
ABOVE, KEPT = "full", "kept"
#: Pods that end, one after the other. Together they use less than one that waits requests.
ENDING, ENDING_QUEUE = 300, "below-0"
NAMES, SECONDS = 100, 2.0
#: Between two ends.
END_SECONDS = 0.1


class Seen(msgspec.Struct, frozen=True):
    """Rounds of calls: while all is quiet; beside the ends, nobody waits; beside ends and passes."""

    quiet: list[Figures]
    ends: list[Figures]
    passes: list[Figures]


def measure(say: Say) -> Seen:
    load = built("worker/load", say=say)
    with running(nodes=1, say=say) as bench:
        bench.install()
        bench.queue(QUEUE, state="Open")
        guaranteed = f"{2_000 * WAITING}m"
        bench.queue("root", capability={"cpu": f"{2_000 * WAITING + ENDING}m"})
        bench.queue(KEPT, guarantee={"resource": {"cpu": guaranteed}})
        bench.queue(ABOVE, guarantee={"resource": {"cpu": "1m"}})
        below = [queue(f"below-{number}", parent=ABOVE) for number in range(BELOW)]
        bench.write(creations(QUEUES, below))
        target, ends = our_extender(bench.cluster), iter(range(ENDING))
        bench.create_pods(_ending(number) for number in range(ENDING))

        def rounds(what: str, *, with_ends: bool) -> list[Figures]:
            bench.quiet()
            found = []
            for _ in scale.rounds():
                with _ends(bench, ends) if with_ends else nullcontext():
                    found.append(ask(load, target, NAMES, seconds=SECONDS))
            told = ", ".join(f"{each['p99_us']:.0f}" for each in found)
            say(f"p99 of a call, {what}: {told} µs")
            return found

        quiet = rounds("quiet", with_ends=False)
        alone = rounds("ends alone", with_ends=True)
        bench.create_pods(_waiting(number) for number in range(scale.scaled(WAITING)))
        return Seen(quiet, alone, rounds("ends and passes", with_ends=True))


def _ending(number: int) -> Object:
    made = pod(f"ends-{number}", queue=ENDING_QUEUE)
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1m"}}
    return made


def _waiting(number: int) -> Object:
    """No two of a queue request the same: each is looked at."""
    made = pod(f"waits-{number}", queue=f"below-{number % BELOW}")
    requests = {"cpu": f"{1_000 + number // BELOW}m"}
    made["spec"]["containers"][0]["resources"] = {"requests": requests}
    return made


@contextmanager
def _ends(bench: Bench, numbers: Iterator[int]) -> Iterator[None]:
    """One pod after the other ends, by requests over one connection: to open one costs more than they do."""
    ended = threading.Event()

    def end() -> None:
        while not ended.wait(END_SECONDS):
            bench.must("DELETE", f"{pods_path()}/ends-{next(numbers)}?gracePeriodSeconds=0")

    thread = threading.Thread(target=end, name="ends")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
