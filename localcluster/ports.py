"""The loopback ports of a cluster, allocated once and kept as long as it exists.

Invariants
- They lie outside the range from which Linux takes ports for outgoing connections, if that leaves any, and
  no two clusters of a user have the same port, whether they listen on it or not. So a component that was
  stopped finds its port free again, and clusters that start at the same time do not collide.
- Allocations are recorded in one file per user (`registry`). An entry counts as long as the cluster's own
  file of ports exists, so a cluster that is gone has no ports, however it ended.
"""

from __future__ import annotations

import fcntl
import json
import secrets
import socket
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, astuple, dataclass, fields
from pathlib import Path

from certs.authority import write
from localcluster import build
from localcluster.exceptions import StartFailed

LOOPBACK = "127.0.0.1"
RANGE = range(20000, 32000)  # Linux usually takes ports from 32768 upwards for outgoing connections
#: Where a machine's outgoing connections take all of those.
OTHERS = range(5000, 65536)
#: For dozens of clusters at the same time.
ENOUGH = 500
OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True)
class Ports:
    """One port per listener."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int
    server: int
    health: int
    own_scheduler: int = 0

    @property
    def apiserver_url(self) -> str:
        return f"https://{LOOPBACK}:{self.apiserver}"

    @property
    def server_url(self) -> str:
        return f"https://{LOOPBACK}:{self.server}"

    @property
    def health_url(self) -> str:
        """The server's probes and metrics."""
        return f"http://{LOOPBACK}:{self.health}"

    @property
    def webhook_url(self) -> str:
        """By name, as the API server calls a Service: to callers by name the server offers HTTP/2."""
        return f"https://localhost:{self.server}"


def ensure_ports(path: Path) -> Ports:
    """The ports stored at `path`; allocates and stores them first if there are none."""
    if path.exists():
        return load_ports(path)
    with _allocations() as allocated:
        free = _free_ports(allocated)
        ports = Ports(**{field.name: next(free) for field in fields(Ports)})
        _allocate(allocated, astuple(ports), path)
        write(path, json.dumps(asdict(ports)).encode(), mode=0o644)
    return ports


def spare_port(path: Path) -> int:
    """Allocate one more port for the cluster whose ports are stored at `path`."""
    with _allocations() as allocated:
        port = next(_free_ports(allocated))
        _allocate(allocated, [port], path)
    return port


def load_ports(path: Path) -> Ports:
    return Ports(**json.loads(path.read_bytes()))


def registry() -> Path:
    """All allocations of this user: JSON, from port to the cluster's file of ports."""
    return build.home() / "ports.json"


@contextmanager
def _allocations() -> Iterator[dict[int, str]]:
    """The allocations of all clusters that exist; one process at a time."""
    path = registry()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            stored = json.loads(path.read_bytes())
        except (OSError, ValueError):
            stored = {}
        yield {int(port): owner for port, owner in stored.items() if Path(owner).exists()}


def _allocate(allocated: Mapping[int, str], ports: Iterable[int], path: Path) -> None:
    more = dict.fromkeys(ports, str(path.absolute()))
    write(registry(), json.dumps({**allocated, **more}).encode(), mode=0o644)


def _free_ports(allocated: Container[int]) -> Iterator[int]:
    """Ports that are neither allocated nor in use, all different. Raises `StartFailed` when none is left."""
    candidates = _candidates()
    secrets.SystemRandom().shuffle(candidates)
    yield from (port for port in candidates if port not in allocated and _is_free(port))
    raise StartFailed(f"no port from {min(candidates)} to {max(candidates)} is free")


def _candidates() -> list[int]:
    try:
        low, high = map(int, OUTGOING.read_text().split())
    except (OSError, ValueError):  # another system
        return list(RANGE)
    for ports in (RANGE, OTHERS):
        outside = [port for port in ports if not low <= port <= high]
        if len(outside) >= min(ENOUGH, len(ports)):
            return outside
    return list(RANGE)


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
