"""What the server's replicas say of themselves, on the Leases that each renews while it runs.

Only Leases in the server's own namespace count: whoever may write a Lease in another one can label it as a
replica's. Which namespace it is, objects of the whole cluster say (`server_namespaces`), which only its
administrators can write.

A replica of an older version says less: what it does not say is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.responses import Request
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
#: Of a Lease with more seconds than there are.
NEVER = datetime.max.replace(tzinfo=UTC)


class Replica(msgspec.Struct, frozen=True):
    """One replica. `version`: of the server. `scheduler`: its setting `scheduler_name`. "": not known.

    `seen`: the resource version up to which it knows the queues; 0: not known. `certificate_until`: when the
    certificate that it serves expires (RFC 3339).
    """

    version: str = ""
    scheduler: str = ""
    seen: int = 0
    certificate_until: str = ""


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


def server_namespace(client: ApiClient) -> str:
    """The server's namespace as the webhooks name it, where they may be read; else that of the manifests."""
    try:
        namespaces = server_namespaces(client)
    except ServerError:
        namespaces = frozenset()
    return min(namespaces, default=NAMESPACE)


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
        binding = client.send(Request(method="GET", path=path, query={}), kind=kind)
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
    spec = lease.get("spec") or {}
    renewed = datetime.fromisoformat(str(spec.get("renewTime") or "1970-01-01T00:00:00Z"))
    try:
        return renewed + timedelta(seconds=int(spec.get("leaseDurationSeconds") or 0))
    except OverflowError:
        return NEVER


def reported(lease: Object) -> Replica:
    text = (lease["metadata"].get("annotations") or {}).get(REPORT) or "{}"
    try:
        return _replica.decode(text)
    except msgspec.DecodeError:  # what does not fit, too
        return Replica()
