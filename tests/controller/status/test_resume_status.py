"""When the status of a queue that was resumed is written."""

from __future__ import annotations

from controller.status.queue_reconciler import FIRST_PODS_SECONDS
from tests.support.controller.controller_harness import ControllerHarness
from tests.support.http.wire_objects import member, queue

GATE = "sluice.dev/queue"
VISION = "/apis/scheduling.volcano.sh/v1beta1/queues/vision/status"


def resumed(*, gated: bool) -> ControllerHarness:
    """A queue was suspended and resumed; its one pod still has its gate, or is bound."""
    server = ControllerHarness()
    pod = member("work", "vision", gates=[GATE]) if gated else member("work", "vision", nodeName="node-1")
    server.receive_events(queue("root", parent=""), queue("vision", state="Suspended"), pod)
    server.sync()
    server.client.sent.clear()
    server.receive_events(queue("vision", generation=2, version=60), event="MODIFIED")
    return server


def test_the_status_of_a_resume_waits_until_the_first_pods_are_bound() -> None:
    server = resumed(gated=True)
    server.sync(rounds=3, seconds=FIRST_PODS_SECONDS / 4)
    assert server.bodies("/api/v1/namespaces/team/pods/work")
    assert not server.bodies(VISION)
    server.sync(rounds=4, seconds=FIRST_PODS_SECONDS)
    assert server.bodies(VISION)


def test_the_status_of_a_resume_that_removes_no_gate_is_written_at_once() -> None:
    server = resumed(gated=False)
    server.sync(rounds=3, seconds=0.0)
    assert server.bodies(VISION)
