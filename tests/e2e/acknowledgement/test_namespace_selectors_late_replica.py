"""A replica that hears of a namespace's labels late keeps nobody waiting for longer than it is late."""

from __future__ import annotations

from tests.support.e2e.fleet import Fleet
from tests.support.e2e.shapes import on_a_node
from tests.support.e2e.stage import Stage
from tests.support.e2e.waiting_for import until

LABEL = "tests.sluice.dev-team"
LATE = "server-2"


def label(stage: Stage, value: str | None) -> None:
    stage.api.patch(stage.home, {"metadata": {"labels": {LABEL: value}}}).must()


def test_a_pod_that_a_late_replica_refused_once_more_is_retried(corner: Stage, fleet: Fleet) -> None:
    """The leader retries the pod at once; kube-scheduler asks the late replica, which refuses it in the same
    words. Nothing else in the cluster changes that would retry the pod."""
    label(corner, "yes")
    queue = corner.queue(namespaceSelector={"matchLabels": {LABEL: "yes"}})
    corner.pod("early", queue, gated=True).must(201)
    label(corner, None)
    until(lambda: corner.pod("new", queue, dry=True).status == 403, "the labels to be seen")
    corner.ungate(["early"])
    corner.reason_on("early", "is not for namespace")
    # From here on the late one alone is asked, and hears of everything late; the leader is another one.
    fleet.ways[LATE].delay = 1.5
    fleet.only(LATE)
    label(corner, "yes")
    try:
        until(lambda: on_a_node(corner.read_pod("early")), "the pod to be bound", seconds=30)
    finally:
        fleet.ways[LATE].delay = 0.0
