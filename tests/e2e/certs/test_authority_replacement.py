"""The authority is replaced while members are created and scheduled: no call of the API server or of kube-
scheduler fails, on connections that were kept and on new ones. Three replicas share the Secret.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from certs.authority import expires, fingerprint, split, write
from localcluster import apiserver
from localcluster.cluster import LocalCluster
from tests.support.e2e.api_requests import Api, metric
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import pod_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.trust import (
    Repeated,
    call_patiently,
    connect,
    fetch_bundle,
    serves_by,
    sooner,
    trusted_by_webhooks,
)
from tests.support.e2e.wait import until

pytestmark = pytest.mark.long

SECRETS = "/api/v1/namespaces/sluice-system/secrets"
SECRET = f"{SECRETS}/sluice-ca"
NAMES = ("server-1", "server-2", "server-3")
#: Of so many creations one is stored and scheduled; the others are dry runs, which call the webhooks as well.
STORED = 8
#: Its callers are given other settings, and another authority.
KEEPS_CLUSTER = True


@pytest.fixture
def shared(module_cluster: LocalCluster, tmp_path: Path) -> Iterator[Fleet]:
    """Three replicas that keep their authority in a Secret; the scheduler trusts it already."""
    folder = module_cluster.layout.server_certs
    module_cluster.kubectl(
        *("create", "secret", "tls", "sluice-ca", "--namespace=sluice-system"),
        *(f"--cert={folder / 'ca.crt'}", f"--key={folder / 'ca.key'}"),
    )
    made = Fleet(module_cluster, tmp_path)
    try:
        for name in NAMES:
            flags = ("--ca-secret=sluice-ca", f"--certs-dir={tmp_path / name}")
            made.join(name, prefix=sooner(tmp_path), flags=flags)
        call_patiently(module_cluster)
        yield made
    finally:
        made.close()


def test_no_call_fails_while_the_authority_is_replaced(
    own_sandbox: Sandbox, shared: Fleet, tmp_path: Path
) -> None:
    cluster, api = own_sandbox.cluster, own_sandbox.api
    queue = own_sandbox.queue()
    numbers = itertools.count()
    stored: list[str] = []
    [old] = split(until(lambda: fetch_bundle(cluster), "the authority to be published"))
    failed_before = _failed_webhook_calls(cluster)

    def create(connection: Api) -> None:
        number = next(numbers)
        is_stored = number % STORED == 0
        path = own_sandbox.pods_path + ("" if is_stored else "?dryRun=All")
        connection.create(path, pod_body(f"member-{number}", queue)).must(201)
        if is_stored:
            stored.append(f"member-{number}")

    def connect_anew() -> None:
        """As a scheduler does that has no connection, with the copy that it has read at its start."""
        with connect(cluster.ports.server, trust):
            pass

    trust = _written(tmp_path / "copy-1.crt", old)
    with (
        Api(cluster) as connection,
        Repeated(lambda: create(connection), name="creations") as creations,
        Repeated(connect_anew, name="connections") as connections,
    ):
        _flows(creations)
        _ask(api, "start")
        until(lambda: all(len(each) == 2 for each in trusted_by_webhooks(api)), "both to be in each webhook")
        bundle = until(
            lambda: len(split(found := fetch_bundle(cluster))) == 2 and found, "both to be published"
        )
        following = split(bundle)[1]
        _await_expiry(shared, cluster, {"authority": old, "next_authority": following})
        assert not any(serves_by(port, following, tmp_path) for port in shared.server_ports)
        _copy_to_scheduler(cluster, bundle)
        trust = _written(tmp_path / "copy-2.crt", bundle)
        _flows(creations)

        _ask(api, "switch")
        until(
            lambda: all(serves_by(port, following, tmp_path) for port in shared.server_ports),
            "each replica to serve by the next authority",
        )
        expected = (fingerprint(following), fingerprint(old))
        until(lambda: set(trusted_by_webhooks(api)) == {expected}, "the former one to stay trusted")
        _flows(creations)

        _ask(api, "drop")
        until(lambda: set(trusted_by_webhooks(api)) == {expected[:1]}, "the former one to be dropped")
        assert split(until(lambda: len(split(b := fetch_bundle(cluster))) == 1 and b, "the bundle")) == (
            following,
        )
        _copy_to_scheduler(cluster, following)
        trust = _written(tmp_path / "copy-3.crt", following)
        _await_expiry(shared, cluster, {"authority": following})
        _flows(creations)
        until(lambda: connections.calls > 50, "51 new connections")
    assert creations.failures == []
    assert connections.failures == []
    own_sandbox.all_bound(stored)
    assert _calls(shared, cluster) >= len(stored)
    assert _errors_of_scheduler(cluster) == []
    assert _failed_webhook_calls(cluster) == failed_before
    assert set(api.get(SECRET).must().body["data"]) == {"tls.crt", "tls.key"}


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _ask(api: Api, step: str) -> None:
    """As docs/operating/replace-the-authority.md says."""
    api.patch(SECRET, {"metadata": {"annotations": {"sluice.dev/ca-rotation": step}}}).must()


def _flows(creations: Repeated) -> None:
    """Returns when some more have been created."""
    wanted = creations.calls + 100
    until(lambda: creations.calls >= wanted, "100 more creations")


def _copy_to_scheduler(cluster: LocalCluster, bundle: bytes) -> None:
    """kube-scheduler reads it when it starts."""
    write(cluster.layout.server_ca, bundle, mode=0o644)
    cluster.restart_components("kube-scheduler")


def _await_expiry(fleet: Fleet, cluster: LocalCluster, authorities: Mapping[str, bytes]) -> None:
    """Returns when the metrics of each replica say when these end, by their label."""
    context = apiserver.caller_context(cluster.layout)

    def read() -> list[float]:
        return [
            metric(port, context, rf'sluice_certificate_expiry_timestamp_seconds{{certificate="{label}"}}')
            for label in authorities
            for port in fleet.server_ports
        ]

    wanted = [expires(each).timestamp() for each in authorities.values() for _ in fleet.server_ports]
    until(lambda: read() == wanted, "the metrics to say when each authority ends")


def _calls(fleet: Fleet, cluster: LocalCluster) -> float:
    context = apiserver.caller_context(cluster.layout)
    pattern = r'sluice_requests_total{[^}]*code="200",path="/extender/filter"[^}]*}'
    return sum(metric(port, context, pattern) for port in fleet.server_ports)


def _errors_of_scheduler(cluster: LocalCluster) -> list[str]:
    log = cluster.layout.log("kube-scheduler").read_text()
    return [
        line
        for line in log.splitlines()
        if re.search("x509|tls:|extender.*(fail|error)", line, re.IGNORECASE)
    ]


def _failed_webhook_calls(cluster: LocalCluster) -> float:
    context = apiserver.context(cluster.layout)
    pattern = r'apiserver_admission_webhook_rejection_count{[^}]*error_type="calling_webhook_error"[^}]*}'
    return metric(cluster.ports.apiserver, context, pattern)
