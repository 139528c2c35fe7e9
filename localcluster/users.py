"""Kubeconfigs: for the components, the administrator, and whoever a test wants to be."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import yaml

from certs import authority
from certs.authority import Pair
from localcluster import addresses
from localcluster.certificates import IDENTITIES
from localcluster.layout import Layout


def kubeconfig(layout: Layout, *, name: str, groups: Sequence[str] = ()) -> Path:
    """The kubeconfig of a user who has no right but those granted to `name` or `groups`."""
    ca = authority.load(layout.pki)
    path = layout.kubeconfigs / f"user-{_slug(name, groups)}.kubeconfig"
    pair = ca.client(name=name, organisations=groups, now=datetime.now(UTC))
    authority.write(path, _render(layout, user=name, pair=pair), mode=0o600)
    return path


def ensure(layout: Layout) -> None:
    """Write the kubeconfigs of the administrator and of every component."""
    layout.kubeconfigs.mkdir(parents=True, exist_ok=True)
    for stem, (user, _) in IDENTITIES.items():
        path = layout.kubeconfig if stem == "admin" else layout.component_kubeconfig(stem)
        pair = Pair(
            (layout.pki / f"{stem}.crt").read_bytes(),
            (layout.pki / f"{stem}.key").read_bytes(),
        )
        authority.write(path, _render(layout, user=user, pair=pair), mode=0o600)


def _render(layout: Layout, *, user: str, pair: Pair) -> bytes:
    """One file with everything inside, so that it can be copied elsewhere."""
    ca = (layout.pki / "ca.crt").read_bytes()
    cluster = {
        "server": addresses.load(layout.ports).apiserver_url,
        "certificate-authority-data": _base64(ca),
    }
    credentials = {
        "client-certificate-data": _base64(pair.certificate),
        "client-key-data": _base64(pair.key),
    }
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": user, "user": credentials}],
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
