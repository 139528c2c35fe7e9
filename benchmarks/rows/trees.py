"""A stop of the top of a large tree, until the last of its queues shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import yaml

from benchmarks import scale
from benchmarks.bench import PATIENCE, Bench, running
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.objects import (
    MERGE,
    QUEUES,
    Object,
    Request,
    answered,
    creations,
    queue,
)
from benchmarks.watch import watched
from localcluster.build import Say
from localcluster.components import until
from localcluster.manifests import MANIFESTS

NUMBER, DEPTH = 1_000, 4
#: As many writers as the server has by default.
WRITERS = 4
GROUP, BENCH_GROUP = "scheduling.volcano.sh", "bench.sluice.dev"
COPIES = QUEUES.replace(GROUP, BENCH_GROUP)


def measure(say: Say) -> RowResult:
    ours: list[float] = []
    theirs: list[float] = []
    with running(nodes=1, say=say) as bench:
        bench.install()
        count = plant(bench)
        _copy(bench)
        for number in scale.rounds():
            ours.append(shown(bench, "Suspended", count=count))
            theirs.append(_patched(bench))
            say(f"pair {number}: {count} queues stopped in {ours[-1]:.2f} s, patched in {theirs[-1]:.2f} s")
            shown(bench, "Open", count=count)
    return RowResult(
        title="A stop of a thousand queues",
        about=f"{count:,} queues, {DEPTH} levels below `root`: from the patch that suspends `root` until "
        "a client that only watches has read the last of their statuses. Beside it the same "
        f"statuses, patched over {WRITERS} connections by a client in Go into copies of the queues, "
        "of a kind that nobody reads.",
        lines=(
            Line(
                what="suspend root to the last status written",
                beside="the same number of bare patches",
                unit="s",
                ours=tuple(ours),
                theirs=tuple(theirs),
                goal=at_most(1.5),
            ),
        ),
    )


def plant(bench: Bench) -> int:
    """The tree, level by level; how many queues there are, the first two included."""
    for level in levels(scale.scaled(NUMBER), depth=DEPTH):
        bench.write(creations(QUEUES, (queue(name, parent=parent) for name, parent in level)))
    until(
        lambda: all(answered(each) for each in all_queues(bench)),
        what="the queues to be answered",
        seconds=PATIENCE,
    )
    return len(all_queues(bench))


def levels(number: int, *, depth: int) -> Iterator[list[tuple[str, str]]]:
    """(name, parent) of each queue, those of one level at a time; as many on each, as evenly as it goes."""
    width = max(1, number // depth)
    for level in range(depth):
        yield [
            (f"level-{level}-{each}", f"level-{level - 1}-{each // 2}" if level else "root")
            for each in range(width)
        ]


def shown(bench: Bench, state: str, *, count: int) -> float:
    """Seconds until all queues show that state."""
    bench.quiet()
    listed = bench.must("GET", QUEUES)
    waited_for = {each["metadata"]["name"] for each in listed["items"]}
    assert len(waited_for) == count
    with watched(bench.cluster, QUEUES, since=listed["metadata"]["resourceVersion"]) as states:
        began = time.perf_counter()
        bench.must("PATCH", f"{QUEUES}/root", {"spec": {"state": state}})
        while waited_for:
            seen = next(states)
            if seen.get("status", {}).get("state") == state and answered(seen):
                waited_for.discard(seen["metadata"]["name"])
        return time.perf_counter() - began


def _copy(bench: Bench) -> None:
    """The same queues, of a kind of the bench's own."""
    (definition,) = yaml.safe_load_all((MANIFESTS / "crds" / "queues.yaml").read_text())
    definition["metadata"] = {"name": f"queues.{BENCH_GROUP}"}
    definition["spec"]["group"] = BENCH_GROUP
    definition["spec"]["names"].pop("shortNames", None)
    bench.must("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    until(lambda: bench.api.request("GET", COPIES).status == 200, what="the copies' kind to be served")
    copies = [
        {**queue(each["metadata"]["name"], **each["spec"]), "apiVersion": f"{BENCH_GROUP}/v1beta1"}
        for each in all_queues(bench)
    ]
    bench.write(creations(COPIES, copies))


def _patched(bench: Bench) -> float:
    """Seconds for the statuses that the queues have now."""
    bench.quiet()
    patches = [
        Request("PATCH", f"{COPIES}/{each['metadata']['name']}/status", MERGE, {"status": each["status"]})
        for each in all_queues(bench)
    ]
    done = bench.write(patches, workers=WRITERS)
    restored = [
        Request("PATCH", f"{COPIES}/{each['metadata']['name']}/status", MERGE, {"status": None})
        for each in all_queues(bench)
    ]
    bench.write(restored)
    return done.ended - done.began


def all_queues(bench: Bench) -> list[Object]:
    return list(bench.must("GET", QUEUES)["items"])
