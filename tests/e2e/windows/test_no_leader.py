"""No replica is there as a window begins, and none as it ends."""

from __future__ import annotations

from datetime import timedelta

import pytest

from localcluster.cluster import LocalCluster
from tests.e2e.windows.test_both_edges import HOUR, SECOND, ends_at, freeze, is_in, now
from tests.support.e2e.objects import is_active, is_stopped
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

pytestmark = [pytest.mark.cluster, pytest.mark.long]

#: Long enough for a server to be stopped meanwhile.
SOON = 8 * SECOND


def test_the_next_leader_begins_late_and_ends_late_and_in_between_all_stays_as_it_is(
    sandbox: Sandbox, restored_cluster: LocalCluster
) -> None:
    queue = sandbox.queue()
    window = freeze(now() + SOON, now() + HOUR)
    sandbox.patch_queue(queue, windows=[window]).must()
    assert is_in(sandbox.answered(queue))
    restored_cluster.stop_components("server")
    _pass(window["from"])
    assert is_in(sandbox.read_queue(queue))  # no clock begins a window
    restored_cluster.start_components("server")
    found = sandbox.queue_that(queue, "be in its window", is_stopped)
    assert is_in(found, "freeze")
    names = sandbox.pods("late", 2, queue)
    end = now() + SOON
    sandbox.patch_queue(queue, windowOverrides=[ends_at(window, end)]).must()
    restored_cluster.stop_components("server")
    until(lambda: now() > end + SECOND, "the end of the window")
    assert is_in(sandbox.read_queue(queue), "freeze")
    assert sandbox.waiting() == set(names)  # nor does one end it
    restored_cluster.start_components("server")
    sandbox.all_bound(names)
    assert is_in(sandbox.queue_that(queue, "be active", is_active))


def _pass(moment: str) -> None:
    until(lambda: f"{now() - timedelta(seconds=1):%Y-%m-%dT%H:%M:%SZ}" > moment, f"{moment} to pass")
