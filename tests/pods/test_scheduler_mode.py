"""Mode `scheduler` on real nodes: `manifests/ways/scheduler` over mode `extender`, until it is removed.

One story: each test begins with what the one before it has installed. Members are created all the while, and
a queue is stopped and resumed; no pod is bound after a stop was acknowledged.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.components import NAMESPACE
from localcluster.pods import installation
from queues.mode import Mode
from tests.support.e2e.wait import until
from tests.support.pods import installations
from tests.support.pods.faults import kill_containers
from tests.support.pods.servers import SECONDS, Servers
from tests.support.pods.traffic import flowing
from tests.support.pods.work import Work, uninstall

REPLICAS = 2
#: The API server's way to a port of the Service, without a certificate of a caller.
ANONYMOUS = f"/api/v1/namespaces/{NAMESPACE}/services/https:sluice:443/proxy/extender/filter"
OUR_ACCOUNT = f"system:serviceaccount:{NAMESPACE}:sluice"


@pytest.fixture
def servers(pods_cluster: LocalCluster) -> Servers:
    return Servers(pods_cluster)


@pytest.fixture
def work(pods_cluster: LocalCluster) -> Iterator[Work]:
    made = Work(pods_cluster)
    yield made
    made.remove()


@pytest.fixture(scope="module", autouse=True)
def extender_mode_afterwards(pods_cluster: LocalCluster) -> Iterator[None]:
    """As it was found."""
    yield
    installation.install(pods_cluster.layout, pods_cluster.ports, Mode.EXTENDER, say=print)


def test_from_mode_extender_to_mode_scheduler(
    pods_cluster: LocalCluster, servers: Servers, tmp_path: Path
) -> None:
    folder = installations.kustomization(tmp_path / "own", Mode.SCHEDULER, replicas=REPLICAS)
    with flowing(pods_cluster, title="from mode extender to scheduler, 1 to 2") as traffic:
        servers.apply(folder, REPLICAS)
        servers.wait_for_only(REPLICAS)
        traffic.wait_for_rounds(1)
    traffic.assert_uninterrupted()
    for pod in servers.live().values():
        containers = {each["name"]: each["ready"] for each in pod["status"]["containerStatuses"]}
        assert containers == {"sluice": True, "kube-scheduler": True}


def test_members_run_by_the_scheduler_in_our_pods(pods_cluster: LocalCluster, work: Work) -> None:
    work.is_stopped_resumed_and_drained(Mode.SCHEDULER)
    binds = [bind for bind in pods_cluster.audit() if bind.bound and bind.namespace == work.name]
    assert {bind.user for bind in binds} == {OUR_ACCOUNT}


def test_when_the_leading_schedulers_pod_is_deleted_another_schedules(
    pods_cluster: LocalCluster, servers: Servers
) -> None:
    with flowing(pods_cluster, title="deletion of the leading scheduler's pod, 2") as traffic:
        leading = servers.scheduling()
        servers.delete(leading)
        assert servers.scheduling() != leading
        traffic.wait_for_rounds(1)
        servers.wait(REPLICAS)
    traffic.assert_uninterrupted()


def test_when_the_leading_schedulers_pod_is_killed_another_schedules(
    pods_cluster: LocalCluster, servers: Servers
) -> None:
    """Its Lease is taken over once it has expired: by the other replica's kube-scheduler, or by the one that
    kubelet has started in the killed one's place. Creations fail only until the Service knows."""
    with flowing(pods_cluster, title="SIGKILL of the leading scheduler's pod, 2") as traffic:
        pod = servers.pods()[servers.scheduling()]
        killed, since = servers.scheduler(), servers.endpoints_version()
        kill_containers(pod)
        servers.wait_until_not_called(pod, since=since)
        known_at = time.monotonic()
        until(lambda: servers.scheduler() not in ("", killed), "another scheduler to lead", seconds=SECONDS)
        traffic.wait_for_rounds(2)
        servers.wait(REPLICAS)
    assert [each for each in traffic.failures if each.began > known_at] == []
    traffic.assert_no_pod_was_bound_after_a_stop()


def test_our_scheduler_shows_a_certificate_where_callers_have_to(
    pods_cluster: LocalCluster, servers: Servers, tmp_path: Path
) -> None:
    folder = installations.with_certificates(tmp_path / "own", pods_cluster, replicas=REPLICAS)
    with flowing(pods_cluster, title="client certificates in mode scheduler, 2") as traffic:
        servers.apply(folder, REPLICAS)
        servers.wait_for_only(REPLICAS)
        traffic.wait_for_rounds(2)
        with pods_cluster.api() as api:
            assert api.request("GET", ANONYMOUS).status == 401
    traffic.assert_uninterrupted()


def test_an_uninstallation_in_mode_scheduler_leaves_nothing(
    pods_cluster: LocalCluster, servers: Servers, work: Work
) -> None:
    """Pods that wait lose the gate; they name our scheduler, so their controller has to make them anew."""
    work.queue("suspend", "--wait")
    work.create()
    work.wait_until_gated()
    uninstall(pods_cluster)
    assert pods_cluster.kubectl("get", OWN_KINDS, "--selector=app.kubernetes.io/part-of=sluice") == ""
    pods_cluster.kubectl("delete", "pods", "--all", f"--namespace={work.name}")
    work.wait_until_running()


OWN_KINDS = (
    "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,"
    "validatingadmissionpolicybindings,clusterroles,clusterrolebindings"
)
