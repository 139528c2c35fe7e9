"""A namespace of a real API server behind a proxy that does what it is told wrong."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from kubernetes.client import Configuration

from cluster.api.client import Client
from localcluster import apiserver
from localcluster.cluster import LocalCluster
from tests.support.faults.faulty_proxy import FaultyProxy

_numbers = itertools.count()


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
        yield name
        api.request("DELETE", f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")
        api.request("PATCH", f"/api/v1/namespaces/{name}", {"metadata": {"annotations": None}})
