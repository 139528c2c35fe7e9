"""What the server's replicas say of themselves, on the Leases that each renews while it runs.

Only Leases in the server's own namespace count: whoever may write a Lease in another one can label it as a
replica's. Which namespace it is, objects of the whole cluster say (`server_namespaces`), which only its
administrators can write.

A replica of an older version says less: what it does not say is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta

import msgspec

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.errors import KindMissingError, NotFoundError, ServerError
from kubectl_queue.objects.fields import Object

#: The server's namespace in the manifests.
NAMESPACE = "sluice-system"
#: The name of the server's ServiceAccount, ClusterRole, ClusterRoleBinding and webhook configurations.
SERVER = "sluice"
#: The label of all objects of the manifests.
PART_OF = ("app.kubernetes.io/part-of", "sluice")
#: The Lease of the replica that leads.
LEADER = "sluice-controller"
#: The label of the replicas' Leases.
REPLICAS = "sluice.dev/replica=true"
#: The annotation with what a replica reports (`cluster.coordination.replica_report`).
REPORT = "sluice.dev/seen"
#: The name of a replica's Lease begins so, and ends with its identity.
LEASE_PREFIX = "sluice-replica-"
#: A Lease counts for no longer than this after its last renewal (`cluster.coordination.leases`).
LONGEST_SECONDS = 15
#: A renewal that is further ahead was not written by the clock of the API server.
AHEAD = timedelta(minutes=1)


class Replica(msgspec.Struct, frozen=True):
    """One replica. `version`, `build`: of the server. `scheduler`: its setting `scheduler_name`. "" where
    that is not known.

    `seen`: the resource version up to which it knows the queues; 0: not known. `certificate_until`: when the
    certificate that it serves expires (RFC 3339). `retrying`: what fails there and is tried again: its loop,
    since when (RFC 3339) and why. `registration`: what webhook configurations and admission policies lack, a
    sentence each. `policy_problems`, `policy_notes`: what is wrong with the scheduling policies, and what of
    them has no effect.
    """

    version: str = ""
    build: str = ""
    scheduler: str = ""
    seen: int = 0
    certificate_until: str = ""
    retrying: tuple[tuple[str, str, str], ...] = ()
    registration: tuple[str, ...] = ()
    policy_problems: tuple[str, ...] = ()
    policy_notes: tuple[str, ...] = ()


_replica = msgspec.json.Decoder(Replica)


def leases_path(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def read_replicas(client: ApiClient, *, namespace: str) -> list[tuple[Replica, datetime]]:
    """Each with the end of its Lease, which is past if it is gone. `namespace`: the server's own.

    Raises `QueueError`.
    """
    leases = client.list(leases_path(namespace), query={"labelSelector": REPLICAS}, kind="leases").items
    return [(reported(lease), lease_end(lease)) for lease in leases]


def server_namespaces(client: ApiClient) -> frozenset[str]:
    """The namespaces that Sluice's objects of the whole cluster name as the server's. Raises `QueueError`.

    Those of the Services that its webhooks call, and of the ServiceAccount that has the server's rights. None
    if both are gone, or if the server runs outside of the cluster as another user.
    """
    return frozenset((*_called(client), *_entitled(client)))


def registered_namespaces(client: ApiClient) -> frozenset[str] | None:
    """Where the API server finds the server: the namespaces of the Services that its webhooks call. Where
    they call none, or may not be read, that of the ServiceAccount that has the server's rights.

    None where neither may be read.
    """
    is_known = False
    for read in (_called, _entitled):
        with suppress(ServerError):
            if found := frozenset(read(client)):
                return found
            is_known = True
    return frozenset() if is_known else None


def server_namespace(client: ApiClient) -> str:
    """The server's namespace as its registration names it, as far as that may be read; else that of the
    manifests.
    """
    return min(registered_namespaces(client) or (), default=NAMESPACE)


def read_webhooks(client: ApiClient) -> Iterator[tuple[str, Object]]:
    """The entries of Sluice's webhook configurations, each with the kind of its configuration.

    Raises `QueueError`.
    """
    for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        resource = f"{kind}.admissionregistration.k8s.io"
        for item in client.list(
            f"/apis/admissionregistration.k8s.io/v1/{kind}", query={}, kind=resource
        ).items:
            if is_part(item) or item["metadata"]["name"] == SERVER:
                yield from ((kind, webhook) for webhook in item.get("webhooks") or ())


def _called(client: ApiClient) -> Iterator[str]:
    for _, webhook in read_webhooks(client):
        config = webhook.get("clientConfig") or {}
        if config.get("service"):
            yield config["service"]["namespace"]


def _entitled(client: ApiClient) -> Iterator[str]:
    path = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{SERVER}"
    kind = "clusterrolebindings.rbac.authorization.k8s.io"
    try:
        binding = client.send(ApiRequest(method="GET", path=path, query={}), kind=kind)
    except (NotFoundError, KindMissingError):
        return
    if (binding.get("roleRef") or {}).get("name") == SERVER:
        for subject in binding.get("subjects") or ():
            if (subject.get("kind"), subject.get("name")) == ("ServiceAccount", SERVER):
                yield subject["namespace"]


def is_part(item: Object) -> bool:
    """Whether the object is labelled as one of Sluice's."""
    key, value = PART_OF
    return (item["metadata"].get("labels") or {}).get(key) == value


def lease_end(lease: Object) -> datetime:
    """When it ends unless it is renewed."""
    seconds = int((lease.get("spec") or {}).get("leaseDurationSeconds") or 0)
    try:
        return renewed_at(lease) + timedelta(seconds=min(seconds, LONGEST_SECONDS))
    except OverflowError:  # renewed in the last seconds that there are
        return renewed_at(lease)


def renewed_at(lease: Object) -> datetime:
    """When it was renewed last, by what is written on it."""
    spec = lease.get("spec") or {}
    return datetime.fromisoformat(str(spec.get("renewTime") or "1970-01-01T00:00:00Z"))


def is_foreign(lease: Object, *, now: datetime) -> bool:
    """Whether no replica has written it as it is: each writes its name, a report, and when it did so."""
    holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
    is_named = lease["metadata"]["name"] == f"{LEASE_PREFIX}{holder}"
    return not is_named or _report_on(lease) is None or renewed_at(lease) > now + AHEAD


def reported(lease: Object) -> Replica:
    return _report_on(lease) or Replica()


def _report_on(lease: Object) -> Replica | None:
    """What a replica has written on it; None where that cannot be read."""
    try:
        return _replica.decode((lease["metadata"].get("annotations") or {}).get(REPORT) or "")
    except msgspec.DecodeError:  # what does not fit, too
        return None
