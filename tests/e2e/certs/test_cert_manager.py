"""cert-manager issues the server's certificate and writes caBundle: its own controllers, with manifests/cert-
manager.

Only the kubelet is missing: the test writes the Secret's files as a volume has them, by changing one symbolic
link.
"""

from __future__ import annotations

import base64
import itertools
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from certs.authority import expires, fingerprint, write
from localcluster import apiserver, external_tools, manifests, processes
from localcluster.apiserver import kubectl, try_kubectl
from localcluster.cluster import LocalCluster
from server.settings import read
from tests.support.e2e.api_requests import Api, metric
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import pod_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.trust import Repeated, connect, sooner, trusted_by_webhooks
from tests.support.e2e.wait import until

NAMESPACE = "sluice-system"
CERTIFICATES = f"/apis/cert-manager.io/v1/namespaces/{NAMESPACE}/certificates"
SERVER = f"system:serviceaccount:{NAMESPACE}:sluice"
#: What the overlay leaves out of what `make up` has applied.
OWN_AUTHORITY = (
    "clusterrole/sluice-ca-bundles",
    "clusterrolebinding/sluice-ca-bundles",
    "role/sluice-authority",
    "rolebinding/sluice-authority",
    "role/sluice-ca-reader",
    "rolebinding/sluice-ca-reader",
)


class Volume:
    """A mounted Secret, as a kubelet keeps it."""

    def __init__(self, folder: Path) -> None:
        self._numbers = itertools.count()
        self.folder = folder
        folder.mkdir()
        for name in ("tls.crt", "tls.key", "ca.crt"):
            (folder / name).symlink_to(Path("..data", name))

    def mount(self, data: dict[str, bytes]) -> None:
        version = self.folder / f"..{next(self._numbers)}"
        version.mkdir()
        for name, content in data.items():
            (version / name).write_bytes(content)
        link = self.folder / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self.folder / "..data")


def rendered(cluster: LocalCluster) -> list[dict[str, Any]]:
    """What `kubectl apply -k manifests/cert-manager` applies."""
    text = kubectl(cluster.layout, "kustomize", str(manifests.MANIFESTS / "cert-manager"))
    return [each for each in yaml.safe_load_all(text) if each]


def overlay(cluster: LocalCluster) -> list[dict[str, Any]]:
    """The same, for one machine."""
    documents = rendered(cluster)
    [serving] = [each for each in documents if each["metadata"]["name"] == "sluice-serving"]
    serving["spec"]["dnsNames"].append("localhost")
    serving["spec"]["ipAddresses"] = ["127.0.0.1"]
    return manifests.localised(documents, server_url=cluster.ports.server_url, webhooks=True)


def secret(api: Api, name: str = "sluice-serving") -> dict[str, bytes]:
    """Its content; empty as long as it is not complete."""
    answer = api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/{name}")
    data = (answer.body.get("data") or {}) if answer.status == 200 else {}
    decoded = {key: base64.b64decode(value) for key, value in data.items()}
    return decoded if all(decoded.get(key) for key in ("tls.crt", "tls.key", "ca.crt")) else {}


@pytest.fixture
def served(module_cluster: LocalCluster, tmp_path: Path) -> Iterator[tuple[Fleet, Volume]]:
    """A replica whose certificate comes from cert-manager, which runs."""
    cluster, layout = module_cluster, module_cluster.layout
    binary, definitions = external_tools.certmanager(say=lambda _: None)
    cluster.kubectl("apply", "--server-side", *(f"--filename={path}" for path in definitions))
    cluster.kubectl(
        "wait", "--for=condition=Established", "crd/certificates.cert-manager.io", "--timeout=60s"
    )
    fleet = Fleet(cluster, tmp_path)
    cluster.kubectl("delete", f"--namespace={NAMESPACE}", *OWN_AUTHORITY)
    manifests.apply(layout, cluster.ports, overlay(cluster))
    processes.spawn(
        [str(binary), f"--kubeconfig={layout.kubeconfig}"],
        folder=layout.folder,
        component="cert-manager",
        log=layout.log("cert-manager"),
    )
    try:
        with Api(cluster) as api:
            data = until(lambda: secret(api), "cert-manager to issue the certificate")
        volume = Volume(tmp_path / "tls")
        volume.mount(data)
        write(layout.server_ca, data["ca.crt"], mode=0o644)
        flags = (f"--tls-dir={volume.folder}", f"--certs-dir={tmp_path / 'unused'}")
        fleet.join("server-1", prefix=sooner(tmp_path), flags=flags)
        yield fleet, volume
    finally:
        processes.stop(layout.folder, components=["cert-manager"])
        fleet.close()


def test_cert_manager_issues_renews_and_registers_and_the_server_has_no_right_to_any_of_it(
    own_sandbox: Sandbox, served: tuple[Fleet, Volume], tmp_path: Path
) -> None:
    cluster, api = own_sandbox.cluster, own_sandbox.api
    fleet, volume = served
    [port] = fleet.server_ports
    before = secret(api)
    authority = fingerprint(before["ca.crt"])
    # Beside what was there: cainjector merges (its feature CAInjectorMerging).
    until(lambda: all(authority in each for each in trusted_by_webhooks(api)), "cainjector to write caBundle")
    cluster.restart_components("kube-scheduler")
    queue = own_sandbox.queue()
    numbers = itertools.count()

    def create(connection: Api) -> None:
        body = pod_body(f"member-{next(numbers)}", queue)
        connection.create(f"{own_sandbox.pods_path}?dryRun=All", body).must(201)

    with Api(cluster) as connection, Repeated(lambda: create(connection), name="creations") as creations:
        own_sandbox.pod("scheduled", queue).must(201)
        own_sandbox.all_bound(["scheduled"])
        _renew(cluster)
        after = until(
            lambda: (found := secret(api)) and found["tls.crt"] != before["tls.crt"] and found,
            "cert-manager to issue another one",
        )
        volume.mount(after)
        until(lambda: _served(port, volume) == fingerprint(after["tls.crt"]), "the server to serve it")
        calls = creations.calls + 50
        until(lambda: creations.calls >= calls, "50 more creations")
    assert creations.failures == []
    assert fingerprint(after["ca.crt"]) == authority, "the authority stays"
    _assert_expiry(cluster, port, after["tls.crt"])
    for right in (
        "get secrets/sluice-serving",
        "get secrets/sluice-ca",
        "create secrets",
        "create configmaps",
    ):
        assert _may(cluster, right) == "no", right
    assert _may(cluster, "patch mutatingwebhookconfigurations/sluice") == "no"
    assert api.get(f"/api/v1/namespaces/{NAMESPACE}/secrets/sluice-ca").status == 404
    assert not (tmp_path / "unused").exists()
    log = cluster.layout.log("server-1").read_text()
    assert "certificates:" not in log
    _assert_deployment(cluster)
    assert "forbidden" not in log.lower()


def _assert_deployment(cluster: LocalCluster) -> None:
    """The server in the pod is given the files, and keeps no authority."""
    [deployment] = [each for each in rendered(cluster) if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    settings = read(pod["containers"][0]["args"][1:], env={})
    assert (settings.tls_dir, settings.ca_secret) == ("/tls", "")
    assert {"name": "tls", "mountPath": "/tls", "readOnly": True} in pod["containers"][0]["volumeMounts"]
    secrets = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
    assert secrets == ["sluice-serving"]


def _renew(cluster: LocalCluster) -> None:
    """As `cmctl renew` does."""
    condition = {
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": "a test",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    with Api(cluster) as api:
        path = f"{CERTIFICATES}/sluice-serving"
        conditions = api.get(path).must().body["status"]["conditions"]
        others = [each for each in conditions if each["type"] != "Issuing"]
        api.patch(f"{path}/status", {"status": {"conditions": [*others, condition]}}).must()


def _served(port: int, volume: Volume) -> str:
    """The fingerprint of the certificate that a new connection is answered with."""
    with connect(port, volume.folder / "ca.crt") as connection:
        encoded = connection.getpeercert(binary_form=True)
    assert encoded is not None
    return fingerprint(ssl.DER_cert_to_PEM_cert(encoded).encode())


def _assert_expiry(cluster: LocalCluster, port: int, certificate: bytes) -> None:
    context = apiserver.caller_context(cluster.layout)
    pattern = r'sluice_certificate_expiry_timestamp_seconds{certificate="serving"}'
    wanted = expires(certificate).timestamp()
    until(lambda: metric(port, context, pattern) == wanted, "the metric to say when it expires")


def _may(cluster: LocalCluster, right: str) -> str:
    verb, resource = right.split(" ")
    done = try_kubectl(
        cluster.layout, "auth", "can-i", verb, resource, f"--as={SERVER}", f"--namespace={NAMESPACE}"
    )
    return done.stdout.strip()
