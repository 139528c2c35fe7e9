"""A sandbox on the cluster of a module whose mode is not the usual one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from localcluster.cluster import LocalCluster
from tests.support.e2e.sandbox import Sandbox


@pytest.fixture
def sandbox(configured_cluster: LocalCluster) -> Iterator[Sandbox]:
    made = Sandbox(configured_cluster)
    yield made
    made.leave()
    made.close()
