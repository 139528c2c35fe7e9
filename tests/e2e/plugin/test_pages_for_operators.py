"""*Queues in Git*, as its reader follows it on a new cluster."""

from __future__ import annotations

from pathlib import Path

from localcluster.cluster import LocalCluster
from tests.support.docs.pages import text_of
from tests.support.e2e.page_reader import follow

#: It prints what it says where no queue of its names is there.
KEEPS_CLUSTER = True


def test_queues_in_git_prints_what_it_says(served_cluster: LocalCluster, tmp_path: Path) -> None:
    assert follow(text_of("operating/gitops.md"), served_cluster, tmp_path) == 12
