"""The ReplicaSets of a Deployment: events of pods that could not be created are on them."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.objects.fields import Object, controller_of, spec_of, status_of, value_at


def read_replica_sets(client: ApiClient, deployment: Object) -> Sequence[Object]:
    """Those that the Deployment controls. Raises ForbiddenError."""
    namespace = quote(str(value_at(deployment, "metadata.namespace") or "default"), safe="")
    path = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    uid = value_at(deployment, "metadata.uid")
    items = client.list(path, query={}, kind="replicasets.apps").items
    return [each for each in items if (controller_of(each) or {}).get("uid") == uid]


def lacks_pods(replica_set: Object) -> bool:
    return int(status_of(replica_set).get("replicas") or 0) < int(spec_of(replica_set).get("replicas") or 0)
