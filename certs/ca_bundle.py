"""The authority's certificate put where kube-apiserver looks for it: `caBundle` of our webhooks."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from cluster.api.client import JSON_PATCH, Client
from cluster.exceptions import Conflict, Refused

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
#: Both configurations bear it; our right to them is by name.
NAME = "sluice"
TRIES = 5


def register(client: Client, *, certificate: bytes) -> int:
    """Write the bundle into each webhook that does not have it; how many were changed.

    Raises `cluster.exceptions.ClusterError`.
    """
    bundle = base64.b64encode(certificate).decode()
    return sum(_register(client, kind, bundle) for kind in KINDS)


def _register(client: Client, kind: str, bundle: str) -> int:
    for attempt in range(TRIES):
        try:
            configuration = msgspec.json.decode(client.get(f"{ADMISSION}/{kind}/{NAME}"))
            return _patch(client, kind, configuration, bundle)
        except Refused as exc:
            # A JSON patch whose test fails, because somebody wrote in between, is answered 422.
            if attempt == TRIES - 1 or not (isinstance(exc, Conflict) or exc.status == 422):
                raise
    return 0


def _patch(client: Client, kind: str, configuration: dict[str, Any], bundle: str) -> int:
    changes = [
        {"op": "add", "path": f"/webhooks/{number}/clientConfig/caBundle", "value": bundle}
        for number, webhook in enumerate(configuration.get("webhooks") or ())
        if webhook["clientConfig"].get("caBundle") != bundle
    ]
    if changes:
        meta = configuration["metadata"]
        test = {"op": "test", "path": "/metadata/resourceVersion", "value": meta["resourceVersion"]}
        client.patch(f"{ADMISSION}/{kind}/{meta['name']}", [test, *changes], content_type=JSON_PATCH)
    return len(changes)
