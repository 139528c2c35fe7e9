"""A filter call while passes go on, beside the same call while none does, on the real control plane."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import msgspec

from benchmarks import scale
from benchmarks.bench import Bench, running
from benchmarks.filtering.row import Figures, ask
from benchmarks.go_programs import built
from benchmarks.objects import QUEUE, QUEUES, creations, pod, queue
from benchmarks.target import our_extender
from localcluster.build import Say

#: Pods that wait, in so many queues below one that has no room.
WAITING, BELOW = 5_000, 100
ABOVE, ELSEWHERE = "full", "elsewhere"
NAMES, SECONDS = 100, 2.0
#: Between two edits of a queue elsewhere: after each all pods that wait are looked at again.
EDIT_SECONDS = 0.1


class Seen(msgspec.Struct, frozen=True):
    """Rounds of calls: while all is quiet; beside the edits, nobody waits; beside edits and passes."""

    quiet: list[Figures]
    edits: list[Figures]
    passes: list[Figures]


def measure(say: Say) -> Seen:
    load = built("worker/load", say=say)
    with running(nodes=1, say=say) as bench:
        bench.install()
        bench.queue(QUEUE, state="Open")
        bench.queue(ELSEWHERE)
        bench.queue(ABOVE, capability={"cpu": "0"})
        below = [queue(f"below-{number}", parent=ABOVE) for number in range(BELOW)]
        bench.write(creations(QUEUES, below))
        target = our_extender(bench.cluster)

        def rounds(what: str, *, is_edited: bool) -> list[Figures]:
            bench.quiet()
            found = []
            for _ in scale.rounds():
                with _edits(bench) if is_edited else nullcontext():
                    found.append(ask(load, target, NAMES, seconds=SECONDS))
            told = ", ".join(f"{each['p99_us']:.0f}" for each in found)
            say(f"p99 of a call, {what}: {told} µs")
            return found

        quiet = rounds("quiet", is_edited=False)
        edits = rounds("edits alone", is_edited=True)
        bench.create_pods(_pod(number) for number in range(scale.scaled(WAITING)))
        return Seen(quiet, edits, rounds("edits and passes", is_edited=True))


def _pod(number: int) -> dict[str, object]:
    """No two of a queue request the same: each is looked at."""
    requests = {"cpu": f"{1 + number // BELOW}m"}
    made = pod(f"waits-{number}", queue=f"below-{number % BELOW}")
    made["spec"]["containers"][0]["resources"] = {"requests": requests}
    return made


@contextmanager
def _edits(bench: Bench) -> Iterator[None]:
    """Somebody changes a queue in which nobody waits."""
    ended = threading.Event()

    def edit() -> None:
        number = 0
        while not ended.wait(EDIT_SECONDS):
            number += 1
            bench.must(
                "PATCH", f"{QUEUES}/{ABOVE}", {"spec": {"capability": {"bench.dev/none": str(number)}}}
            )

    editor = threading.Thread(target=edit, name="editor")
    editor.start()
    try:
        yield
    finally:
        ended.set()
        editor.join()
