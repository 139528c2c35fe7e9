"""The capability of hundreds of queues is raised at once, until the last pod that waits is let go."""

from __future__ import annotations

import time
from collections.abc import Iterator

from benchmarks import scale
from benchmarks.bench import PATIENCE, Bench, running
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.interleaved import in_turns
from benchmarks.objects import (
    HOME,
    MERGE,
    NAMED_BY,
    QUEUES,
    Object,
    Request,
    answered,
    creations,
    pods,
    pods_path,
    queue,
)
from benchmarks.resume_times import GATE, WRITERS
from benchmarks.watch import watched
from cluster.api.client import STRATEGIC_MERGE_PATCH
from localcluster.build import Say
from localcluster.components import until

QUEUES_COUNT, PODS = 300, 1_650
RAISED, BARE = "raised", "patched"


def measure(say: Say) -> RowResult:
    queues, count = scale.scaled(QUEUES_COUNT), scale.scaled(PODS)
    with running(nodes=1, say=say) as bench:
        seen = in_turns(
            {RAISED: lambda: _raised(bench, queues, count), BARE: lambda: _patched(bench, queues, count)},
            told=lambda seconds: f"{seconds:.2f} s",
            say=say,
        )
    return RowResult(
        title="Raising the capability of hundreds of queues",
        about=f"{count:,} pods wait in {queues} queues whose capability has room for none. From the first of "
        "the patches that raise all of them until a client that only watches has read the last pod without a "
        "gate. Beside it, with nothing installed, as many patches of queues, and of pods by which a client "
        f"in Go takes their gates off over {WRITERS} connections.",
        lines=(
            Line(
                what=f"{queues} capabilities raised, to the last of {count:,} pods let go",
                beside="as many bare patches",
                unit="s",
                ours=tuple(seen[RAISED]),
                theirs=tuple(seen[BARE]),
                goal=at_most(2.0),
            ),
        ),
    )


def _names(queues: int) -> list[str]:
    return [f"team-{number}" for number in range(queues)]


def _waiting(queues: int, count: int, *, gated: bool) -> Iterator[Object]:
    for number, body in enumerate(pods(count)):
        if gated:
            body["spec"]["schedulingGates"] = [GATE]
        else:
            body["metadata"]["annotations"] = {NAMED_BY: f"team-{number % queues}"}
        yield body


def _edits(queues: int, count: int) -> list[Request]:
    """Have these queues room for so many pods together."""
    most = -(-count // queues)
    return [
        Request("PATCH", f"{QUEUES}/{name}", MERGE, {"spec": {"capability": {"pods": str(most)}}})
        for name in _names(queues)
    ]


def _raised(bench: Bench, queues: int, count: int) -> float:
    bench.install()
    there = {each["metadata"]["name"] for each in bench.must("GET", QUEUES)["items"]}
    new = [name for name in _names(queues) if name not in there]
    bench.write(creations(QUEUES, (queue(name, capability={"pods": "0"}) for name in new)))
    bench.write(_edits(queues, 0))
    until(
        lambda: all(answered(each) for each in bench.must("GET", QUEUES)["items"]),
        what="the queues to be answered",
        seconds=PATIENCE,
    )
    bench.create_pods(_waiting(queues, count, gated=False))
    seconds = _until_let_go(bench, _edits(queues, count), count)
    bench.clear()
    return seconds


def _patched(bench: Bench, queues: int, count: int) -> float:
    bench.remove()
    bench.write(_edits(queues, 0))
    bench.create_pods(_waiting(queues, count, gated=True))
    patch = {"spec": {"schedulingGates": [{**GATE, "$patch": "delete"}]}}
    patches = [
        Request("PATCH", f"{pods_path()}/{name}", STRATEGIC_MERGE_PATCH, patch) for name in bench.pod_names()
    ]
    seconds = _until_let_go(bench, [*_edits(queues, count), *patches], count)
    bench.clear()
    return seconds


def _until_let_go(bench: Bench, requests: list[Request], count: int) -> float:
    """Seconds from the first of these writes until so many pods have no gate."""
    bench.quiet()
    listed = bench.must("GET", pods_path(HOME))
    let_go: set[str] = set()
    with watched(bench.cluster, pods_path(HOME), since=listed["metadata"]["resourceVersion"]) as changes:
        began = time.perf_counter()
        bench.write(requests, workers=WRITERS)
        for pod in changes:
            if not pod["spec"].get("schedulingGates"):
                let_go.add(pod["metadata"]["uid"])
            if len(let_go) == count:
                break
        return time.perf_counter() - began
