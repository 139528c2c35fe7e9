"""The scheduling policies of the cluster: one ConfigMap, which the plugin reads with the user's rights.

Promises
- The texts are read by the rules of the server (`queues.policies`). An earlier good text, which the server
  may still use where the present one is wrong, is not known here.
- A user who may not read the ConfigMap is told which right is missing.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.cli.flag_values import quoted
from kubectl_queue.cli.flags import Flag, Flags, checked_name
from kubectl_queue.errors import ForbiddenError, NotFoundError, QueueError
from queues.policies.policy_set import KEYS_LIMIT, NO_POLICIES, PolicySet
from queues.policies.policy_texts import policy_keys, read_policies, texts_of

#: The defaults of the server's settings `policies_namespace` and `policies_name`.
NAMESPACE, NAME = "volcano-system", "volcano-scheduler-configmap"
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
FLAGS = (
    Flag(
        name="policies-namespace",
        value="NAME",
        default=NAMESPACE,
        help=f"The namespace of the ConfigMap with the policies, the server's; {NAMESPACE} if not given.",
    ),
    Flag(
        name="policies-name",
        value="NAME",
        default=NAME,
        help=f"The name of that ConfigMap; {NAME} if not given.",
    ),
)


class ConfigMapName(NamedTuple):
    """Where the ConfigMap is."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"ConfigMap {self.namespace}/{self.name}"


class ClusterPolicies(NamedTuple):
    """The policies at a place. `exists`: whether there is a ConfigMap; `unread`: those beyond the limit."""

    place: ConfigMapName
    exists: bool
    policies: PolicySet
    unread: int = 0


def place_of(flags: Flags, *, command: str) -> ConfigMapName:
    """The place that the flags name. Raises UsageError."""
    return ConfigMapName(
        checked_name(flags.text("policies-namespace"), see=command),
        checked_name(flags.text("policies-name"), see=command),
    )


def read_cluster_policies(client: ApiClient, place: ConfigMapName) -> ClusterPolicies:
    """Raises QueueError where the ConfigMap may not be read."""
    path = f"/api/v1/namespaces/{quote(place.namespace, safe='')}/configmaps/{quote(place.name, safe='')}"
    try:
        item = client.send(ApiRequest(method="GET", path=path, query={}), kind="configmaps")
    except NotFoundError:
        return ClusterPolicies(place, exists=False, policies=NO_POLICIES)
    except ForbiddenError as exc:
        if " cannot get " not in str(exc):
            raise
        raise QueueError(_missing_right(place)) from exc
    texts = texts_of(item.get("data"), _decoded(item.get("binaryData") or {}))
    unread = max(0, len(policy_keys(texts)) - KEYS_LIMIT)
    return ClusterPolicies(place, exists=True, policies=read_policies(texts), unread=unread)


def _decoded(binary: Mapping[str, str]) -> Mapping[str, bytes]:
    """The values of `binaryData`, which the API server takes in base64 alone."""
    return {key: base64.b64decode(value) for key, value in binary.items()}


def _missing_right(place: ConfigMapName) -> str:
    way_out = (
        "an administrator gives it with: kubectl apply --server-side -k manifests/queue-readers"
        if place.name == NAME
        else f"ask an administrator for a Role with resourceNames [{place.name}]"
    )
    return (
        f'you may not read {place}, which has the policies: your user has no right to "get" configmaps of '
        f"that name in namespace {quoted(place.namespace)}; {way_out}"
    )


def checked_policy_name(name: str) -> str:
    """The name, if a key of a ConfigMap may have it. Raises QueueError."""
    if not _KEY.fullmatch(name):
        raise QueueError(
            f"invalid policy name {quoted(name)}: a policy is a key of a ConfigMap, of letters, digits, '-', "
            "'_' and '.', at most 253 of them"
        )
    return name
