"""Binds a second of a real kube-scheduler that asks a candidate about each pod, or about each bind, or both.

    python -m benchmarks.worker.binds --local DIR [--nodes 200] [--pods 800] [--ways both] [CANDIDATE ...]

Starts a control plane of its own in DIR and ends it. The pods are there before the scheduler is; the time is
from the API server's first bind to its last, by its audit log. `none` asks nobody, `go` is the Go server.
"""

import argparse
import json
import tempfile
from base64 import b64encode
from contextlib import ExitStack, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.worker.candidate import CANDIDATES
from benchmarks.worker.measure import Bench
from localcluster import apiserver, lifecycle, processes, scheduler_config
from localcluster.components import until
from localcluster.layout import Layout
from localcluster.lifecycle import ClusterOptions
from localcluster.ports import load_ports

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "bench"},
    "spec": {"containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1m"}}}]},
}
WAYS = {"filter": (True, False), "guard": (False, True), "both": (True, True)}


def scheduled(layout: Layout, *, pods: int, port: int | None, bench: Bench) -> float:
    """Binds a second, with filter calls to the port if there is one."""
    made = [POD | {"metadata": {"namespace": "bench", "name": f"pod-{number}"}} for number in range(pods)]
    apiserver.kubectl(
        layout, "create", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": made})
    )
    already = len(bind_times(layout))
    scheduler_config.configure(
        layout, load_ports(layout.ports), edit=lambda given: extend(given, port=port, ca=bench.cert)
    )
    lifecycle.start_components(layout, ["kube-scheduler"], say=lambda _: None)
    until(lambda: len(bind_times(layout)) >= already + pods, what="all pods to be bound", seconds=300)
    processes.stop(layout.folder, components=["kube-scheduler"], grace=5)
    apiserver.kubectl(layout, "delete", "pods", "--all", "--namespace=bench", "--grace-period=0", "--force")
    times = sorted(bind_times(layout)[already:])
    return (len(times) - 1) / (times[-1] - times[0]).total_seconds()


def bind_times(layout: Layout) -> list[datetime]:
    """When each bind that was allowed came."""
    text = layout.audit_log.read_text()
    whole = text[: text.rfind("\n") + 1]  # the last line may still be being written
    lines = [json.loads(line) for line in whole.splitlines()]
    return [
        datetime.fromisoformat(line["requestReceivedTimestamp"])
        for line in lines
        if line["responseStatus"]["code"] == 201
    ]


def extend(configuration: dict[str, Any], *, port: int | None, ca: Path) -> None:
    """Ask the port about every pod."""
    (extender, *_) = configuration["extenders"]
    extender["urlPrefix"] = f"https://127.0.0.1:{port}"
    extender["tlsConfig"] = {"caFile": str(ca)}
    for name in ("managedResources", "preemptVerb"):
        extender.pop(name, None)
    configuration["extenders"] = [] if port is None else [extender]


def guard(layout: Layout, *, port: int | None, ca: Path) -> None:
    """Have the API server ask the port about every bind, or nobody."""
    apiserver.kubectl(layout, "delete", "validatingwebhookconfiguration", "bench", "--ignore-not-found")
    if port is not None:
        apiserver.kubectl(layout, "create", "-f", "-", stdin=json.dumps(webhook(port=port, ca=ca)))


def webhook(*, port: int, ca: Path) -> dict[str, Any]:
    """The registration."""
    client = {"url": f"https://127.0.0.1:{port}/admit", "caBundle": b64encode(ca.read_bytes()).decode()}
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"]}
    hook = {
        "name": "bench.sluice.dev",
        "clientConfig": client,
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    return {**kind, "metadata": {"name": "bench"}, "webhooks": [hook]}


def main() -> None:
    """Measure and print."""
    processes.exit_on_signals()
    parser = argparse.ArgumentParser()
    parser.add_argument("candidates", nargs="*", default=["none", "go", *CANDIDATES])
    parser.add_argument("--local", required=True)
    parser.add_argument("--nodes", type=int, default=200)
    parser.add_argument("--pods", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    asked = parser.parse_args()
    layout = Layout.at(asked.local)
    with ExitStack() as stack:
        bench = Bench(folder=Path(stack.enter_context(tempfile.TemporaryDirectory())), seconds=1)
        stack.callback(lifecycle.down, layout, say=print)
        lifecycle.up(layout, ClusterOptions(nodes=asked.nodes, server=False), say=print)
        processes.stop(layout.folder, components=["kube-scheduler"], grace=5)
        apiserver.kubectl(layout, "create", "namespace", "bench")
        for _ in range(asked.rounds):
            for name in asked.candidates:
                measure(layout, bench, name=name, pods=asked.pods, ways=asked.ways)


def measure(layout: Layout, bench: Bench, *, name: str, pods: int, ways: list[str]) -> None:
    """The ways to ask one candidate, which is started anew for each."""
    for way in ["nobody"] if name == "none" else ways:
        filters, guards = WAYS.get(way, (False, False))
        with server(bench, name) as port:
            guard(layout, port=port if guards else None, ca=bench.cert)
            rate = scheduled(layout, pods=pods, port=port if filters else None, bench=bench)
        guard(layout, port=None, ca=bench.cert)
        print(f"{name} | {way} | {rate:.0f} binds/s", flush=True)


def server(bench: Bench, name: str) -> Any:
    """The candidate, running."""
    if name == "none":
        return nullcontext()
    return bench.go() if name == "go" else bench.candidate(name, app="flask", compute=False)


if __name__ == "__main__":
    main()
