"""Creates the nodes that kwok simulates, as fast as the API server takes them.

A node is created with its Ready condition and its capacity, so that pods can be bound at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from localcluster import apiserver
from localcluster.exceptions import SetUpFailed
from localcluster.layout import Layout
from localcluster.ports import Ports

CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "1000"}
WRITERS = 8
ZONES = 3


def ensure(layout: Layout, ports: Ports, *, count: int) -> int:
    """Create those of `node-0` to `node-<count-1>` that do not exist; returns how many were created."""
    context = apiserver.context(layout)
    with apiserver.Https(port=ports.apiserver, context=context) as client:
        items = client.request("GET", "/api/v1/nodes").json()["items"]
    existing = {item["metadata"]["name"] for item in items}
    missing = [number for number in range(count) if _name(number) not in existing]
    shares = [missing[offset::WRITERS] for offset in range(WRITERS)]

    def create(share: Sequence[int]) -> None:
        with apiserver.Https(port=ports.apiserver, context=context) as writer:
            _create(writer, share)

    with ThreadPoolExecutor(WRITERS, thread_name_prefix="nodes") as pool:
        list(pool.map(create, [share for share in shares if share]))
    return len(missing)


def _create(client: apiserver.Https, numbers: Iterable[int]) -> None:
    for number in numbers:
        reply = client.request("POST", "/api/v1/nodes", node(number, now=datetime.now(UTC)))
        if reply.status not in (201, 409):  # 409: created by another process meanwhile
            raise SetUpFailed(f"{_name(number)} could not be created: {reply.body.decode(errors='replace')}")


def node(number: int, *, now: datetime) -> dict[str, Any]:
    """The node as it is created: labelled as a kubelet would, with its Ready condition."""
    name = _name(number)
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "local",
        "topology.kubernetes.io/zone": f"zone-{number % ZONES}",
        "type": "kwok",
    }
    at = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "played by kwok",
        "lastHeartbeatTime": at,
        "lastTransitionTime": at,
    }
    addresses = [{"type": "InternalIP", "address": "127.0.0.1"}, {"type": "Hostname", "address": name}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": CAPACITY,
            "allocatable": CAPACITY,
            "conditions": [ready],
            "addresses": addresses,
            "phase": "Running",
        },
    }


def _name(number: int) -> str:
    return f"node-{number}"
