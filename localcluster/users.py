"""Kubeconfigs: for the components, the administrator, and whoever a test wants to be.

All are known by a client certificate but the server, which is known by its service account's token, as in a
pod: what the manifests grant is what really holds, and the API server, which checks a certificate's signature
with every request, remembers a token for some seconds.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml

from certs import authority
from certs.authority import Pair
from localcluster import addresses, apiserver
from localcluster.addresses import Ports
from localcluster.certificates import IDENTITIES
from localcluster.components import NAMESPACE
from localcluster.exceptions import SetUpFailed
from localcluster.layout import Layout

#: Its name in the manifests.
SERVICE_ACCOUNT = "sluice"
TOKEN_SECONDS = 365 * 24 * 3600


def kubeconfig(layout: Layout, *, name: str, groups: Sequence[str] = ()) -> Path:
    """The kubeconfig of a user who has no right but those granted to `name` or `groups`."""
    ca = authority.load(layout.pki)
    path = layout.kubeconfigs / f"user-{_slug(name, groups)}.kubeconfig"
    pair = ca.client(name=name, organisations=groups, now=datetime.now(UTC))
    authority.write(path, _render(layout, user=name, credentials=_certified(pair)), mode=0o600)
    return path


def ensure_server(layout: Layout, ports: Ports) -> None:
    """Write the server's kubeconfig; its service account has to be there. Raises `SetUpFailed`."""
    credentials = {"token": token(layout, ports, NAMESPACE, SERVICE_ACCOUNT)}
    path = layout.component_kubeconfig("server")
    authority.write(path, _render(layout, user=SERVICE_ACCOUNT, credentials=credentials), mode=0o600)


def token(layout: Layout, ports: Ports, namespace: str, name: str) -> str:
    """A token of that service account, which has to be there. Raises `SetUpFailed`."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    with apiserver.Https(port=ports.apiserver, context=apiserver.context(layout)) as client:
        reply = client.request("POST", path, {"spec": {"expirationSeconds": TOKEN_SECONDS}})
    if reply.status != 201:
        raise SetUpFailed(f"no token of {namespace}/{name}: {reply.body.decode(errors='replace')}")
    given: str = reply.json()["status"]["token"]
    return given


def ensure(layout: Layout) -> None:
    """Write the kubeconfigs of the administrator and of every component but the server."""
    layout.kubeconfigs.mkdir(parents=True, exist_ok=True)
    for stem, (user, _) in IDENTITIES.items():
        path = layout.kubeconfig if stem == "admin" else layout.component_kubeconfig(stem)
        pair = Pair(
            (layout.pki / f"{stem}.crt").read_bytes(),
            (layout.pki / f"{stem}.key").read_bytes(),
        )
        authority.write(path, _render(layout, user=user, credentials=_certified(pair)), mode=0o600)


def _certified(pair: Pair) -> dict[str, str]:
    return {
        "client-certificate-data": _base64(pair.certificate),
        "client-key-data": _base64(pair.key),
    }


def _render(layout: Layout, *, user: str, credentials: Mapping[str, str]) -> bytes:
    """One file with everything inside, so that it can be copied elsewhere."""
    ca = (layout.pki / "ca.crt").read_bytes()
    cluster = {
        "server": addresses.load(layout.ports).apiserver_url,
        "certificate-authority-data": _base64(ca),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": user, "user": dict(credentials)}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": user}}],
        "current-context": "local",
    }
    return yaml.safe_dump(config, sort_keys=False).encode()


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _slug(name: str, groups: Sequence[str]) -> str:
    readable = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    exact = hashlib.sha256("\0".join([name, *groups]).encode()).hexdigest()[:8]
    return f"{readable}-{exact}"
