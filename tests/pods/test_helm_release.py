"""The real Helm on real nodes: it installs the chart in each mode, upgrades it and takes that back, unseen.

One story, that begins with an empty cluster: the upgrades are those of the last installation, and the removal
is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster import manifests
from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from localcluster.pods import installation
from queues.mode import Mode
from release.chart.chart import ROOT, write_chart
from tests.support.e2e.wait import until
from tests.support.helm import Helm, built_helm, built_kubectl, flags
from tests.support.pods.servers import SECONDS, Servers
from tests.support.pods.traffic import flowing
from tests.support.pods.work import Work, uninstall

IN_NAMESPACE = f"--namespace={NAMESPACE}"
WAIT = ("--wait", "--timeout", f"{SECONDS:.0f}s")


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_chart(ROOT, built_kubectl(), tmp_path_factory.mktemp("chart"), repository="sluice"))


@pytest.fixture(scope="module")
def helm(pods_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Helm]:
    """In a cluster without the server; afterwards that is there again, as it was found."""
    layout, ports = pods_cluster.layout, pods_cluster.ports
    try:
        uninstall(pods_cluster, "--definitions")
        yield Helm(built_helm(), tmp_path_factory.mktemp("helm"), pods_cluster.client_kubeconfig)
    finally:
        installation.install(layout, ports, Mode.EXTENDER, say=print)


@pytest.fixture
def servers(pods_cluster: LocalCluster) -> Servers:
    return Servers(pods_cluster)


@pytest.mark.parametrize("mode", [Mode.SCHEDULER, Mode.GATE, Mode.EXTENDER])
def test_it_installs_each_mode(
    pods_cluster: LocalCluster, helm: Helm, chart: str, servers: Servers, mode: Mode
) -> None:
    """The last one stays."""
    where = (IN_NAMESPACE, "--create-namespace")
    helm("install", "sluice", chart, *where, *flags({"mode": mode}), *WAIT)
    servers.wait(1)
    layout, ports = pods_cluster.layout, pods_cluster.ports
    if mode is Mode.EXTENDER:
        installation.connect_scheduler(layout, ports, say=print)
    until(lambda: manifests.are_called(layout, ports), "the API server to reach our webhooks")
    work = Work(pods_cluster)
    work.is_stopped_resumed_and_drained(mode)
    work.remove()
    if mode is not Mode.EXTENDER:
        uninstall(pods_cluster)
        helm("uninstall", "sluice", IN_NAMESPACE, *WAIT)


def test_upgrades_and_a_rollback_of_three_replicas_fail_no_creation(
    pods_cluster: LocalCluster, helm: Helm, chart: str, servers: Servers
) -> None:
    """Each rolls all pods out anew; the last state is the first one again."""
    with flowing(pods_cluster, title="helm upgrade, upgrade and rollback, 3") as traffic:
        helm("upgrade", "sluice", chart, IN_NAMESPACE, *flags({"replicas": 3}), *WAIT)
        servers.wait(3)
        values = {"replicas": 3, "podAnnotations": {"version": "next"}, "settings.drain_rate": 50}
        helm("upgrade", "sluice", chart, IN_NAMESPACE, *flags(values), *WAIT)
        servers.wait(3)
        assert {annotation(pod) for pod in servers.live().values()} == {"next"}
        helm("rollback", "sluice", "2", IN_NAMESPACE, *WAIT)
        servers.wait(3)
        assert {annotation(pod) for pod in servers.live().values()} == {None}
        traffic.wait_for_rounds(1)
    traffic.assert_uninterrupted()


def annotation(pod: dict[str, dict[str, dict[str, str]]]) -> str | None:
    return pod["metadata"].get("annotations", {}).get("version")


def test_a_removal_fails_no_creation_and_leaves_the_queues(
    pods_cluster: LocalCluster, helm: Helm, servers: Servers
) -> None:
    with flowing(pods_cluster, title="kubectl queue uninstall, helm uninstall", stops=False) as traffic:
        uninstall(pods_cluster)
        helm("uninstall", "sluice", IN_NAMESPACE, *WAIT)
        traffic.wait_for_creations(5)
    assert traffic.failures == []
    assert "default" in pods_cluster.kubectl("get", "queues")
