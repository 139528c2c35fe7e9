"""One pod is evicted, or deleted, and no other pod of its name.

Invariants
- The UID is a precondition: another pod of that name is left alone.
- One eviction a budget is under way at a time (`lane_of`): two meet in the budget's status, and the one that
  loses waits for half a second in the API server.
- The requests of one namespace take `LANES_PER_NAMESPACE` of the writers at most: what makes them slow, such
  as a budget that is written all the time or a user's webhook, delays no other namespace.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable
from typing import Any, Protocol

from cluster.api.client import Client
from cluster.cache.members import Member
from queues.drain.disruption_budgets import BudgetKey

#: Writers that the requests of one namespace take at most, so that many pods may go in 0.1 s: an eviction
#: lists the budgets of its namespace as they are now, and of a kind that is seldom written the API server
#: answers such a list when its watch cache hears of its progress.
LANES_PER_NAMESPACE = 16


class NamedPod(Protocol):
    """What names one pod, and no later one of that name."""

    @property
    def uid(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...


def lane_of(namespace: str, *, uid: str, budget: BudgetKey | None) -> Hashable:
    """The lane of a request: the same for all of one budget, else one of a few of its namespace."""
    return namespace, zlib.crc32((budget[1] if budget is not None else uid).encode()) % LANES_PER_NAMESPACE


def evict_pod(client: Client, pod: NamedPod, *, grace: int | None = None) -> None:
    """Ask for the eviction of this very pod: its budgets are heeded. Raises `ClusterError`."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "deleteOptions": _options(pod, grace=grace),
    }
    client.create(f"{_path(pod)}/eviction", body)


def delete_pod(client: Client, pod: NamedPod, *, grace: int | None = None, version: int = 0) -> None:
    """Delete this very pod, whatever its budgets say; `version`: at that version alone. Raises
    `ClusterError`.
    """
    client.delete(_path(pod), _options(pod, grace=grace, version=version))


def _path(pod: NamedPod) -> str:
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def _options(pod: NamedPod, *, grace: int | None, version: int = 0) -> dict[str, Any]:
    preconditions = {"uid": pod.uid, **({"resourceVersion": str(version)} if version else {})}
    options: dict[str, Any] = {"preconditions": preconditions}
    return options if grace is None else {**options, "gracePeriodSeconds": grace}


def send_away(client: Client, member: Member) -> None:
    """Evict it; delete it at the version that has no node, where it has none. Raises `ClusterError`."""
    if member.node:
        evict_pod(client, member)
    else:
        delete_pod(client, member, version=member.version)
