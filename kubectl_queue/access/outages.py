"""Reads whether a replica of the server answers and leads (`views.outage`), with the rights that users have.

| may read                                               | requests                        |
|--------------------------------------------------------|---------------------------------|
| all Leases of the server's namespace                   | one                             |
| the leader's alone (ClusterRole `sluice-queue-viewer`) | two                             |
| neither                                                | two; then nothing is known      |

The server's namespace is that of the manifests, if a replica leads there. Else it is where its registration
points (`replicas.registered_namespaces`): Leases that a former installation left in another namespace say
nothing. Where that may not be read, and the Leases of the manifests' namespace say that there is an outage:

==================================================  ======================================================
a status of a queue                                 it is
==================================================  ======================================================
was written by the server after these Leases ended  not known: they are of a former installation
was not                                             an outage there; the sentence names the namespace
==================================================  ======================================================

=======================  =============================  ================================================
the leader's Lease       the replicas' Leases           it is
=======================  =============================  ================================================
counts still             whatever they say              no outage
has ended                one counts still               no replica leads, since the leader's last renewal
has ended                none counts                    no replica answers, since the last renewal of any
has ended                may not be read                no replica leads, since the leader's last renewal
is not there             one counts still               no replica leads
is not there             all have ended                 no replica answers, since the last renewal of any
is not there             there are none                 no outage: Sluice may not be installed there
is not there             may not be read                no outage: nothing is known
may not be read          may not be read                no outage: nothing is known
=======================  =============================  ================================================

Promises
- What is not known is no outage, and nothing is raised. A Lease counts for some seconds after its last
  renewal (`replicas.lease_end`): until then an outage is not known either.
- It is read once in a run of a command, while the command reads what it is about.

Threads: one, `outage`, which ends with its last answer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.replicas import (
    LEADER,
    LEASE_PREFIX,
    NAMESPACE,
    SERVER,
    is_foreign,
    lease_end,
    leases_path,
    read_webhooks,
    registered_namespaces,
    renewed_at,
)
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.errors import ForbiddenError, NotFoundError, QueueError
from kubectl_queue.objects.fields import Object, name_of, value_at
from kubectl_queue.objects.types import QUEUE
from kubectl_queue.views.outage import Outage, OutageKind
from queues.apimachinery.timestamps import EARLIEST, parse_timestamp

#: A write that was on its way when its replica died lands this much later at most.
_LATE = timedelta(minutes=1)
_KIND = "leases.coordination.k8s.io"


class ServerLeases(NamedTuple):
    """`leader`: the leader's; None: it is not there. `replicas`: theirs; None: they may not be read."""

    leader: Object | None
    replicas: Sequence[Object] | None

    @property
    def is_installed(self) -> bool:
        return self.leader is not None or bool(self.replicas)


def outage_of(leases: ServerLeases, *, now: datetime) -> Outage | None:
    """By the table above. `now`: the API server's clock."""
    leader, replicas = leases
    if leader is not None and lease_end(leader) >= now:
        return None
    ours = None if replicas is None else [each for each in replicas if not is_foreign(each, now=now)]
    led_until = None if leader is None else renewed_at(leader)
    if ours is None:
        return None if leader is None else Outage(OutageKind.NO_LEADER, led_until)
    if any(lease_end(each) >= now for each in ours):
        return Outage(OutageKind.NO_LEADER, led_until)
    signs = [*map(renewed_at, ours), *([led_until] if led_until else [])]
    return Outage(OutageKind.NO_REPLICA, max(signs)) if signs else None


def read_outage(client: ApiClient) -> Outage | None:
    """None where there is none, and where it is not known."""
    try:
        leases = _read(client, NAMESPACE)
        outage = outage_of(leases, now=client.now)
        if outage is None and leases.is_installed:
            return None
        registered = registered_namespaces(client)
        if registered is None:
            return _assumed(client, outage) if outage is not None else None
        elsewhere = registered - {NAMESPACE}
        if not elsewhere:
            return outage
        others = [outage_of(_read(client, name), now=client.now) for name in sorted(elsewhere)]
        found = [outage, *others] if NAMESPACE in registered else others
        return None if None in found else found[0]
    except QueueError:
        return None


def is_absent(client: ApiClient) -> bool:
    """Whether no webhook of Sluice is registered and no replica leads, as after an uninstall.

    False where that may not be read.
    """
    try:
        if any(True for _ in read_webhooks(client)):
            return False
        leases = _read(client, NAMESPACE)
    except QueueError:
        return False
    return leases.leader is None or lease_end(leases.leader) < client.now


def _assumed(client: ApiClient, outage: Outage) -> Outage | None:
    """In the namespace of the manifests, where it may not be read which one is the server's."""
    if outage.since is not None and _has_written(client, after=outage.since + _LATE):
        return None
    return msgspec.structs.replace(outage, assumed=NAMESPACE)


def _has_written(client: ApiClient, *, after: datetime) -> bool:
    """Whether the server has written a status of a queue since. Raises `QueueError`."""
    times = (
        parse_timestamp(str(entry.get("time") or ""))
        for item in client.list(f"{QUEUE.base}/{QUEUE.resource}", query={}, kind=QUEUE.full).items
        for entry in value_at(item, "metadata.managedFields") or ()
        if entry.get("manager") == SERVER and entry.get("subresource") == "status"
    )
    return max(times, default=EARLIEST) > after


def _read(client: ApiClient, namespace: str) -> ServerLeases:
    path = leases_path(namespace)
    try:
        leases = client.list(path, query={}, kind=_KIND).items
    except ForbiddenError:
        return ServerLeases(_leader(client, path), None)
    replicas = [each for each in leases if name_of(each).startswith(LEASE_PREFIX)]
    return ServerLeases(_named(leases, LEADER), replicas)


def _leader(client: ApiClient, path: str) -> Object | None:
    try:
        return client.send(ApiRequest(method="GET", path=f"{path}/{LEADER}", query={}), kind=_KIND)
    except (ForbiddenError, NotFoundError):
        return None


def _named(leases: Iterable[Object], name: str) -> Object | None:
    return next((each for each in leases if name_of(each) == name), None)


class OutageReader:
    """Reads it once, in a thread of its own; `outage` waits for it."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._outage: Outage | None = None
        self._thread = threading.Thread(target=self._read, name="outage", daemon=True)
        self._thread.start()

    @property
    def outage(self) -> Outage | None:
        self._thread.join()
        return self._outage

    def _read(self) -> None:
        self._outage = read_outage(self._client)
