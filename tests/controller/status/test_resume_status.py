"""When the status of a queue that was resumed is written."""

from __future__ import annotations

from cluster.cache.changes import QueueChange
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


def test_pods_of_queues_below_are_ungated_before_their_queues_are_known_to_have_changed() -> None:
    """So that pods of all of them go in one order. The queues above and below change one after the other."""
    server = ControllerHarness()
    children = {"a": queue("a", parent="vision"), "b": queue("b", parent="vision")}
    pods = [member(f"work-{name}", name, gates=[GATE]) for name in children]
    stopped = queue("vision", state="Suspended")
    server.receive_events(queue("root", parent=""), stopped, *children.values(), *pods)
    server.sync()
    server.client.sent.clear()
    server.receive_events(queue("vision", generation=2, version=60), event="MODIFIED")
    server.controller._work_queue.get([0.0], at_once=True)
    server.controller._sync({"a": {QueueChange.SPEC}})
    server.sync(rounds=1)
    for pod in pods:
        assert server.bodies(f"/api/v1/namespaces/team/pods/{pod['metadata']['name']}")


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
