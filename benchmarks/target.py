"""An extender that is asked over the wire: where it is, whom it is trusted by, and what it is shown."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from localcluster.cluster import LocalCluster
from localcluster.ports import LOOPBACK


class Target(NamedTuple):
    """`ca`: the authority of its certificate. `client`: what the caller shows, a certificate and its key."""

    url: str
    ca: Path
    client: tuple[Path, Path] | None = None


def our_extender(cluster: LocalCluster, *, port: int | None = None) -> Target:
    """Ours; `port`: of another replica than that of the webhooks."""
    url = f"https://{LOOPBACK}:{port or cluster.ports.server}/extender"
    return Target(url, cluster.layout.server_ca, cluster.layout.caller_certificate("caller"))
