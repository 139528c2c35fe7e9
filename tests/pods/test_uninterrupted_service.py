"""Members are created, and a queue is stopped and resumed, while the server or what it needs is disrupted.

In each case not one pod is bound after a stop of its queue was acknowledged. Creations fail only where
somebody calls a replica that is gone and the Service does not know that yet, or where no replica can answer:

| what happens                                 | creations that fail                                       |
|----------------------------------------------|-----------------------------------------------------------|
| roll-out, drain of a node, deletion of one   | none                                                      |
| of three pods                                |                                                           |
| deletion of the only pod                     | none, or for less time than its successor needs to start  |
| SIGKILL of one of three replicas             | those sent to it until the Service has left its address   |
| a node is cut off                            | the same, each after the webhook's time-out of 5 s; when  |
|                                              | it is back, those that its replica gets before it is ready |
| kube-apiserver restarts                      | all while it is away; none once all replicas are ready    |
| etcd is slow                                 | none                                                      |
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.wait import until
from tests.support.pods.faults import SlowEtcd, cut_off, kill_container, restart_apiserver
from tests.support.pods.servers import SECONDS, Servers, seconds_to_start
from tests.support.pods.traffic import flowing

#: A webhook that does not answer fails a creation after this time.
WEBHOOK_SECONDS = 5.0
#: Of each write to etcd, there and back.
ETCD_SECONDS = 0.1


@pytest.fixture
def one(pods_cluster: LocalCluster) -> Servers:
    servers = Servers(pods_cluster)
    servers.scale(1)
    return servers


@pytest.fixture
def three(pods_cluster: LocalCluster) -> Servers:
    servers = Servers(pods_cluster)
    servers.scale(3)
    return servers


@pytest.fixture(scope="module", autouse=True)
def one_afterwards(pods_cluster: LocalCluster) -> Iterator[None]:
    """As in the manifests; the others end by themselves."""
    yield
    Servers(pods_cluster).ask_for(1)


def test_a_rolling_restart_of_the_only_replica_fails_no_creation(
    pods_cluster: LocalCluster, one: Servers
) -> None:
    with flowing(pods_cluster, title="rolling restart, 1") as traffic:
        one.restart()
        traffic.wait_for_creations(5)
    assert traffic.failures == []
    traffic.assert_no_pod_was_bound_after_a_stop()


def test_the_deletion_of_the_only_pod_fails_creations_no_longer_than_its_successor_starts(
    pods_cluster: LocalCluster, one: Servers
) -> None:
    """It answers for some seconds more, in which its successor is ready: on most machines none fails."""
    with flowing(pods_cluster, title="deletion, 1") as traffic:
        one.delete(one.leader())
        one.wait(1)
        traffic.wait_for_creations(5)
    [successor] = one.live().values()
    assert traffic.seconds_of_failures <= seconds_to_start(successor)
    traffic.assert_no_pod_was_bound_after_a_stop()


def test_a_rolling_restart_of_three_replicas_fails_no_creation(
    pods_cluster: LocalCluster, three: Servers
) -> None:
    with flowing(pods_cluster, title="rolling restart, 3") as traffic:
        three.restart()
        traffic.wait_for_creations(5)
    assert traffic.failures == []
    traffic.assert_no_pod_was_bound_after_a_stop()


def test_the_deletion_of_the_leader_fails_no_creation(pods_cluster: LocalCluster, three: Servers) -> None:
    with flowing(pods_cluster, title="deletion of the leader, 3") as traffic:
        leader = three.leader()
        three.delete(leader)
        assert three.leader() != leader
        traffic.wait_for_rounds(1)
        three.wait(3)
    assert traffic.failures == []
    traffic.assert_no_pod_was_bound_after_a_stop()


def test_draining_the_leaders_node_fails_no_creation(pods_cluster: LocalCluster, three: Servers) -> None:
    """All replicas are on one node afterwards."""
    node = three.node_of(three.leader())
    drain = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force")
    with flowing(pods_cluster, title="drain of the leader's node, 3") as traffic:
        try:
            pods_cluster.kubectl(*drain, f"--timeout={SECONDS:.0f}s")
            three.wait(3)
            traffic.wait_for_rounds(1)
        finally:
            pods_cluster.kubectl("uncordon", node)
    assert node not in {pod["spec"]["nodeName"] for pod in three.live().values()}
    assert traffic.failures == []
    traffic.assert_no_pod_was_bound_after_a_stop()


def test_after_sigkill_creations_fail_only_until_the_service_knows(
    pods_cluster: LocalCluster, three: Servers
) -> None:
    """The leader dies, as when it has no memory left. Calls of the others are answered all the while."""
    with flowing(pods_cluster, title="SIGKILL of the leader, 3") as traffic:
        leader = three.pods()[three.leader()]
        kill_container(leader)
        address = leader["status"]["podIP"]
        until(lambda: address not in three.addresses(), "the Service to leave it out", seconds=SECONDS)
        known_at = time.monotonic()
        traffic.wait_for_rounds(1)
        three.wait(3)
    assert [each for each in traffic.failures if each.began > known_at + 1.0] == []
    traffic.assert_no_pod_was_bound_after_a_stop()


def test_while_a_node_is_cut_off_creations_fail_only_by_timeout(
    pods_cluster: LocalCluster, three: Servers
) -> None:
    """The leader is on it. Nobody knows for most of a minute that its node is gone."""
    three.lead_from("node-1")
    with flowing(pods_cluster, title="a node cut off, 3") as traffic:
        with cut_off(pods_cluster, "node-1"):
            traffic.wait_for_rounds(3)
            traffic.wait_for_creations(5)
            end = time.monotonic()
        three.wait(3)
        traffic.wait_for_rounds(1)
    meanwhile = [each for each in traffic.failures if each.began + each.seconds < end]
    assert [each for each in meanwhile if each.seconds < WEBHOOK_SECONDS] == []
    traffic.assert_no_pod_was_bound_after_a_stop()


def test_a_restart_of_the_api_server_and_a_slow_etcd(pods_cluster: LocalCluster, three: Servers) -> None:
    etcd = SlowEtcd(pods_cluster)
    with flowing(pods_cluster, title="restart of kube-apiserver, 3") as traffic:
        restart_apiserver(pods_cluster, etcd=etcd.port)
        three.wait(3)
        ready_at = time.monotonic()
        traffic.wait_for_rounds(2)
    assert [each for each in traffic.failures if each.began > ready_at] == []
    traffic.assert_no_pod_was_bound_after_a_stop()
    with flowing(pods_cluster, title="slow etcd, 3") as traffic:
        etcd.delay(ETCD_SECONDS)
        try:
            traffic.wait_for_rounds(3)
            traffic.wait_for_creations(5)
        finally:
            etcd.delay(0)
    assert traffic.failures == []
    traffic.assert_no_pod_was_bound_after_a_stop()
