"""Writes the authority's certificate into the `caBundle` of our webhooks, for kube-apiserver."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from cluster.api.client import JSON_PATCH, Client
from cluster.exceptions import Conflict, Refused

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
#: The name of both configurations; our role allows writing them by this name.
NAME = "sluice"
ATTEMPTS = 5


def register(client: Client, *, certificate: bytes) -> int:
    """Write the bundle into each webhook that does not have it; returns how many were changed.

    Raises `cluster.exceptions.ClusterError`.
    """
    bundle = base64.b64encode(certificate).decode()
    return sum(_register(client, kind, bundle) for kind in KINDS)


def _register(client: Client, kind: str, bundle: str) -> int:
    for attempt in range(ATTEMPTS):
        try:
            configuration = msgspec.json.decode(client.get(f"{ADMISSION}/{kind}/{NAME}"))
            return _patch(client, kind, configuration, bundle)
        except Refused as exc:
            # 422: the test of the JSON patch failed, because another client wrote in between.
            if attempt == ATTEMPTS - 1 or not (isinstance(exc, Conflict) or exc.status == 422):
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
