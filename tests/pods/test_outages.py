"""Members are created, and a queue is stopped and resumed, while what three replicas need is away or slow.

In each case not one pod is bound after a stop of its queue was acknowledged.

| what happens            | creations that fail                                                            |
|-------------------------|--------------------------------------------------------------------------------|
| a node is cut off       | those sent to its replica until the Service has left its address, each after   |
|                         | the webhook's time-out of 5 s; when it is back, those that its replica gets     |
|                         | before it is ready                                                              |
| kube-apiserver restarts | all while it is away; none once all replicas are ready                          |
| etcd is slow            | none                                                                            |
"""

from __future__ import annotations

import time

import pytest

from localcluster.cluster import LocalCluster
from tests.support.pods.faults import SlowEtcd, cut_off, restart_apiserver
from tests.support.pods.servers import Servers
from tests.support.pods.traffic import flowing

#: A webhook that does not answer fails a creation after this time.
WEBHOOK_SECONDS = 5.0
#: Of each write to etcd, there and back.
ETCD_SECONDS = 0.1


pytestmark = pytest.mark.usefixtures("one_afterwards")


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
    traffic.assert_uninterrupted()
