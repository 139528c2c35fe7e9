"""When the status of a queue is written whose stop is pending."""

from __future__ import annotations

import pytest

from controller.status.queue_reconciler import YOUNG_SECONDS
from tests.support.controller.controller_harness import ControllerHarness
from tests.support.http.wire_objects import Wire, member, namespace, queue

ABOVE = "/apis/scheduling.volcano.sh/v1beta1/queues/above/status"
STEP = 0.005


def below(version: int) -> Wire:
    made = queue("below", parent="above", version=version, generation=version)
    made["spec"]["weight"] = version
    return made


@pytest.mark.parametrize("edited_every", [1, 10, 30], ids=["each 5 ms", "each 50 ms", "each 150 ms"])
def test_edits_of_a_queue_below_do_not_hide_what_a_stop_waits_for(edited_every: int) -> None:
    """A member that requests no marker keeps the stop waiting for two seconds."""
    server = ControllerHarness()
    server.receive_events(namespace("team"), queue("root", parent=""), queue("above"), below(4))
    server.receive_events(member("work", "below"))
    server.sync(rounds=10)
    server.client.sent.clear()
    server.receive_events(queue("above", state="Suspended", generation=2, version=100), event="MODIFIED")
    for number in range(1, round(2 * YOUNG_SECONDS / STEP)):
        if number % edited_every == 0:
            server.receive_events(below(100 + number), event="MODIFIED")
        server.sync(rounds=1, seconds=STEP)
    assert server.bodies(ABOVE)
