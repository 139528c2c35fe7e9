"""A cluster that two cores cannot hold: a small real one, whose list of pods is recorded and multiplied.

`informer replay` stands between the readers and the API server. It answers the list of all pods with two
recorded ones, one of them a member, multiplied; everything else goes through to the API server, watches too
unless events are asked for, which are made up then.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks import companions, scale
from benchmarks.bench import PATIENCE, Bench
from benchmarks.go_programs import built
from benchmarks.objects import (
    QUEUE,
    pod,
    pods_path,
)
from certs import authority
from localcluster import apiserver, processes
from localcluster.components import BY_NAME, until
from localcluster.ports import LOOPBACK

PODS, MEMBERS, NODES = 100_000, 10_000, 5_000
SERVER = "server"


class Large(msgspec.Struct, frozen=True):
    """How the large cluster is reached: its address, and kubeconfigs of ours by name."""

    url: str
    admin: Path
    server: Path


def record(bench: Bench) -> bytes:
    """A member and a pod of no queue, as they are while they run; both, and the server, are gone then."""
    bench.install()
    bench.queue(QUEUE, state="Open")
    bench.create_pods([pod("member", queue=QUEUE), pod("other")])
    bench.bind_pods({"member": "node-0", "other": "node-0"})
    bench.await_running()
    recorded = bench.api.request("GET", pods_path()).body
    bench.clear()
    bench.cluster.stop_components(SERVER)
    return recorded


@contextmanager
def replayed(bench: Bench, recorded: bytes, *more: str) -> Iterator[Large]:
    """The replay runs; `more` are arguments of its own."""
    layout = bench.cluster.layout
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "pods.json").write_bytes(recorded)
        pair = authority.load(layout.pki).serving(now=datetime.now(UTC), ips=[LOOPBACK])
        cert, key = pair.save(folder, stem="replay")
        command = [
            *(str(built("syncing/informer", say=bench.say)), "replay"),
            *("-kubeconfig", str(layout.component_kubeconfig(SERVER))),
            *("-cert", str(cert), "-key", str(key), "-recorded", str(folder / "pods.json")),
            *("-pods", str(scale.scaled(PODS)), "-members", str(scale.scaled(MEMBERS))),
            *("-nodes", str(scale.scaled(NODES)), *more),
        ]
        with companions.started(command) as (address, _):
            yield _reached(bench, folder, f"https://{address}")


@contextmanager
def serving(bench: Bench, large: Large) -> Iterator[float]:
    """Our server follows the large cluster; how many seconds after its start it was ready."""
    cluster = bench.cluster
    command = [
        f"--kubeconfig={large.server}" if part.startswith("--kubeconfig=") else part
        for part in BY_NAME[SERVER].command(cluster.layout, cluster.ports)
    ]
    trust = apiserver.caller_context(cluster.layout)
    port = cluster.ports.server
    began = time.monotonic()
    processes.spawn(command, folder=cluster.layout.folder, component=SERVER, log=cluster.layout.log(SERVER))
    try:
        until(
            lambda: apiserver.readiness_problem(port, "/readyz", context=trust) is None,
            what="the server to be in sync",
            seconds=PATIENCE,
        )
        yield time.monotonic() - began
    finally:
        cluster.stop_components(SERVER)


def _reached(bench: Bench, folder: Path, url: str) -> Large:
    layout = bench.cluster.layout
    found = {"admin": layout.kubeconfig, SERVER: layout.component_kubeconfig(SERVER)}
    for name, path in found.items():
        text = path.read_text().replace(bench.cluster.ports.apiserver_url, url)
        (folder / f"{name}.kubeconfig").write_text(text)
    return Large(url, folder / "admin.kubeconfig", folder / f"{SERVER}.kubeconfig")
