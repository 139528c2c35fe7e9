"""Who looks, at which cluster: the page says it at its top, so that nobody stops a queue of the wrong one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec

from kubectl_queue.access import kubectl
from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import value_at

_REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class ClusterContext(msgspec.Struct, frozen=True, kw_only=True):
    """By the kubeconfig and the flags. `acts_as`: the user of --as; "" without."""

    context: str
    cluster: str
    server: str
    acts_as: str


class Viewer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`user`: whom the API server takes the viewer for; "" where it does not say that."""

    user: str
    groups: tuple[str, ...]
    context: str
    cluster: str
    server: str
    acts_as: str


def read_place(*, access: tuple[str, ...], environ: Mapping[str, str], acts_as: str) -> ClusterContext:
    """Raises ConfigError in kubectl's words."""
    done = kubectl.run(("config", "view", "--minify", "-o", "json"), access=access, environ=environ, stdin="")
    try:
        config = json.loads(done.stdout)
    except ValueError:
        config = {}
    return place_of(config, acts_as=acts_as)


def place_of(config: Any, *, acts_as: str) -> ClusterContext:
    """`config`: as `kubectl config view --minify -o json` prints it; flags may be enough without one."""
    config = config if isinstance(config, dict) else {}
    [cluster] = (config.get("clusters") or [{}])[:1]
    return ClusterContext(
        context=str(config.get("current-context") or ""),
        cluster=str(cluster.get("name") or ""),
        server=str(value_at(cluster, "cluster.server") or ""),
        acts_as=acts_as,
    )


def read_viewer(client: ApiClient, place: ClusterContext) -> Viewer:
    """Asks the API server, whose word counts: it knows what became of a certificate or --as."""
    body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}).encode()
    request = ApiRequest(method="POST", path=_REVIEW, query={}, body=body)
    try:
        review = client.send(request, kind="selfsubjectreviews.authentication.k8s.io")
    except QueueError:
        review = {}
    user = value_at(review, "status.userInfo") or {}
    return Viewer(
        user=str(user.get("username") or ""),
        groups=tuple(map(str, user.get("groups") or ())),
        context=place.context,
        cluster=place.cluster,
        server=place.server,
        acts_as=place.acts_as,
    )
