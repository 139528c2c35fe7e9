"""The authority's certificate in the webhooks of a real API server."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest

from certs.ca_bundle import (
    ADMISSION,
    KINDS,
    NAME,
    register,
)
from cluster.api.client import Client
from cluster.api.configuration import load_configuration
from cluster.exceptions import NotFound
from localcluster.cluster import LocalCluster


@pytest.fixture
def client(cluster: LocalCluster) -> Client:
    return Client(load_configuration(str(cluster.client_kubeconfig)))


@pytest.fixture
def own(cluster: LocalCluster, client: Client) -> Iterator[bytes]:
    """The certificate that the webhooks had, and have again after the test."""
    certificate = cluster.layout.server_ca.read_bytes()
    yield certificate
    register(client, certificate=certificate)


def bundles(cluster: LocalCluster) -> list[bytes]:
    with cluster.api() as api:
        found = [api.request("GET", f"{ADMISSION}/{kind}/{NAME}").json() for kind in KINDS]
    return [
        base64.b64decode(webhook["clientConfig"].get("caBundle", ""))
        for configuration_ in found
        for webhook in configuration_["webhooks"]
    ]


def test_the_server_has_written_its_own_into_each(cluster: LocalCluster, own: bytes) -> None:
    assert set(bundles(cluster)) == {own}


def test_what_is_there_is_not_written_again(cluster: LocalCluster, client: Client, own: bytes) -> None:
    with cluster.api() as api:
        path = f"{ADMISSION}/{KINDS[0]}/{NAME}"
        before = api.request("GET", path).json()["metadata"]["resourceVersion"]
        assert register(client, certificate=own) == 0
        assert api.request("GET", path).json()["metadata"]["resourceVersion"] == before


def test_another_is_written_into_each_and_counted(cluster: LocalCluster, client: Client, own: bytes) -> None:
    other = own + b"\n"
    number = len(bundles(cluster))
    assert register(client, certificate=other) == number
    assert bundles(cluster) == [other] * number


def test_one_that_lost_it_gets_it_back_alone(cluster: LocalCluster, client: Client, own: bytes) -> None:
    """Applied anew by somebody, for instance."""
    path = f"{ADMISSION}/{KINDS[1]}/{NAME}"
    remove = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    client.patch(path, remove, content_type="application/json-patch+json")
    assert register(client, certificate=own) == 1
    assert set(bundles(cluster)) == {own}


def test_a_change_by_somebody_else_in_between_is_not_overwritten_but_met_again(
    cluster: LocalCluster, client: Client, own: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their write comes after our reading and before our writing, once."""
    path = f"{ADMISSION}/{KINDS[0]}/{NAME}"
    read = client.get
    interfered: list[bool] = []

    def get(where: str, **query: str | int) -> bytes:
        answer = read(where, **query)
        if where == path and not interfered:
            interfered.append(True)
            client.patch(where, {"metadata": {"annotations": {"tests": "interfered"}}})
        return answer

    monkeypatch.setattr(client, "get", get)
    try:
        assert register(client, certificate=own + b"\n") == len(bundles(cluster))
        with cluster.api() as api:
            assert api.request("GET", path).json()["metadata"]["annotations"]["tests"] == "interfered"
    finally:
        client.patch(path, {"metadata": {"annotations": {"tests": None}}})


def test_a_configuration_that_is_not_there_is_said(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certs.ca_bundle.NAME", "not-there")
    with pytest.raises(NotFound):
        register(client, certificate=b"x")
