"""The authority's certificate in the webhooks of a real API server.

The server looks at its own webhooks every half a minute, and writes its own certificate back. What a test
changes are therefore others of the same shape, which no server looks at and which match no request.
"""

from __future__ import annotations

import base64
import secrets
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
def own(cluster: LocalCluster) -> bytes:
    """The certificate that the server's webhooks have."""
    return cluster.layout.server_ca.read_bytes()


@pytest.fixture
def copies(cluster: LocalCluster, own: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of copies of both configurations, with that certificate; `register` writes these."""
    name = f"tests-{secrets.token_hex(4)}"
    bundle = base64.b64encode(own).decode()
    monkeypatch.setattr("certs.ca_bundle.NAME", name)
    with cluster.api() as api:
        for kind in KINDS:
            configuration = api.request("GET", f"{ADMISSION}/{kind}/{NAME}").json()
            configuration["metadata"] = {"name": name}
            for webhook in configuration["webhooks"]:
                webhook["rules"] = []
                webhook["clientConfig"]["caBundle"] = bundle
            reply = api.request("POST", f"{ADMISSION}/{kind}", configuration)
            assert reply.status == 201, reply.body
        yield name
        for kind in KINDS:
            api.request("DELETE", f"{ADMISSION}/{kind}/{name}")


def bundles(cluster: LocalCluster, name: str) -> list[bytes]:
    with cluster.api() as api:
        found = [api.request("GET", f"{ADMISSION}/{kind}/{name}").json() for kind in KINDS]
    return [
        base64.b64decode(webhook["clientConfig"].get("caBundle", ""))
        for configuration_ in found
        for webhook in configuration_["webhooks"]
    ]


def test_the_server_has_written_its_own_into_each(cluster: LocalCluster, own: bytes) -> None:
    assert set(bundles(cluster, NAME)) == {own}


def test_what_is_there_is_not_written_again(
    cluster: LocalCluster, client: Client, own: bytes, copies: str
) -> None:
    with cluster.api() as api:
        path = f"{ADMISSION}/{KINDS[0]}/{copies}"
        before = api.request("GET", path).json()["metadata"]["resourceVersion"]
        assert register(client, certificate=own) == 0
        assert api.request("GET", path).json()["metadata"]["resourceVersion"] == before


def test_another_is_written_into_each_and_counted(
    cluster: LocalCluster, client: Client, own: bytes, copies: str
) -> None:
    other = own + b"\n"
    number = len(bundles(cluster, copies))
    assert register(client, certificate=other) == number
    assert bundles(cluster, copies) == [other] * number


def test_one_that_lost_it_gets_it_back_alone(
    cluster: LocalCluster, client: Client, own: bytes, copies: str
) -> None:
    """Applied anew by somebody, for instance."""
    path = f"{ADMISSION}/{KINDS[1]}/{copies}"
    remove = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
    client.patch(path, remove, content_type="application/json-patch+json")
    assert register(client, certificate=own) == 1
    assert set(bundles(cluster, copies)) == {own}


def test_a_change_by_somebody_else_in_between_is_not_overwritten_but_met_again(
    cluster: LocalCluster, client: Client, own: bytes, copies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their write comes after our reading and before our writing, once."""
    path = f"{ADMISSION}/{KINDS[0]}/{copies}"
    read = client.get
    interfered: list[bool] = []

    def get(where: str, **query: str | int) -> bytes:
        answer = read(where, **query)
        if where == path and not interfered:
            interfered.append(True)
            client.patch(where, {"metadata": {"annotations": {"tests": "interfered"}}})
        return answer

    monkeypatch.setattr(client, "get", get)
    assert register(client, certificate=own + b"\n") == len(bundles(cluster, copies))
    with cluster.api() as api:
        assert api.request("GET", path).json()["metadata"]["annotations"]["tests"] == "interfered"


def test_a_configuration_that_is_not_there_is_said(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("certs.ca_bundle.NAME", "not-there")
    with pytest.raises(NotFound):
        register(client, certificate=b"x")
