"""One cluster with two real nodes for all tests here, with the server installed from `manifests`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcluster.cluster import LocalCluster
from localcluster.exceptions import BuildFailed, StartFailed
from localcluster.layout import Layout
from localcluster.pods import lifecycle
from localcluster.pods.lifecycle import PodClusterOptions
from tests.support.pods.servers import Servers
from tests.support.skipping import skip_unless_ci

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.pods)


@pytest.fixture(scope="session")
def pods_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Leave the server as you found it. The API server is reached from outside the sandbox."""
    layout = Layout.at(tmp_path_factory.mktemp("pods"))
    try:
        lifecycle.build_all(layout, say=print)
    except (StartFailed, BuildFailed) as exc:
        skip_unless_ci(f"NO REAL NODES, so this is not tested: {exc}")
    lifecycle.up(layout, PodClusterOptions(), say=print)
    yield LocalCluster(layout)
    lifecycle.down(layout, say=print)


@pytest.fixture
def three(pods_cluster: LocalCluster) -> Servers:
    """Three replicas, ready."""
    servers = Servers(pods_cluster)
    servers.scale(3)
    return servers


@pytest.fixture(scope="module")
def one_afterwards(pods_cluster: LocalCluster) -> Iterator[None]:
    """After the module one replica, as in the manifests; the others end by themselves."""
    yield
    Servers(pods_cluster).ask_for(1)
