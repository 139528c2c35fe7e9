"""The Secret and the ConfigMap of the authority in a real API server: what is refused there, and what is left
alone.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs import authority
from certs.authority import Authority, AuthorityForeign, AuthorityUnreadable, CertificateError
from certs.renewal import CertificateRenewal, CertificateSettings
from certs.rotation import AuthorityState
from certs.secret_store import AuthoritySecret
from cluster.api.client import Client
from cluster.api.configuration import load_configuration
from cluster.exceptions import Conflict
from cluster.metrics import Metrics
from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Api
from tests.support.e2e.trust import trusted_by_webhooks

NAMESPACE = "sluice-system"
NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def client(cluster: LocalCluster) -> Client:
    return Client(load_configuration(str(cluster.client_kubeconfig)))


@pytest.fixture
def secret(cluster: LocalCluster, client: Client) -> Iterator[AuthoritySecret]:
    """One of the test's own, which no server reads."""
    name = f"authority-{secrets.token_hex(4)}"
    yield AuthoritySecret(client, namespace=NAMESPACE, name=name)
    for kind in ("secret", "configmap"):
        cluster.kubectl("delete", kind, name, f"--namespace={NAMESPACE}", "--ignore-not-found")


def new() -> Authority:
    return authority.create(name="test", now=NOW)


def test_a_state_is_read_as_it_was_written(secret: AuthoritySecret) -> None:
    first = AuthorityState(new(), next=new(), former=(new().certificate,), published=NOW, switched=NOW)
    stored = secret.create(first)
    assert stored.state == first
    second = AuthorityState(new(), request="drop")
    assert secret.write(stored, second).state == second
    read = secret.read()
    assert read is not None
    assert read.state == second


def test_of_two_that_create_it_one_is_used_by_both(secret: AuthoritySecret) -> None:
    first = secret.create(AuthorityState(new()))
    assert secret.create(AuthorityState(new())) == first


def test_of_two_that_take_a_step_one_is_refused(secret: AuthoritySecret) -> None:
    stored = secret.create(AuthorityState(new()))
    secret.write(stored, replace(stored.state, request="start"))
    with pytest.raises(Conflict):
        secret.write(stored, replace(stored.state, next=new()))


def test_of_two_that_publish_a_bundle_one_is_refused(secret: AuthoritySecret) -> None:
    missing = secret.read_published()
    secret.publish(missing, b"first\n", status="a")
    with pytest.raises(Conflict):
        secret.publish(missing, b"second\n", status="b")
    seen = secret.read_published()
    secret.publish(seen, b"third\n", status="c")
    with pytest.raises(Conflict):
        secret.publish(seen, b"fourth\n", status="d")
    assert secret.read_published().has(b"third\n")


@pytest.mark.parametrize(
    ("expected", "said", "fits"),
    [(AuthorityForeign, "adopt", True), (AuthorityUnreadable, "does not fit", False)],
    ids=["another authority", "another key"],
)
def test_a_server_does_not_start_by_a_secret_that_cannot_be_ours_and_writes_nothing(
    cluster: LocalCluster,
    client: Client,
    tmp_path: Path,
    expected: type[CertificateError],
    said: str,
    *,
    fits: bool,
) -> None:
    name, other = f"authority-{secrets.token_hex(4)}", new()
    folder = tmp_path / "certs"
    for suffix, content in (("crt", other.certificate), ("key", other.key if fits else new().key)):
        (tmp_path / f"tls.{suffix}").write_bytes(content)
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}"
    body = {key: (tmp_path / key).read_text() for key in ("tls.crt", "tls.key")}
    renewal = CertificateRenewal(
        CertificateSettings(folder=folder, hosts=["localhost"], namespace=NAMESPACE, secret=name),
        client=client,
        metrics=Metrics(),
    )
    with Api(cluster) as api:
        created = {"metadata": {"name": name}, "type": "kubernetes.io/tls", "stringData": body}
        api.create(f"/api/v1/namespaces/{NAMESPACE}/secrets", created).must(201)
        try:
            before = api.get(path).must().body, trusted_by_webhooks(api)
            with pytest.raises(expected, match=said) as refused:
                renewal.prepare()
            assert f"{NAMESPACE}/{name}" in str(refused.value)
            assert (api.get(path).must().body, trusted_by_webhooks(api)) == before
        finally:
            api.delete(path).must()
    assert list(folder.iterdir()) == []
