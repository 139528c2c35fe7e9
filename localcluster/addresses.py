"""The loopback ports of a cluster, chosen once and kept as long as it lives.

Invariants
- They lie below the range that the system gives to outgoing connections, and no two clusters of a
  user hold the same, listening or not: a component that was stopped finds its port free again, and
  clusters that start side by side do not meet.
- What is held is written into one file a user (`registry`). It counts as long as the cluster's own
  file of ports is there, so a cluster that is gone holds nothing, however it went.
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
from localcluster import build as building
from localcluster.exceptions import StartFailed

LOOPBACK = "127.0.0.1"
RANGE = range(20000, 32000)  # Linux hands out 32768 and up by itself


@dataclass(frozen=True)
class Ports:
    """One port a listener."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    scheduler: int
    kwok: int
    server: int

    @property
    def apiserver_url(self) -> str:
        return f"https://{LOOPBACK}:{self.apiserver}"

    @property
    def server_url(self) -> str:
        return f"https://{LOOPBACK}:{self.server}"

    @property
    def webhook_url(self) -> str:
        """By name, as the API server calls a Service: whoever does so may speak HTTP/2."""
        return f"https://localhost:{self.server}"


def kept(path: Path) -> Ports:
    """The ports stored there, chosen and stored first where there are none."""
    if path.exists():
        return load(path)
    with _held() as held:
        free = _free(held)
        ports = Ports(**{field.name: next(free) for field in fields(Ports)})
        _hold(held, astuple(ports), path)
        write(path, json.dumps(asdict(ports)).encode(), mode=0o644)
    return ports


def spare(path: Path) -> int:
    """One more port for the cluster whose ports are stored there, held like those."""
    with _held() as held:
        port = next(_free(held))
        _hold(held, [port], path)
    return port


def load(path: Path) -> Ports:
    return Ports(**json.loads(path.read_bytes()))


def registry() -> Path:
    """Who holds which port, for all clusters of this user: JSON, from port to the cluster's file of ports."""
    return building.home() / "ports.json"


@contextmanager
def _held() -> Iterator[dict[int, str]]:
    """What living clusters hold; one process at a time."""
    path = registry()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            said = json.loads(path.read_bytes())
        except (OSError, ValueError):
            said = {}
        yield {int(port): owner for port, owner in said.items() if Path(owner).exists()}


def _hold(held: Mapping[int, str], ports: Iterable[int], path: Path) -> None:
    more = dict.fromkeys(ports, str(path.absolute()))
    write(registry(), json.dumps({**held, **more}).encode(), mode=0o644)


def _free(held: Container[int]) -> Iterator[int]:
    """Ports that nobody holds and nobody listens on, all different. Raises `StartFailed` at their end."""
    candidates = list(RANGE)
    secrets.SystemRandom().shuffle(candidates)
    yield from (port for port in candidates if port not in held and _is_free(port))
    raise StartFailed(f"no port from {RANGE.start} to {RANGE.stop - 1} is free")


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
