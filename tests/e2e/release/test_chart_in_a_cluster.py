"""The real Helm installs, upgrades, rolls back and removes the chart on a real API server.

No server runs: kwok plays the pods of the Deployment, and nothing answers the webhooks.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.cluster import LocalCluster
from localcluster.exceptions import BuildFailed
from release.chart.chart import KEEP
from tests.support.helm import Helm, flags

pytestmark = pytest.mark.cluster

#: Helm waits for objects; a loaded machine is slow.
WAIT = ("--wait", "--timeout", "300s")
DEFINITION = "customresourcedefinition/queues.scheduling.volcano.sh"
CONFIGURATION = "validatingwebhookconfiguration/sluice"
NAMESPACE = "--namespace=sluice-system"


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A control plane to which `kubectl apply` has brought definitions, roles and policies."""
    folder = tmp_path_factory.mktemp(f"cluster-of-{os.getpid()}-", numbered=True)
    try:
        own = LocalCluster.start(folder, nodes=1, server=False)
    except BuildFailed as exc:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(f"NO CONTROL PLANE, so this is not tested: {exc}")
    yield own
    own.stop()


@pytest.fixture(scope="module")
def connected(helm: Helm, own: LocalCluster) -> Helm:
    return replace(helm, kubeconfig=own.client_kubeconfig)


@pytest.fixture(scope="module")
def next_chart(chart: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A later version, with one more field in the definition of Queues."""
    folder = tmp_path_factory.mktemp("next") / "sluice"
    shutil.copytree(chart, folder)
    metadata = yaml.safe_load((folder / "Chart.yaml").read_text())
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


def remaining(cluster: LocalCluster) -> list[str]:
    """The kinds of ours that are in the cluster."""
    kinds = (
        "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,"
        "validatingadmissionpolicybindings,clusterroles,clusterrolebindings,customresourcedefinitions"
    )
    items = get(cluster, kinds, "--selector=app.kubernetes.io/part-of=sluice")["items"]
    return sorted({item["kind"] for item in items})


def test_install_upgrade_rollback_and_uninstall(
    connected: Helm, own: LocalCluster, chart: Path, next_chart: Path
) -> None:
    """From an installation by kubectl. Upgrades update definitions; a removal keeps them and all queues."""
    error = connected.refused("install", "sluice", str(chart))
    assert "cannot be imported into the current release" in error
    connected("install", "sluice", str(chart), "--take-ownership", *WAIT)
    assert replicas(own) == 1
    write_ca_bundle(own)
    address = get(own, "service", "sluice", NAMESPACE)["spec"]["clusterIP"]

    connected("upgrade", "sluice", str(next_chart), *flags({"replicas": 2}), *WAIT)
    assert replicas(own) == 2
    assert has_later_field(own)
    assert ca_bundles(own) == {CA_BUNDLE}  # else the API server could not reach the server any more
    assert get(own, "service", "sluice", NAMESPACE)["spec"]["clusterIP"] == address

    connected("rollback", "sluice", "1", *WAIT)
    assert replicas(own) == 1
    assert not has_later_field(own)
    assert ca_bundles(own) == {CA_BUNDLE}

    connected("uninstall", "sluice", *WAIT)
    assert remaining(own) == ["CustomResourceDefinition"]
    assert get(own, DEFINITION)["metadata"]["annotations"].items() >= KEEP.items()
    own.kubectl("create", "--filename=-", stdin=json.dumps(QUEUE))

    connected("install", "sluice", str(chart), *WAIT)  # nobody has to take the definitions over
    connected("uninstall", "sluice", *WAIT)
    assert get(own, "queue", "kept")["metadata"]["name"] == "kept"


@pytest.mark.parametrize(
    ("address", "error"),
    [
        ("172.31.0.9", "clusterIP: 172.31.0.9 is outside the cluster's service range"),
        ("{kubernetes}", "is the address of Service default/kubernetes"),
    ],
)
def test_an_address_that_the_service_cannot_have_is_refused_before_anything_is_written(
    connected: Helm, own: LocalCluster, chart: Path, address: str, error: str
) -> None:
    kubernetes = get(own, "service", "kubernetes")["spec"]["clusterIP"]
    values = flags({"clusterIP": address.format(kubernetes=kubernetes)})
    before = remaining(own)
    assert error in connected.refused("install", "other", str(chart), "--take-ownership", *values)
    assert remaining(own) == before
    assert connected("list", "--all", "--short") == ""


def test_an_address_of_the_range_is_taken_and_cannot_be_changed(
    connected: Helm, own: LocalCluster, chart: Path
) -> None:
    first, second = free_addresses(own)
    connected("install", "sluice", str(chart), "--take-ownership", *flags({"clusterIP": first}))
    assert get(own, "service", "sluice", NAMESPACE)["spec"]["clusterIP"] == first
    error = connected.refused("upgrade", "sluice", str(chart), *flags({"clusterIP": second}))
    assert f"Service sluice has the address {first}, which cannot be changed" in error
    assert f"--set clusterIP={first}" in error
    connected("uninstall", "sluice", *WAIT)


def test_definitions_that_the_cluster_lacks_are_named(connected: Helm, chart: Path) -> None:
    error = connected.refused("install", "sluice", str(chart), *flags({"monitoring.podMonitor": True}))
    assert "monitoring.podMonitor: this cluster has no PodMonitors" in error


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
