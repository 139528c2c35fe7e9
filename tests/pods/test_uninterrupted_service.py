"""Members are created, and a queue is stopped and resumed, while the server or what it needs is disrupted.

In each case not one pod is bound after a stop of its queue was acknowledged. Creations fail only where
somebody calls a replica that is gone and the Service does not know that yet, or where no replica can answer:

| what happens                                 | creations that fail                                       |
|----------------------------------------------|-----------------------------------------------------------|
| roll-out, drain of a node, deletion of one   | none                                                      |
| of three pods                                |                                                           |
| deletion of the only pod                     | none, or for less time than its successor needs to start  |
| SIGKILL of one of three replicas             | those sent to it until the Service has left its address   |

`test_outages` has what is not the server's own.
"""

from __future__ import annotations

import time

import pytest

from localcluster.cluster import LocalCluster
from tests.support.pods.faults import kill_containers
from tests.support.pods.servers import SECONDS, Servers, seconds_to_start
from tests.support.pods.traffic import flowing

pytestmark = pytest.mark.usefixtures("one_afterwards")


@pytest.fixture
def one(pods_cluster: LocalCluster) -> Servers:
    servers = Servers(pods_cluster)
    servers.scale(1)
    return servers


def test_a_rolling_restart_of_the_only_replica_fails_no_creation(
    pods_cluster: LocalCluster, one: Servers
) -> None:
    with flowing(pods_cluster, title="rolling restart, 1") as traffic:
        one.restart()
        traffic.wait_for_creations(5)
    traffic.assert_uninterrupted()


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
    traffic.assert_uninterrupted()


def test_the_deletion_of_the_leader_fails_no_creation(pods_cluster: LocalCluster, three: Servers) -> None:
    with flowing(pods_cluster, title="deletion of the leader, 3") as traffic:
        leader = three.leader()
        three.delete(leader)
        assert three.leader() != leader
        traffic.wait_for_rounds(1)
        three.wait(3)
    traffic.assert_uninterrupted()


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
    traffic.assert_uninterrupted()


def test_after_sigkill_creations_fail_only_until_the_service_knows(
    pods_cluster: LocalCluster, three: Servers
) -> None:
    """The leader dies, as when it has no memory left. Calls of the others are answered all the while."""
    with flowing(pods_cluster, title="SIGKILL of the leader, 3") as traffic:
        leader, since = three.pods()[three.leader()], three.endpoints_version()
        kill_containers(leader)
        three.wait_until_not_called(leader, since=since)
        known_at = time.monotonic()
        traffic.wait_for_rounds(1)
        three.wait(3)
    assert [each for each in traffic.failures if each.began > known_at] == []
    traffic.assert_no_pod_was_bound_after_a_stop()
