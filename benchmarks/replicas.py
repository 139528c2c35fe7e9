"""More replicas of the server, beside the one that webhooks and the scheduler ask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from benchmarks.bench import PATIENCE, Bench
from localcluster import apiserver, processes
from localcluster.components import BY_NAME, until
from localcluster.ports import spare_port


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
    ports = replace(bench.cluster.ports, server=port, health=spare_port(layout.ports))
    command = BY_NAME["server"].command(layout, ports)
    processes.spawn(command, folder=layout.folder, component=name, log=layout.log(name))
    until(
        lambda: apiserver.readiness_problem(ports.health, "/readyz", context=None) is None,
        what=f"{name} to be ready",
        seconds=PATIENCE,
    )
    return port
