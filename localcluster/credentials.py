"""The cluster's own authority, and what each component and user authenticates with.

Another authority is for those who call the server alone, as the documentation says for a real cluster.
Existing files are kept, so that a component that is started later still fits the others.

Everybody has a client certificate except the server, which has the token of its service account, as in a pod.
So what the manifests grant is what the server may do. The API server also verifies a certificate's signature
with every request, but caches a token for some seconds.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs import authority
from certs.authority import KeyPair
from localcluster import apiserver
from localcluster.components import CALLERS, NAMESPACE
from localcluster.exceptions import SetUpFailed
from localcluster.layout import Layout
from localcluster.ports import Ports, load_ports

SERVING_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
SERVING_ADDRESSES = ("127.0.0.1", "10.0.0.1")  # the second is the ClusterIP of `kubernetes`

#: User name and groups of each component's client certificate, by the name of its kubeconfig.
Identities = Mapping[str, tuple[str, Sequence[str]]]
IDENTITIES: Identities = {
    "admin": ("admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kwok": ("kwok", ("system:masters",)),
}
#: The server's service account; the manifests name it so.
SERVICE_ACCOUNT = "sluice"
TOKEN_SECONDS = 365 * 24 * 3600


def ensure_certificates(
    layout: Layout,
    *,
    now: datetime,
    identities: Identities = IDENTITIES,
    addresses: Sequence[str] = SERVING_ADDRESSES,
) -> None:
    """Create the certificates and keys that are missing in `layout.pki`."""
    ca = authority.load_or_create(layout.pki, name="sluice local control plane", now=now)
    if not (layout.pki / "serving.crt").exists():
        ca.serving(dns=SERVING_NAMES, ips=addresses, now=now).save(layout.pki, stem="serving")
    for stem, (name, groups) in identities.items():
        if not (layout.pki / f"{stem}.crt").exists():
            ca.client(name=name, organisations=groups, now=now).save(layout.pki, stem=stem)
    if not (layout.pki / "service-accounts.pub").exists():
        _create_service_account_keys(layout.pki)
    _ensure_callers(layout, now=now)


def _ensure_callers(layout: Layout, *, now: datetime) -> None:
    callers = authority.load_or_create(layout.callers, name="sluice callers", now=now)
    for stem, name in CALLERS.items():
        if not layout.caller_certificate(stem)[0].exists():
            callers.client(name=name, now=now).save(layout.callers, stem=stem)


def write_kubeconfigs(
    layout: Layout, *, identities: Identities = IDENTITIES, server: str | None = None
) -> None:
    """Write the kubeconfigs of the administrator and of every component except the server.

    `server`: the API server's URL (default: on the loopback).
    """
    layout.kubeconfigs.mkdir(parents=True, exist_ok=True)
    for stem, (user, _) in identities.items():
        path = layout.kubeconfig if stem == "admin" else layout.component_kubeconfig(stem)
        pair = KeyPair(
            (layout.pki / f"{stem}.crt").read_bytes(),
            (layout.pki / f"{stem}.key").read_bytes(),
        )
        _write_kubeconfig(path, layout, user=user, credentials=_certificate_credentials(pair), server=server)


def write_server_kubeconfig(layout: Layout, ports: Ports) -> None:
    """Write the server's kubeconfig; its service account must exist. Raises `SetUpFailed`."""
    token = service_account_token(layout, ports, NAMESPACE, SERVICE_ACCOUNT)
    path = layout.component_kubeconfig("server")
    _write_kubeconfig(path, layout, user=SERVICE_ACCOUNT, credentials={"token": token})


def user_kubeconfig(layout: Layout, *, name: str, groups: Sequence[str] = ()) -> Path:
    """Write the kubeconfig of a user with no rights except those granted to `name` or `groups`."""
    ca = authority.load(layout.pki)
    path = layout.kubeconfigs / f"user-{_file_name(name, groups)}.kubeconfig"
    pair = ca.client(name=name, organisations=groups, now=datetime.now(UTC))
    _write_kubeconfig(path, layout, user=name, credentials=_certificate_credentials(pair))
    return path


def service_account_token(layout: Layout, ports: Ports, namespace: str, name: str) -> str:
    """A token of that service account, which must exist. Raises `SetUpFailed`."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    with apiserver.Https(port=ports.apiserver, context=apiserver.context(layout)) as client:
        reply = client.request("POST", path, {"spec": {"expirationSeconds": TOKEN_SECONDS}})
    if reply.status != 201:
        raise SetUpFailed(f"no token of {namespace}/{name}: {reply.body.decode(errors='replace')}")
    token: str = reply.json()["status"]["token"]
    return token


def _create_service_account_keys(folder: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    authority.write(folder / "service-accounts.key", private, mode=0o600)
    authority.write(folder / "service-accounts.pub", public, mode=0o644)


def _certificate_credentials(pair: KeyPair) -> dict[str, str]:
    return {
        "client-certificate-data": _base64(pair.certificate),
        "client-key-data": _base64(pair.key),
    }


def _write_kubeconfig(
    path: Path, layout: Layout, *, user: str, credentials: Mapping[str, str], server: str | None = None
) -> None:
    """One file with everything inside, so that it can be copied elsewhere."""
    ca = (layout.pki / "ca.crt").read_bytes()
    cluster = {
        "server": server or load_ports(layout.ports).apiserver_url,
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
    authority.write(path, yaml.safe_dump(config, sort_keys=False).encode(), mode=0o600)


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _file_name(name: str, groups: Sequence[str]) -> str:
    readable = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    exact = hashlib.sha256("\0".join([name, *groups]).encode()).hexdigest()[:8]
    return f"{readable}-{exact}"
