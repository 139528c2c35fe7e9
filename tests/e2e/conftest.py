"""What the acceptance tests share: a sandbox each, on the worker's cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from localcluster.layout import COMPONENTS
from tests.support.e2e.drain_replicas import Replicas
from tests.support.e2e.fleet import Fleet
from tests.support.e2e.policies import Policies
from tests.support.e2e.sandbox import Sandbox


@pytest.fixture(scope="module")
def queues_to_remove(cluster: LocalCluster) -> Iterator[list[str]]:
    """Queues of this module's tests that have ended. They are removed together at the end of the module.

    They stop nothing, and nothing is in them. A queue is Closed only when nothing can come any more: after a
    crash of the server that takes as long as a request may.
    """
    found = Sandbox(cluster)
    names: list[str] = []
    wishes = found.first_wishes()
    yield names
    with found.api:
        found.remove_queues(names)
        left = found.wishes()
        found.clear()
    assert left == wishes


@pytest.fixture
def sandbox(cluster: LocalCluster, queues_to_remove: list[str]) -> Iterator[Sandbox]:
    """A namespace and queues of the test's own, on the cluster that this worker's tests share.

    The empty namespace stays. Its queues are opened, and removed at the end of the module.
    """
    made = Sandbox(cluster)
    found = made.first_wishes()
    yield made
    queues_to_remove.extend(made.queue_names)
    with made.api:
        made.leave()
        left = made.wishes()
    assert {name: left[name] for name in left if name not in queues_to_remove} == {
        name: found[name] for name in found if name not in queues_to_remove
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
def own_sandbox(module_cluster: LocalCluster) -> Iterator[Sandbox]:
    """A namespace and queues of the test's own, on the module's own cluster; nothing of it is cleared."""
    made = Sandbox(module_cluster)
    yield made
    made.close()


@pytest.fixture
def own_restored_sandbox(served_cluster: LocalCluster) -> Iterator[Sandbox]:
    """The same with the server, for tests that may stop it; it is started again afterwards."""
    made = Sandbox(served_cluster)
    made.first_wishes()
    yield made
    made.close()
    if "server" not in served_cluster.pids:
        served_cluster.start_components("server")


@pytest.fixture
def restored_cluster(sandbox: Sandbox) -> Iterator[LocalCluster]:
    """The shared cluster, for tests that stop parts of it; afterwards the missing ones are started again."""
    yield sandbox.cluster
    missing = [name for name in COMPONENTS if name not in sandbox.cluster.pids]
    if missing:
        sandbox.cluster.start_components(*missing)


@pytest.fixture
def policies(sandbox: Sandbox) -> Iterator[Policies]:
    """The cluster's scheduling policies; there are none before and after."""
    made = Policies(sandbox)
    yield made
    made.remove()
