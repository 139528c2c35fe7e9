"""The real Helm installs, upgrades, rolls back and removes the chart on a real API server.

No server runs: kwok plays the pods of the Deployment, and nothing answers the webhooks.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.apiserver import try_kubectl
from localcluster.cluster import LocalCluster
from release.chart.chart import KEEP
from tests.support import yaml_texts
from tests.support.e2e.wait import until
from tests.support.helm import Helm, flags

pytestmark = [pytest.mark.cluster, pytest.mark.long]

#: Helm waits for objects; a loaded machine is slow.
WAIT = ("--wait", "--timeout", "300s")
DEFINITION = "customresourcedefinition/queues.scheduling.volcano.sh"
CONFIGURATION = "validatingwebhookconfiguration/sluice"
NAMESPACE = "--namespace=sluice-system"
#: A control plane to which `kubectl apply` has brought definitions, roles and policies.
CLUSTER = {"nodes": 1, "server": False}


@pytest.fixture(scope="module")
def connected(helm: Helm, configured_cluster: LocalCluster) -> Helm:
    return replace(helm, kubeconfig=configured_cluster.client_kubeconfig)


@pytest.fixture(scope="module")
def next_chart(chart: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A later version, with one more field in the definition of Queues."""
    folder = tmp_path_factory.mktemp("next") / "sluice"
    shutil.copytree(chart, folder)
    metadata = yaml_texts.load((folder / "Chart.yaml").read_text())
    (folder / "Chart.yaml").write_text(yaml.safe_dump({**metadata, "version": "99.0.0"}))
    definition = folder / "templates" / "customresourcedefinition-queues.scheduling.volcano.sh.yaml"
    text = definition.read_text()
    old = "              resumeAt:\n"
    assert text.count(old) == 1
    definition.write_text(text.replace(old, f"              later:\n                type: string\n{old}"))
    return folder


def get(cluster: LocalCluster, *arguments: str) -> Any:
    return json.loads(cluster.kubectl("get", *arguments, "--output=json"))


def has_later_field(cluster: LocalCluster) -> bool:
    [version] = get(cluster, DEFINITION)["spec"]["versions"]
    return "later" in version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


def write_ca_bundle(cluster: LocalCluster) -> None:
    """As the server does, into each entry."""
    count = len(get(cluster, CONFIGURATION)["webhooks"])
    patch = [
        {"op": "add", "path": f"/webhooks/{n}/clientConfig/caBundle", "value": CA_BUNDLE}
        for n in range(count)
    ]
    cluster.kubectl("patch", CONFIGURATION, "--type=json", f"--patch={json.dumps(patch)}")


def ca_bundles(cluster: LocalCluster) -> set[str | None]:
    return {hook["clientConfig"].get("caBundle") for hook in get(cluster, CONFIGURATION)["webhooks"]}


def replicas(cluster: LocalCluster) -> int:
    count: int = get(cluster, "deployment", "sluice", NAMESPACE)["spec"]["replicas"]
    return count


def is_created(cluster: LocalCluster, body: Any) -> bool:
    done = try_kubectl(cluster.layout, "create", "--filename=-", stdin=json.dumps(body))
    return done.returncode == 0


def remaining(cluster: LocalCluster) -> list[str]:
    """The kinds of ours that are in the cluster."""
    kinds = (
        "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,"
        "validatingadmissionpolicybindings,clusterroles,clusterrolebindings,customresourcedefinitions"
    )
    items = get(cluster, kinds, "--selector=app.kubernetes.io/part-of=sluice")["items"]
    return sorted({item["kind"] for item in items})


def test_install_upgrade_rollback_and_uninstall(
    connected: Helm, configured_cluster: LocalCluster, chart: Path, next_chart: Path
) -> None:
    """From an installation by kubectl. Upgrades update definitions; a removal keeps them and all queues."""
    error = connected.refused("install", "sluice", str(chart))
    assert "cannot be imported into the current release" in error
    notes = connected("install", "sluice", str(chart), "--take-ownership", *WAIT).splitlines()
    assert any(line.endswith("jsonpath='{.data.ca\\.crt}'") for line in notes)  # a command to copy, alone
    assert replicas(configured_cluster) == 1
    write_ca_bundle(configured_cluster)
    address = get(configured_cluster, "service", "sluice", NAMESPACE)["spec"]["clusterIP"]

    connected("upgrade", "sluice", str(next_chart), *flags({"replicas": 2}), *WAIT)
    assert replicas(configured_cluster) == 2
    assert has_later_field(configured_cluster)
    # Else the API server could not reach the server any more.
    assert ca_bundles(configured_cluster) == {CA_BUNDLE}
    assert get(configured_cluster, "service", "sluice", NAMESPACE)["spec"]["clusterIP"] == address

    connected("rollback", "sluice", "1", *WAIT)
    assert replicas(configured_cluster) == 1
    assert not has_later_field(configured_cluster)
    assert ca_bundles(configured_cluster) == {CA_BUNDLE}

    connected("uninstall", "sluice", *WAIT)
    assert remaining(configured_cluster) == ["CustomResourceDefinition"]
    assert get(configured_cluster, DEFINITION)["metadata"]["annotations"].items() >= KEEP.items()
    until(lambda: is_created(configured_cluster, QUEUE), "the API server to know that the webhooks are gone")

    connected("install", "sluice", str(chart), *WAIT)  # nobody has to take the definitions over
    connected("uninstall", "sluice", *WAIT)
    assert get(configured_cluster, "queue", "kept")["metadata"]["name"] == "kept"


def test_what_is_left_once_the_namespace_was_deleted_is_installed_over(
    connected: Helm, configured_cluster: LocalCluster, chart: Path
) -> None:
    """docs/operating/namespace-gone.md: Helm's record of the release went with the namespace."""
    install = ("install", "sluice", str(chart), NAMESPACE, "--create-namespace", *WAIT)
    configured_cluster.kubectl("delete", "namespace", "sluice-system", "--ignore-not-found")
    connected(*install, "--take-ownership")
    configured_cluster.kubectl("delete", "namespace", "sluice-system")
    left = remaining(configured_cluster)
    assert {"MutatingWebhookConfiguration", "CustomResourceDefinition", "ClusterRole"} <= set(left)
    assert connected("list", "--all-namespaces", "--short") == ""
    connected(*install)
    assert replicas(configured_cluster) == 1
    assert remaining(configured_cluster) == left
    connected("upgrade", "sluice", str(chart), NAMESPACE, "--reset-then-reuse-values", *WAIT)
    connected("rollback", "sluice", "1", NAMESPACE, *WAIT)
    connected("uninstall", "sluice", NAMESPACE, *WAIT)


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("172.31.0.9", "clusterIP: 172.31.0.9 is outside the cluster's service range"),
        ("{kubernetes}", "is the address of Service default/kubernetes"),
    ],
)
def test_an_address_that_the_service_cannot_have_is_refused_before_anything_is_written(
    connected: Helm, configured_cluster: LocalCluster, chart: Path, address: str, error: str
) -> None:
    kubernetes = get(configured_cluster, "service", "kubernetes")["spec"]["clusterIP"]
    values = flags({"clusterIP": address.format(kubernetes=kubernetes)})
    before = remaining(configured_cluster)
    assert error in connected.refused("install", "other", str(chart), "--take-ownership", *values)
    assert remaining(configured_cluster) == before
    assert connected("list", "--all", "--short") == ""


def test_an_address_of_the_range_is_taken_and_cannot_be_changed(
    connected: Helm, configured_cluster: LocalCluster, chart: Path
) -> None:
    first, second = free_addresses(configured_cluster)
    connected("install", "sluice", str(chart), "--take-ownership", *flags({"clusterIP": first}))
    assert get(configured_cluster, "service", "sluice", NAMESPACE)["spec"]["clusterIP"] == first
    error = connected.refused("upgrade", "sluice", str(chart), *flags({"clusterIP": second}))
    assert f"Service sluice has the address {first}, which cannot be changed" in error
    assert f"--set clusterIP={first}" in error
    connected("uninstall", "sluice", *WAIT)


def test_definitions_that_the_cluster_lacks_are_named(connected: Helm, chart: Path) -> None:
    error = connected.refused("install", "sluice", str(chart), *flags({"monitoring.podMonitor": True}))
    assert "monitoring.podMonitor: this cluster has no PodMonitors" in error
    error = connected.refused("install", "sluice", str(chart), *flags({"priorityClassName": "urgent"}))
    assert 'priorityClassName: there is no PriorityClass "urgent"' in error


def test_webhooks_that_call_a_server_outside_of_the_cluster_are_left_alone(
    connected: Helm, configured_cluster: LocalCluster, chart: Path
) -> None:
    """As in a cluster of `make up`."""
    name = "validatingwebhookconfigurations/sluice"
    webhook = {
        "name": "a.sluice.dev",
        "clientConfig": {"url": "https://127.0.0.1:1/validate/queues"},
        "rules": [],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "sluice"},
        "webhooks": [webhook],
    }
    configured_cluster.kubectl("create", "--filename=-", stdin=json.dumps(configuration))
    try:
        error = connected.refused("install", "sluice", str(chart), "--take-ownership")
        assert "call a server outside of it, at https://127.0.0.1:1/validate/queues, as make up" in error
        assert get(configured_cluster, name)["webhooks"][0]["clientConfig"] == webhook["clientConfig"]
    finally:
        configured_cluster.kubectl("delete", name)


def test_a_missing_certificate_of_our_own_scheduler_is_named(
    connected: Helm, configured_cluster: LocalCluster, chart: Path
) -> None:
    values = flags({"mode": "scheduler", "clientCertificates": True})
    error = connected.refused("install", "sluice", str(chart), "--take-ownership", *values)
    assert "there is no ConfigMap sluice-callers in namespace" in error
    assert "--from-file=ca.crt=callers.crt" in error  # the server's own authority is called ca.crt as well
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "sluice-system"}}
    configured_cluster.kubectl(
        "apply", "--server-side", "--filename=-", stdin=json.dumps(namespace)
    )  # a test took it away
    configured_cluster.kubectl(
        "create", "configmap", "sluice-callers", NAMESPACE, "--from-literal=ca.crt=any"
    )
    error = connected.refused("install", "sluice", str(chart), "--take-ownership", *values)
    assert "kubectl create secret tls sluice-kube-scheduler -n sluice-system" in error


def test_an_object_that_lacks_its_certificate_is_named(
    connected: Helm, configured_cluster: LocalCluster, chart: Path
) -> None:
    """It is there, with another key."""
    configured_cluster.kubectl("delete", "configmap", "sluice-callers", NAMESPACE, "--ignore-not-found")
    create = ("create", NAMESPACE)
    configured_cluster.kubectl(*create, "configmap", "sluice-callers", "--from-literal=callers.crt=any")
    configured_cluster.kubectl(
        *create, "secret", "generic", "sluice-kube-scheduler", "--from-literal=tls.crt=any"
    )
    values = flags({"mode": "scheduler", "clientCertificates": True})
    command = ("install", "sluice", str(chart), "--take-ownership", *values)
    assert 'ConfigMap sluice-callers in namespace "sluice-system" has no ca.crt' in connected.refused(
        *command
    )
    patch = '--patch={"data":{"ca.crt":"any"}}'
    configured_cluster.kubectl("patch", NAMESPACE, "configmap", "sluice-callers", patch)
    error = connected.refused(*command)
    assert 'Secret sluice-kube-scheduler in namespace "sluice-system" has no tls.crt or no tls.key' in error


def free_addresses(cluster: LocalCluster) -> tuple[str, str]:
    """Of the range of the Service `kubernetes`, which has its first address."""
    prefix = get(cluster, "service", "kubernetes")["spec"]["clusterIP"].rpartition(".")[0]
    return f"{prefix}.201", f"{prefix}.202"


CA_BUNDLE = "Q0E="
QUEUE = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "Queue",
    "metadata": {"name": "kept"},
    "spec": {"weight": 1},
}
