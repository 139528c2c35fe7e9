"""What the acceptance tests share: a stage each, on the worker's cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.layout import COMPONENTS
from tests.support.e2e.drain_replicas import Replicas
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.stage import Stage


@pytest.fixture(scope="module")
def leaving(cluster: LocalCluster) -> Iterator[list[str]]:
    """Queues of tests of this module that have ended; gone when it ends, so that nobody waits for each.

    They were asked to close, and nothing is in them. A queue is Closed only when nothing can come any
    more: after a crash of the server that takes as long as a request may.
    """
    found = Stage(cluster)
    names: list[str] = []
    wishes = found.first_wishes()
    yield names
    found.remove_queues(names)
    left = found.wishes()
    found.clear()
    found.close()
    assert left == wishes


@pytest.fixture
def stage(cluster: LocalCluster, leaving: list[str]) -> Iterator[Stage]:
    """A namespace and queues of the test's own; of them an empty namespace stays, and what is `leaving`."""
    made = Stage(cluster)
    found = made.first_wishes()
    yield made
    leaving.extend(made.queue_names)
    made.leave()
    left = made.wishes()
    made.close()
    assert {name: left[name] for name in left if name not in leaving} == {
        name: found[name] for name in found if name not in leaving
    }


@pytest.fixture(scope="module")
def fleet(module_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three replicas behind one address."""
    made = Fleet(module_cluster, tmp_path_factory.mktemp("fleet"))
    try:
        for name in ("server-1", "server-2", "server-3"):
            made.join(name)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def pair(module_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two replicas whose ways to the API server can be spoilt; the first leads."""
    made = Fleet(module_cluster, tmp_path_factory.mktemp("pair"))
    try:
        for name in ("server-1", "server-2"):
            made.join(name, intercepted=True)
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def replicas(module_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Three whose requests can be spoilt and counted."""
    fleet = Fleet(module_cluster, tmp_path_factory.mktemp("fleet"))
    try:
        yield Replicas(fleet)
    finally:
        fleet.close()


@pytest.fixture
def corner(module_cluster: LocalCluster) -> Iterator[Stage]:
    """Nothing of it is cleared: the cluster is of this module alone."""
    made = Stage(module_cluster)
    yield made
    made.close()


@pytest.fixture
def outage(stage: Stage) -> Iterator[LocalCluster]:
    """The cluster, for tests that stop parts of it; all of them run again afterwards."""
    yield stage.cluster
    missing = [name for name in COMPONENTS if name not in stage.cluster.pids]
    if missing:
        stage.cluster.start_components(*missing)
