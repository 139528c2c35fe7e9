"""The way of one of our own processes to the API server, where a test keeps and spoils requests."""

from __future__ import annotations

import ssl

from localcluster.cluster import LocalCluster
from tests.cluster_package.faulty_proxy import Asked, FaultyProxy, Kept, When

__all__ = ["Asked", "Interceptor", "Kept", "When"]


class Interceptor(FaultyProxy):
    """As that component's user. Takes the place of a `Forwarder` in a `Fleet`."""

    def __init__(self, cluster: LocalCluster, *, component: str = "server") -> None:
        pki = cluster.layout.pki
        context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
        context.load_cert_chain(pki / f"{component}.crt", pki / f"{component}.key")
        super().__init__(cluster.ports.apiserver, context)
