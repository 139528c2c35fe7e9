"""Keeps the authority in a Secret, so that it outlives pods and all replicas share it.

Invariants
- There is one authority: the first replica creates it. If several try at the same time, the API server
  accepts one `create`, and the others use that one.
- An existing Secret is never overwritten. If it cannot be read, the server ends with an error.
"""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from pathlib import Path

import msgspec

from certs.authority import Authority, AuthorityUnreadable, Pair, create, load
from cluster.api.client import Client, decode_response
from cluster.exceptions import Conflict, NotFound

STEM = "ca"


class _Secret(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


_secret = msgspec.json.Decoder(_Secret)


def load_or_create(client: Client, *, namespace: str, name: str, folder: Path, now: datetime) -> Authority:
    """The authority of the Secret, which is created if it does not exist; written into `folder` as well.

    Raises `AuthorityUnreadable` and `cluster.exceptions.ClusterError`.
    """
    path = f"/api/v1/namespaces/{namespace}/secrets"
    try:
        pair = _pair(client.get(f"{path}/{name}"), name)
    except NotFound:
        pair = _create(client, path, namespace=namespace, name=name, now=now)
    pair.save(folder, stem=STEM)
    return load(folder, stem=STEM)


def _create(client: Client, path: str, *, namespace: str, name: str, now: datetime) -> Pair:
    authority = create(name="sluice", now=now)
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "sluice"}},
        "type": "kubernetes.io/tls",
        "data": {
            "tls.crt": base64.b64encode(authority.certificate).decode(),
            "tls.key": base64.b64encode(authority.key).decode(),
        },
    }
    try:
        client.create(path, body)
    except Conflict:
        return _pair(client.get(f"{path}/{name}"), name)
    return authority


def _pair(answer: bytes, name: str) -> Pair:
    secret = decode_response(answer, _secret)
    try:
        data = secret.data or {}
        return Pair(
            base64.b64decode(data["tls.crt"], validate=True), base64.b64decode(data["tls.key"], validate=True)
        )
    except (KeyError, binascii.Error) as exc:
        raise AuthorityUnreadable(
            f"Secret {name} holds no authority ({exc!r}); delete it for a new one"
        ) from exc
