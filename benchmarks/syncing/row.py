"""Memory and time until all pods of a large cluster are known, beside client-go."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from benchmarks import companions, scale
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult, at_most
from benchmarks.go_programs import built
from benchmarks.memory import held, highest
from benchmarks.syncing.replayed_list import (
    MEMBERS,
    NODES,
    PODS,
    SERVER,
    Large,
    record,
    replayed,
    serving,
)
from localcluster import apiserver, processes
from localcluster.build import Say
from localcluster.components import until
from queues import well_known

#: After the sync, for what was needed for it to be given back.
SETTLING = 5.0
#: client-go would ask for a stream in place of a list, which the replay does not have.
FOLLOWING = {**os.environ, "KUBE_FEATURE_WatchListClient": "false"}


class Seen(msgspec.Struct, frozen=True):
    """Seconds from the start of the process until it is in sync, MiB a while after, and MiB at most."""

    seconds: float
    memory: float
    most: float


#: What is measured: ours, and what stands beside it.
OURS, LABELLED, SAME, ALL = "ours", "labelled", "same", "all"
BESIDE = {
    LABELLED: "a client-go reflector that asks for the same label and keeps what we keep",
    SAME: "a client-go reflector that asks for all pods and keeps what we keep, of members alone",
    ALL: "a client-go informer of all pods, as it comes",
}
#: The arguments of the program in Go.
ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    LABELLED: ("-members", "-labels", well_known.QUEUE),
    SAME: ("-members",),
    ALL: (),
}
#: The most that ours may take.
MEMORY, SECONDS = 150.0, 2.0


def measure(say: Say) -> RowResult:
    seen: dict[str, list[Seen]] = {OURS: [], **{name: [] for name in BESIDE}}
    with running(nodes=3, say=say) as bench, replayed(bench, record(bench)) as large:
        for number in scale.rounds():
            seen[OURS].append(_ours(bench, large))
            for name, arguments in ARGUMENTS.items():
                seen[name].append(_informer(bench, large, *arguments))
            last = ", ".join(
                f"{name} {each[-1].seconds:.1f} s {each[-1].memory:.0f} MiB" for name, each in seen.items()
            )
            say(f"pair {number}: {last}")
    return RowResult(
        title="A large cluster",
        about=f"**Recorded and multiplied:** a list of {scale.scaled(PODS):,} pods on "
        f"{scale.scaled(NODES):,} nodes, {scale.scaled(MEMBERS):,} of them members, served by a "
        "replay in front of a small real API server. From the start of the process (for ours: "
        f"until `/readyz`), and its memory (Pss) {SETTLING:.0f} s after. The informer reads "
        "protobuf. Ours asks for the members by their label, and so does the first program in Go, which is "
        "the like one; the other two ask for all pods, as ours once did, and are kept for comparison.",
        lines=(*_goals(seen[OURS]), *(line for name in BESIDE for line in _lines(name, seen))),
    )


def _goals(ours: Sequence[Seen]) -> Iterator[Line]:
    """Beside what a server may take of a cluster of this size."""
    for what, unit, taken, most in (
        ("memory once in sync", "MiB", [each.memory for each in ours], MEMORY),
        ("time to sync", "s", [each.seconds for each in ours], SECONDS),
    ):
        yield Line(
            what=what,
            beside=f"{most:.0f} {unit}",
            unit=unit,
            ours=tuple(taken),
            theirs=(most,) * len(taken),
            goal=at_most(1.0),
        )


def _lines(name: str, seen: Mapping[str, Sequence[Seen]]) -> Iterator[Line]:
    for what, key, unit in (
        ("memory once in sync", "memory", "MiB"),
        ("memory at most", "most", "MiB"),
        ("time to sync", "seconds", "s"),
    ):
        yield Line(
            what=what,
            beside=BESIDE[name],
            unit=unit,
            ours=tuple(getattr(each, key) for each in seen[OURS]),
            theirs=tuple(getattr(each, key) for each in seen[name]),
        )


def _ours(bench: Bench, large: Large) -> Seen:
    cluster = bench.cluster
    with serving(bench, large) as seconds:
        until(lambda: _members(bench) == scale.scaled(MEMBERS), what="all members to be held")
        time.sleep(SETTLING)
        ours = [each.pid for each in processes.find(cluster.layout.folder) if each.component == SERVER]
        return Seen(seconds, held(ours), highest(ours))


def _members(bench: Bench) -> int:
    """How many our server holds."""
    layout = bench.cluster.layout
    trust = apiserver.caller_context(layout)
    with apiserver.Https(port=bench.cluster.ports.server, context=trust) as client:
        text = client.request("GET", "/metrics").body.decode()
    found = re.search(r"^sluice_members (\S+)$", text, re.MULTILINE)
    return int(float(found[1])) if found else -1


def _informer(bench: Bench, large: Large, *arguments: str) -> Seen:
    program = built("syncing/informer", say=bench.say)
    command = [str(program), "follow", "-kubeconfig", str(large.admin), *arguments]
    began = time.monotonic()
    with companions.started(command, env=FOLLOWING) as (said, pid):
        seconds, objects = time.monotonic() - began, json.loads(said)["objects"]
        wanted = scale.scaled(MEMBERS if arguments else PODS)
        if objects != wanted:
            raise RuntimeError(f"the informer holds {objects} pods, not {wanted}")
        time.sleep(SETTLING)
        return Seen(seconds, held([pid]), highest([pid]))
