"""The Go extender that stands beside ours, running."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import companions
from benchmarks.go_programs import built
from benchmarks.target import Target
from certs.authority import create
from localcluster.build import Say
from localcluster.cluster import LocalCluster


@contextmanager
def serving(*arguments: str, say: Say) -> Iterator[Target]:
    """Its address, and the authority of its certificate (P-256, like ours)."""
    with started("filtering/twin", *arguments, say=say) as (target, _):
        yield target


@contextmanager
def started(
    source: str, *arguments: str, say: Say, env: Mapping[str, str] | None = None
) -> Iterator[tuple[Target, int]]:
    """The Go extender of `benchmarks/<source>`, and its process ID, once it has printed its address."""
    program = built(source, say=say)
    with tempfile.TemporaryDirectory() as folder:
        now = datetime.now(UTC)
        authority = create(name="twin", now=now)
        ca, _ = authority.save(Path(folder), stem="ca")
        cert, key = authority.serving(now=now, ips=["127.0.0.1"]).save(Path(folder), stem="twin")
        command: Sequence[str] = [str(program), "-cert", str(cert), "-key", str(key), *arguments]
        with companions.started(command, env=env) as (address, pid):
            yield Target(f"https://{address}/extender", ca), pid


def following(cluster: LocalCluster, *, url: str = "") -> list[str]:
    """The arguments that have it follow the pods and queues of a cluster, or what stands in front of it."""
    pki = cluster.layout.pki
    return [
        *("-api", url or cluster.ports.apiserver_url, "-api-ca", str(pki / "ca.crt")),
        *("-api-cert", str(pki / "admin.crt"), "-api-key", str(pki / "admin.key")),
    ]
