"""A replica whose watch of namespaces is late delays no pod for longer than that."""

from __future__ import annotations

import pytest

from tests.support.e2e.fleet import Fleet
from tests.support.e2e.objects import on_a_node
from tests.support.e2e.sandbox import Sandbox
from tests.support.e2e.wait import until

pytestmark = pytest.mark.long

LABEL = "tests.sluice.dev-team"
LATE = "server-2"


def label(sandbox: Sandbox, value: str | None) -> None:
    sandbox.api.patch(sandbox.home, {"metadata": {"labels": {LABEL: value}}}).must()


def test_a_pod_that_a_late_replica_refused_once_more_is_retried(own_sandbox: Sandbox, fleet: Fleet) -> None:
    """The leader retries the pod at once; kube-scheduler asks the late replica, which refuses it in the same
    words. Nothing else in the cluster changes that would retry the pod before five minutes."""
    label(own_sandbox, "yes")
    queue = own_sandbox.queue(namespaceSelector={"matchLabels": {LABEL: "yes"}})
    own_sandbox.pod("early", queue, gated=True).must(201)
    label(own_sandbox, None)
    for name in fleet.ways:  # kube-scheduler may ask any of them
        fleet.only(name)
        until(lambda: own_sandbox.pod("new", queue, dry=True).status == 403, "the labels to be seen")
    fleet.share()
    own_sandbox.ungate(["early"])
    own_sandbox.reason_on("early", "is not for namespace")
    # From here on the late one alone is asked, and hears of everything late; the leader is another one.
    # Not later than this: a new connection is made of several such delays, and has a few seconds.
    fleet.ways[LATE].delay = 0.7
    fleet.only(LATE)
    label(own_sandbox, "yes")
    try:
        until(lambda: on_a_node(own_sandbox.read_pod("early")), "the pod to be bound")
    finally:
        fleet.ways[LATE].delay = 0.0
