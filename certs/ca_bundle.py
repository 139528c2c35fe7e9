"""Writes the bundle of our authorities into the `caBundle` of our webhooks, for kube-apiserver.

`read` first, then whatever the bundle is made of, then `write`: it is refused if somebody has written a
configuration since. `certs.rotation` says why.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import msgspec

from certs.authority import split
from cluster.api.client import JSON_PATCH, Client
from cluster.exceptions import Conflict, Refused

ADMISSION = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
#: The name of both configurations; our role allows writing them by this name.
NAME = "sluice"
ATTEMPTS = 5


@dataclass(frozen=True)
class WebhookBundles:
    """Both configurations, by kind, as they were read."""

    configurations: dict[str, dict[str, Any]]

    @property
    def texts(self) -> list[str]:
        """The `caBundle` of each webhook, in base64; empty where it has none."""
        return [
            webhook["clientConfig"].get("caBundle") or ""
            for configuration in self.configurations.values()
            for webhook in configuration.get("webhooks") or ()
        ]

    def trusted(self) -> tuple[bytes, ...]:
        """The certificates in any of them, each once; what cannot be read counts as nothing."""
        found: dict[bytes, None] = {}
        for text in dict.fromkeys(self.texts):
            try:
                found.update(dict.fromkeys(split(base64.b64decode(text))))
            except (ValueError, binascii.Error):
                continue
        return tuple(found)

    def have(self, bundle: bytes) -> bool:
        """Whether every webhook has just this bundle."""
        return set(self.texts) == {base64.b64encode(bundle).decode()}


def read(client: Client) -> WebhookBundles:
    """Raises `cluster.exceptions.ClusterError`, `NotFound` where one is not there."""
    return WebhookBundles(
        {kind: msgspec.json.decode(client.get(f"{ADMISSION}/{kind}/{NAME}")) for kind in KINDS}
    )


def write(client: Client, webhooks: WebhookBundles, bundle: bytes) -> int:
    """Write the bundle into each webhook that does not have it; returns how many were changed.

    Raises `cluster.exceptions.ClusterError`; `is_outdated` says whether one was changed since it was read.
    """
    text = base64.b64encode(bundle).decode()
    return sum(_patch(client, kind, each, text) for kind, each in webhooks.configurations.items())


def is_outdated(error: Refused) -> bool:
    """Whether a write was refused since the object had changed (422: a JSON patch whose test failed)."""
    return isinstance(error, Conflict) or error.status == 422


def register(client: Client, *, certificate: bytes) -> int:
    """Read and write, where the bundle depends on nothing else; returns how many webhooks were changed.

    Raises `cluster.exceptions.ClusterError`.
    """
    for attempt in range(ATTEMPTS):
        try:
            return write(client, read(client), certificate)
        except Refused as exc:
            if attempt == ATTEMPTS - 1 or not is_outdated(exc):
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
