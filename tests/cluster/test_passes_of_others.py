"""What one replica let through and another refused holds up no stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet
from slow_webhook import SlowWebhook
from stage import Stage
from waiting_for import until

from localcluster.cluster import LocalCluster
from localcluster.components import REQUEST_SECONDS


@pytest.fixture
def corner(module_cluster: LocalCluster, fleet: Fleet) -> Iterator[Stage]:
    made = Stage(module_cluster)
    yield made
    made.close()


def test_a_bind_that_failed_elsewhere_is_not_waited_for(corner: Stage, fleet: Fleet, tmp_path: Path) -> None:
    """The first replica let the bind through, a webhook behind refuses it, the scheduler tries again with the
    second: the first asks for another try, and does not wait for as long as a request may take."""
    fleet.only("server-1")
    queue = corner.queue()
    with SlowWebhook(corner, tmp_path, seconds=60.0, allows=False) as slow:
        corner.pod("member-0", queue).must(201)
        until(lambda: slow.asked, "the bind to be under way", share=0)
        fleet.only("server-2")
        until(lambda: corner.patch_queue(queue, state="Suspended").status == 200, "the stop to be asked for")
        slow.let_go()
        refused_at = time.monotonic()
        corner.answered(queue)
    assert time.monotonic() - refused_at < REQUEST_SECONDS * 0.75
    assert corner.bound(["member-0"]) == set()
