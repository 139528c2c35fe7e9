"""A namespace of a real API server behind a proxy that does what it is told wrong."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from http import HTTPStatus

import pytest
from kubernetes.client import Configuration

from cluster.api.client import Client
from cluster.cache.marker_pods import idle_pod
from localcluster import apiserver
from localcluster.cluster import LocalCluster
from queues.well_known import QUEUE
from tests.support.cluster.notes import eventually
from tests.support.faults.faulty_proxy import FaultyProxy

_numbers = itertools.count()
_PROBE = idle_pod("probe")
_PROBE["metadata"]["labels"][QUEUE] = ""


@pytest.fixture
def proxy(cluster: LocalCluster) -> Iterator[FaultyProxy]:
    proxy = FaultyProxy(cluster.ports.apiserver, apiserver.context(cluster.layout))
    yield proxy
    proxy.close()


@pytest.fixture
def client(proxy: FaultyProxy) -> Client:
    return client_of(proxy)


def client_of(proxy: FaultyProxy) -> Client:
    settings = Configuration()
    settings.host = proxy.url
    return Client(settings)


@pytest.fixture
def namespace(cluster: LocalCluster) -> Iterator[str]:
    """One of the test's own. It stays, empty of pods: to take it away would be a hundred requests."""
    name = f"reflected-{next(_numbers)}"
    with cluster.api() as api:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert api.request("POST", "/api/v1/namespaces", body).status == 201
        pods = f"/api/v1/namespaces/{name}/pods"
        # Until the server of other tests knows the namespace, its webhook refuses pods with our label.
        eventually(
            lambda: api.request("POST", f"{pods}?dryRun=All", _PROBE).status != HTTPStatus.SERVICE_UNAVAILABLE
        )
        yield name
        api.request("DELETE", f"{pods}?gracePeriodSeconds=0")
        api.request("PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"annotations": None}})
