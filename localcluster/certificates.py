"""The cluster's own authority, and the certificates its components start with.

Whatever is there already is kept, so that a component started later still fits the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs import authority
from localcluster.layout import Layout

NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
ADDRESSES = ("127.0.0.1", "10.0.0.1")  # the second is the ClusterIP of `kubernetes`

#: Who the components are: name and groups, by the name of their kubeconfig. (The server is a service account,
#: and has a token: see `users`.)
IDENTITIES: Mapping[str, tuple[str, Sequence[str]]] = {
    "admin": ("admin", ("system:masters",)),
    "kube-controller-manager": ("system:kube-controller-manager", ()),
    "kube-scheduler": ("system:kube-scheduler", ()),
    "kwok": ("kwok", ("system:masters",)),
}


def ensure(layout: Layout, *, now: datetime) -> None:
    """All certificates and keys are in `layout.pki` afterwards."""
    ca = authority.load_or_create(layout.pki, name="sluice local control plane", now=now)
    if not (layout.pki / "serving.crt").exists():
        ca.serving(dns=NAMES, ips=ADDRESSES, now=now).save(layout.pki, stem="serving")
    for stem, (name, groups) in IDENTITIES.items():
        if not (layout.pki / f"{stem}.crt").exists():
            ca.client(name=name, organisations=groups, now=now).save(layout.pki, stem=stem)
    if not (layout.pki / "service-accounts.pub").exists():
        _service_account_keys(layout.pki)


def _service_account_keys(folder: Path) -> None:
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
