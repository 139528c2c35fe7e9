"""What each policy and each entry of the webhooks costs those who have nothing to do with us."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from benchmarks import scale
from benchmarks.allocations import Spent, measured
from benchmarks.bench import Bench, running
from benchmarks.figures import Line, RowResult
from benchmarks.interleaved import in_turns
from benchmarks.objects import MERGE, Request, pods, pods_path
from localcluster import manifests
from localcluster.build import Say

PODS, NODES = 1_000, 50
#: A round is some minutes long.
ROUNDS = 5
STEPS = ("creation", "bind and status", "edit")
POLICIES = ("sluice-bindings", "sluice-commands", "sluice-namespaces", "sluice-pod-statuses", "sluice-queues")
#: The entries that a pod of no queue is shown to, each alone; and all that it is not, together.
PODS_ENTRIES = ("members.pods.sluice.dev", "unasked.pods.sluice.dev", "pods.sluice.dev")
OTHERS = "all other entries"
Seen = Mapping[str, Sequence[Mapping[str, Spent]]]


def measure(say: Say) -> RowResult:
    with running(nodes=scale.scaled(NODES), say=say) as bench:
        entries = Entries(bench)
        ways = {
            "nothing": partial(_measured, entries, ()),
            "policies": partial(_measured, entries, POLICIES),
            **{each: partial(_measured, entries, (each,)) for each in PODS_ENTRIES},
            OTHERS: partial(_measured, entries, entries.names - {*PODS_ENTRIES, *POLICIES}),
            "all": partial(_measured, entries, entries.names),
        }
        seen = in_turns(ways, told=_in_words, say=say, usual=ROUNDS)
    return RowResult(
        title="What each entry costs pods of no queue",
        about=f"{scale.scaled(PODS):,} pods of no queue, created, bound and edited by a client in Go; each "
        "bind comes with one status of the kubelet. No server runs: nothing of ours is called, and what is "
        "left is what the API server does to find that out.",
        lines=tuple(_lines(seen)),
        notes=tuple(_times(seen)),
    )


def _lines(seen: Seen) -> Iterator[Line]:
    for step in STEPS:
        for way, rounds in seen.items():
            if way != "nothing":
                yield Line(
                    what=f"KiB per {step}: {way}",
                    beside="nothing registered",
                    unit="KiB",
                    ours=tuple(each[step].kib for each in rounds),
                    theirs=tuple(each[step].kib for each in seen["nothing"]),
                )


def _times(seen: Seen) -> Iterator[str]:
    for step in STEPS:
        parts = (f"{_least(rounds, step):.2f} ms {way}" for way, rounds in seen.items())
        yield f"CPU of kube-apiserver per {step}, the least of the rounds: {'; '.join(parts)}."


def _least(rounds: Sequence[Mapping[str, Spent]], step: str) -> float:
    return min(each[step].cpu["kube-apiserver"] for each in rounds)


def _in_words(steps: Mapping[str, Spent]) -> str:
    return "; ".join(f"{step} {each}" for step, each in steps.items())


class Entries:
    """Our policies and the entries of our webhooks, of which any may be registered without a server."""

    def __init__(self, bench: Bench) -> None:
        layout = bench.cluster.layout
        self.bench = bench
        self._documents = [
            each
            for each in manifests.localised(
                manifests.rendered(layout), server_url=bench.cluster.ports.webhook_url, webhooks=True
            )
            if each["kind"] in manifests.WEBHOOKS or each["kind"].startswith("ValidatingAdmissionPolicy")
        ]
        self._bundle = base64.b64encode(layout.server_ca.read_bytes()).decode()

    @property
    def names(self) -> set[str]:
        """A webhook configuration is known by its entries."""
        return {name for each in self._documents for name in _names(each)}

    def register(self, names: Collection[str]) -> None:
        """These and no others are registered afterwards."""
        self.bench.unregister()
        chosen = [part for each in self._documents if (part := self._part(each, names)) is not None]
        if chosen:
            manifests.apply(self.bench.cluster.layout, self.bench.cluster.ports, chosen)

    def _part(
        self, document: manifests.ManifestObject, names: Collection[str]
    ) -> manifests.ManifestObject | None:
        if document["kind"] not in manifests.WEBHOOKS:
            return document if document["metadata"]["name"] in names else None
        webhooks = [
            {**each, "clientConfig": {**each["clientConfig"], "caBundle": self._bundle}}
            for each in document["webhooks"]
            if each["name"] in names
        ]
        return {**document, "webhooks": webhooks} if webhooks else None


def _names(document: manifests.ManifestObject) -> list[str]:
    if document["kind"] in manifests.WEBHOOKS:
        return [each["name"] for each in document["webhooks"]]
    return [document["metadata"]["name"]]


def _measured(entries: Entries, names: Collection[str]) -> dict[str, Spent]:
    bench, count = entries.bench, scale.scaled(PODS)
    entries.register(names)
    bodies = pods(count)
    nodes = {
        each["metadata"]["name"]: f"node-{number % scale.scaled(NODES)}" for number, each in enumerate(bodies)
    }
    change = {"metadata": {"annotations": {"bench": "edited"}}}
    edits = [Request("PATCH", f"{pods_path()}/{name}", MERGE, change) for name in nodes]
    steps = (
        lambda: bench.create_pods(bodies),
        lambda: bench.bind_pods(nodes),
        lambda: bench.write(edits),
    )
    cost = {step: measured(bench, work, count=count) for step, work in zip(STEPS, steps, strict=True)}
    bench.await_running()
    bench.clear()
    return cost
