"""Mode `gate` on real nodes: `manifests/ways/gate` over mode `extender`, and back.

One story, as in `test_scheduler_mode`: members are created all the while, and a queue is stopped and resumed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from localcluster import manifests
from localcluster.cluster import LocalCluster
from localcluster.pods import installation
from queues.mode import Mode
from tests.support.pods import installations
from tests.support.pods.servers import Servers
from tests.support.pods.traffic import flowing
from tests.support.pods.work import Work

REPLICAS = 2


@pytest.fixture
def servers(pods_cluster: LocalCluster) -> Servers:
    return Servers(pods_cluster)


def test_from_mode_extender_to_mode_gate(
    pods_cluster: LocalCluster, servers: Servers, tmp_path: Path
) -> None:
    folder = installations.kustomization(tmp_path / "own", Mode.GATE, replicas=REPLICAS)
    with flowing(pods_cluster, title="from mode extender to gate, 1 to 2") as traffic:
        servers.apply(folder, REPLICAS)
        servers.wait_for_only(REPLICAS)
        traffic.wait_for_rounds(1)
    traffic.assert_uninterrupted()


def test_a_queue_is_stopped_resumed_and_drained(pods_cluster: LocalCluster) -> None:
    """By gates alone: nothing of ours is in the scheduling path."""
    work = Work(pods_cluster)
    work.is_stopped_resumed_and_drained(Mode.GATE)
    work.remove()


def test_a_rolling_restart_fails_no_creation(pods_cluster: LocalCluster, servers: Servers) -> None:
    with flowing(pods_cluster, title="rolling restart in mode gate, 2") as traffic:
        servers.restart()
        traffic.wait_for_rounds(1)
    traffic.assert_uninterrupted()


def test_from_mode_gate_to_mode_extender(pods_cluster: LocalCluster, servers: Servers) -> None:
    """The entry in the scheduler's configuration first, and then the mode."""
    with flowing(pods_cluster, title="from mode gate to extender, 2 to 1") as traffic:
        installation.connect_scheduler(pods_cluster.layout, pods_cluster.ports, say=print)
        servers.apply(manifests.folder(Mode.EXTENDER), 1)
        servers.wait_for_only(1)
        traffic.wait_for_rounds(1)
    traffic.assert_uninterrupted()
