"""cert-manager issues the server's certificate, renews it and writes caBundle: its own controllers and its
cainjector, with manifests/cert-manager. Members are created all the while, and no creation fails.

`make test-cert-manager` runs it. Only the kubelet is missing: the test writes the Secret's files as a volume
has them, by changing one symbolic link.
"""

from __future__ import annotations

import base64
import itertools
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from certs.authority import expires, fingerprint, write
from certs.ca_bundle import ADMISSION, KINDS, NAME
from localcluster import apiserver, external_tools, manifests, processes
from localcluster.apiserver import kubectl, try_kubectl
from localcluster.cluster import LocalCluster
from release.chart.chart import ROOT, write_chart
from server.settings import read
from tests.support import yaml_texts
from tests.support.e2e.api_requests import Api, metric
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import pod_body
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.trust import Repeated, connect, sooner, trusted_by_webhooks
from tests.support.e2e.wait import until
from tests.support.helm import Helm, built_helm, built_kubectl, flags
from tests.support.skipping import built_or_skipped

pytestmark = pytest.mark.cert_manager

NAMESPACE = "sluice-system"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
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
#: Of so many creations one is stored and scheduled; the others are dry runs, which call the webhooks as well.
STORED = 8
#: With definitions and webhooks of cert-manager, which stay.
KEEPS_CLUSTER = True


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


@dataclass(frozen=True)
class Load:
    """All the while members are created, and connections made with the scheduler's copy of the authority."""

    creations: Repeated
    connections: Repeated
    #: The members that were not dry runs.
    stored: list[str]

    def flows(self) -> None:
        """Returns when some more were created."""
        wanted = self.creations.calls + 50
        until(lambda: self.creations.calls >= wanted, "50 more creations")

    def assert_nothing_failed(self) -> None:
        assert self.creations.failures == []
        assert self.connections.failures == []
        assert self.connections.calls > 0


@dataclass(frozen=True)
class Served:
    """A replica of the server whose certificate comes from cert-manager, which runs."""

    cluster: LocalCluster
    fleet: Fleet
    volume: Volume
    #: Settings that its own authority would use; nothing is written there.
    certs_dir: Path

    @property
    def port(self) -> int:
        [port] = self.fleet.server_ports
        return port

    def mount(self, data: dict[str, bytes]) -> None:
        """As the kubelet does; returns once the server serves it."""
        self.volume.mount(data)
        wanted = fingerprint(data["tls.crt"])
        until(lambda: served_fingerprint(self.port, self.volume) == wanted, "the server to serve it")

    def trust(self, bundle: bytes) -> None:
        """Give kube-scheduler this bundle: it reads it when it starts."""
        write(self.cluster.layout.server_ca, bundle, mode=0o644)
        self.cluster.restart_components("kube-scheduler")


@pytest.fixture(scope="module")
def served(module_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    cluster, layout = module_cluster, module_cluster.layout
    binary, definitions = built_cert_manager()
    folder = tmp_path_factory.mktemp("cert-manager")
    cluster.kubectl("apply", "--server-side", *(f"--filename={path}" for path in definitions))
    cluster.kubectl(
        "wait", "--for=condition=Established", "crd/certificates.cert-manager.io", "--timeout=60s"
    )
    fleet = Fleet(cluster, folder)
    cluster.kubectl("delete", f"--namespace={NAMESPACE}", *OWN_AUTHORITY)
    cluster.kubectl("delete", *(f"{kind}/{NAME}" for kind in KINDS))  # the server had written caBundle
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
        volume = Volume(folder / "tls")
        volume.mount(data)
        made = Served(cluster, fleet, volume, folder / "unused")
        flags = (f"--tls-dir={volume.folder}", f"--certs-dir={made.certs_dir}")
        made.trust(data["ca.crt"])
        fleet.join("server-1", prefix=sooner(folder), flags=flags)
        yield made
    finally:
        processes.stop(layout.folder, components=["cert-manager"])
        fleet.close()


def built_cert_manager() -> tuple[Path, list[Path]]:
    """The program and the definitions. Where they cannot be built, tests are skipped, or fail if CI=true."""
    return built_or_skipped("cert-manager", lambda: external_tools.certmanager(say=print))


def rendered(cluster: LocalCluster) -> list[dict[str, Any]]:
    """What `kubectl apply -k manifests/cert-manager` applies."""
    text = kubectl(cluster.layout, "kustomize", str(manifests.MANIFESTS / "cert-manager"))
    return [each for each in yaml_texts.load_all(text) if each]


def overlay(cluster: LocalCluster) -> list[dict[str, Any]]:
    """The same, for one machine."""
    documents = rendered(cluster)
    [serving] = [each for each in documents if each["metadata"]["name"] == "sluice-serving"]
    serving["spec"]["dnsNames"].append("localhost")
    serving["spec"]["ipAddresses"] = ["127.0.0.1"]
    return manifests.localised(documents, server_url=cluster.ports.server_url, webhooks=True)


def secret(api: Api, name: str = "sluice-serving") -> dict[str, bytes]:
    """Its content; empty as long as it is not complete."""
    answer = api.get(f"{SECRETS}/{name}")
    data = (answer.body.get("data") or {}) if answer.status == 200 else {}
    decoded = {key: base64.b64decode(value) for key, value in data.items()}
    return decoded if all(decoded.get(key) for key in ("tls.crt", "tls.key", "ca.crt")) else {}


@contextmanager
def load(sandbox: Sandbox, queue: str) -> Iterator[Load]:
    cluster = sandbox.cluster
    numbers = itertools.count()
    stored: list[str] = []

    def create(connection: Api) -> None:
        number = next(numbers)
        is_stored = number % STORED == 0
        path = sandbox.pods_path + ("" if is_stored else "?dryRun=All")
        connection.create(path, pod_body(f"member-{number}", queue)).must(201)
        if is_stored:
            stored.append(f"member-{number}")

    def connect_anew() -> None:
        with connect(cluster.ports.server, cluster.layout.server_ca):
            pass

    with (
        Api(cluster) as connection,
        Repeated(lambda: create(connection), name="creations") as creations,
        Repeated(connect_anew, name="connections") as connections,
    ):
        made = Load(creations, connections, stored)
        made.flows()
        yield made
        made.flows()
    made.assert_nothing_failed()


def test_a_certificate_is_issued_registered_and_renewed_without_a_failed_call(
    own_sandbox: Sandbox, served: Served
) -> None:
    """Renewed twice: when asked to, and because its Secret was deleted."""
    cluster, api = own_sandbox.cluster, own_sandbox.api
    first = secret(api)
    authority = fingerprint(first["ca.crt"])
    until(lambda: set(trusted_by_webhooks(api)) == {(authority,)}, "cainjector to write caBundle")
    failed_before = failed_webhook_calls(cluster)
    with load(own_sandbox, own_sandbox.queue()) as running:
        before = first
        for renew in (ask_for_renewal, delete_secret):
            renew(api)
            after = reissued(api, before)
            served.mount(after)
            running.flows()
            before = after
    own_sandbox.all_bound(running.stored)
    assert failed_webhook_calls(cluster) == failed_before
    assert {fingerprint(each["ca.crt"]) for each in (first, before)} == {authority}, "the authority stays"
    assert set(trusted_by_webhooks(api)) == {(authority,)}
    assert_expiry(cluster, served.port, before["tls.crt"])


def test_the_authority_is_replaced_with_the_overlap_of_the_documentation(
    own_sandbox: Sandbox, served: Served
) -> None:
    """docs/operating/cert-manager.md: an authority with another key."""
    cluster, api = own_sandbox.cluster, own_sandbox.api
    before = secret(api)
    old = before["ca.crt"]
    failed_before = failed_webhook_calls(cluster)
    with load(own_sandbox, own_sandbox.queue()) as running:
        api.delete(f"{SECRETS}/sluice-authority").must()
        new = until(
            lambda: (found := secret(api, "sluice-authority")) and found["tls.crt"] != old and found,
            "cert-manager to make another authority",
        )["tls.crt"]
        running.flows()
        assert secret(api) == before, "what is served stays until it is renewed"
        assert set(trusted_by_webhooks(api)) == {(fingerprint(old),)}

        served.trust(old + new)
        running.flows()

        ask_for_renewal(api)
        after = reissued(api, before)
        assert after["ca.crt"] == new
        both = (fingerprint(old), fingerprint(new))
        until(lambda: set(trusted_by_webhooks(api)) == {both}, "cainjector to add the new authority")
        served.mount(after)
        running.flows()

        drop_former(api, new)
        served.trust(new)
        running.flows()
    own_sandbox.all_bound(running.stored)
    assert failed_webhook_calls(cluster) == failed_before
    assert set(trusted_by_webhooks(api)) == {(fingerprint(new),)}, "cainjector adds the former no more"


def test_the_server_has_no_right_to_secrets_and_webhooks_and_needs_none(
    module_cluster: LocalCluster, served: Served
) -> None:
    for right in (
        "get secrets/sluice-serving",
        "get secrets/sluice-ca",
        "create secrets",
        "create configmaps",
        "patch mutatingwebhookconfigurations/sluice",
        "patch validatingwebhookconfigurations/sluice",
    ):
        assert may(module_cluster, right) == "no", right
    with Api(module_cluster) as api:
        assert api.get(f"{SECRETS}/sluice-ca").status == 404
    assert not served.certs_dir.exists()
    log = module_cluster.layout.log("server-1").read_text()
    assert "certificates:" not in log
    assert "forbidden" not in log.lower()


def test_the_pod_of_the_overlay_is_given_the_files_and_keeps_no_authority(
    module_cluster: LocalCluster,
) -> None:
    [deployment] = [each for each in rendered(module_cluster) if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    settings = read(pod["containers"][0]["args"][1:], env={})
    assert (settings.tls_dir, settings.ca_secret) == ("/tls", "")
    assert {"name": "tls", "mountPath": "/tls", "readOnly": True} in pod["containers"][0]["volumeMounts"]
    secrets = [volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume]
    assert secrets == ["sluice-serving"]


def test_helm_installs_it_and_an_upgrade_leaves_what_cainjector_wrote(
    module_cluster: LocalCluster, served: Served, tmp_path: Path
) -> None:
    """The last test: what Helm brings calls a Service, and nobody answers there."""
    cluster = module_cluster
    helm = Helm(built_helm(), tmp_path, kubeconfig=cluster.client_kubeconfig)
    folder = write_chart(ROOT, built_kubectl(), tmp_path / "chart", repository="sluice")
    cluster.kubectl("delete", *(f"{kind}/{NAME}" for kind in KINDS))
    values = flags({"certificates.issuer": "cert-manager"})
    helm("install", "sluice", str(folder), "--take-ownership", *values)
    with Api(cluster) as api:
        wanted = {(fingerprint(secret(api)["ca.crt"]),)}
        until(lambda: set(trusted_by_webhooks(api)) == wanted, "cainjector to write caBundle")
        helm("upgrade", "sluice", str(folder), *values, *flags({"replicas": 2}))
        deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/sluice"
        assert api.get(deployment).must().body["spec"]["replicas"] == 2
        assert set(trusted_by_webhooks(api)) == wanted
        cluster.kubectl(
            *("wait", "--for=condition=Ready", "--timeout=60s", f"--namespace={NAMESPACE}"),
            *("certificate/sluice-authority", "certificate/sluice-serving"),
        )
        helm("uninstall", "sluice")
        assert api.get(CERTIFICATES).must().body["items"] == []


def ask_for_renewal(api: Api) -> None:
    """As `cmctl renew sluice-serving` does."""
    condition = {
        "type": "Issuing",
        "status": "True",
        "reason": "ManuallyTriggered",
        "message": "a test",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
    }
    path = f"{CERTIFICATES}/sluice-serving"
    conditions = api.get(path).must().body["status"]["conditions"]
    others = [each for each in conditions if each["type"] != "Issuing"]
    api.patch(f"{path}/status", {"status": {"conditions": [*others, condition]}}).must()


def delete_secret(api: Api) -> None:
    api.delete(f"{SECRETS}/sluice-serving").must()


def reissued(api: Api, before: dict[str, bytes]) -> dict[str, bytes]:
    """The Secret of the serving certificate, once another one is in it."""
    return until(
        lambda: (found := secret(api)) and found["tls.crt"] != before["tls.crt"] and found,
        "cert-manager to issue another certificate",
    )


def drop_former(api: Api, new: bytes) -> None:
    """Have the webhooks trust this authority alone."""
    text = base64.b64encode(new).decode()
    for kind in KINDS:
        path = f"{ADMISSION}/{kind}/{NAME}"
        hooks = api.get(path).must().body["webhooks"]
        for hook in hooks:
            hook["clientConfig"]["caBundle"] = text
        api.patch(path, {"webhooks": hooks}).must()


def failed_webhook_calls(cluster: LocalCluster) -> float:
    context = apiserver.context(cluster.layout)
    pattern = r'apiserver_admission_webhook_rejection_count{[^}]*error_type="calling_webhook_error"[^}]*}'
    return metric(cluster.ports.apiserver, context, pattern)


def served_fingerprint(port: int, volume: Volume) -> str:
    """Of the certificate that a new connection is answered with."""
    with connect(port, volume.folder / "ca.crt") as connection:
        encoded = connection.getpeercert(binary_form=True)
    assert encoded is not None
    return fingerprint(ssl.DER_cert_to_PEM_cert(encoded).encode())


def assert_expiry(cluster: LocalCluster, port: int, certificate: bytes) -> None:
    context = apiserver.caller_context(cluster.layout)
    pattern = r'sluice_certificate_expiry_timestamp_seconds{certificate="serving"}'
    wanted = expires(certificate).timestamp()
    until(lambda: metric(port, context, pattern) == wanted, "the metric to say when it expires")


def may(cluster: LocalCluster, right: str) -> str:
    verb, resource = right.split(" ")
    done = try_kubectl(
        cluster.layout, "auth", "can-i", verb, resource, f"--as={SERVER}", f"--namespace={NAMESPACE}"
    )
    return done.stdout.strip()
