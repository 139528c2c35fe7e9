"""The way of one of our own processes to the API server, where a test keeps and spoils requests."""

from __future__ import annotations

import ssl

from localcluster.cluster import LocalCluster
from tests.support.faults.faulty_proxy import (
    Asked,
    FaultyProxy,
    Kept,
    When,
)

__all__ = ["Asked", "Interceptor", "Kept", "When"]


class Interceptor(FaultyProxy):
    """For whoever is known by a token, which it hands on. Takes the place of a `Forwarder` in a `Fleet`."""

    def __init__(self, cluster: LocalCluster) -> None:
        context = ssl.create_default_context(cafile=str(cluster.layout.pki / "ca.crt"))
        super().__init__(cluster.ports.apiserver, context)
