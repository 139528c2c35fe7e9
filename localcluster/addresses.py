"""The loopback ports of a cluster, chosen once and kept as long as it lives.

They lie below the range that the system gives to outgoing connections, so that a component
that was stopped finds its port free again.
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from certs.authority import write

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


def kept(path: Path) -> Ports:
    """The ports stored there, chosen and stored first where there are none."""
    if path.exists():
        return load(path)
    ports = choose()
    write(path, json.dumps(asdict(ports)).encode(), mode=0o644)
    return ports


def load(path: Path) -> Ports:
    return Ports(**json.loads(path.read_bytes()))


def choose() -> Ports:
    """Ports that are free now, all different."""
    free = _free()
    return Ports(**{field.name: next(free) for field in fields(Ports)})


def _free() -> Iterator[int]:
    candidates = list(RANGE)
    secrets.SystemRandom().shuffle(candidates)
    return (port for port in candidates if _is_free(port))


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
