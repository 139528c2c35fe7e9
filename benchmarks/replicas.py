"""More replicas of the server, beside the one that webhooks and the scheduler ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.bench import PATIENCE, Bench
from localcluster import apiserver, processes
from localcluster.components import BY_NAME, until
from localcluster.ports import LOOPBACK, spare_port


@contextmanager
def joined(bench: Bench, *, more: int) -> Iterator[list[int]]:
    """So many more are ready, and have a say in what is acknowledged, until the block ends; their ports."""
    names = [f"replica-{number}" for number in range(more)]
    try:
        yield [_join(bench, name) for name in names]
    finally:
        processes.stop(bench.cluster.layout.folder, components=names)


def _join(bench: Bench, name: str) -> int:
    layout, port = bench.cluster.layout, spare_port(bench.cluster.layout.ports)
    command = [
        f"--bind={LOOPBACK}:{port}" if part.startswith("--bind=") else part
        for part in BY_NAME["server"].command(layout, bench.cluster.ports)
    ]
    processes.spawn(command, folder=layout.folder, component=name, log=layout.log(name))
    trust = apiserver.context(layout, authority=layout.server_ca)
    until(
        lambda: apiserver.readiness_problem(port, "/readyz", context=trust) is None,
        what=f"{name} to be ready",
        seconds=PATIENCE,
    )
    return port
