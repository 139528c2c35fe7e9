"""What the acceptance tests share: a stage each, on the worker's cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fleet import Fleet
from stage import Stage
from waiting_for import until

from localcluster.cluster import LocalCluster
from localcluster.layout import COMPONENTS
from queues.queue import BUILT_IN


@pytest.fixture
def stage(cluster: LocalCluster) -> Iterator[Stage]:
    """A namespace and queues of this test alone; nothing of them is left."""
    made = Stage(cluster)
    found = until(
        lambda: (wishes := made.wishes()) and wishes.keys() >= BUILT_IN and wishes, "the first queues"
    )
    yield made
    made.clear()
    left = made.wishes()
    made.close()
    assert left == found


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


@pytest.fixture
def outage(stage: Stage) -> Iterator[LocalCluster]:
    """The cluster, for tests that stop parts of it; all of them run again afterwards."""
    yield stage.cluster
    missing = [name for name in COMPONENTS if name not in stage.cluster.pids]
    if missing:
        stage.cluster.start_components(*missing)
