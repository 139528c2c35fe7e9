"""Where nothing is left to be done the controller rests: else its thread takes a core, and requests wait."""

from __future__ import annotations

from collections.abc import Callable

from queues.well_known import QUOTA_GATE
from tests.support.cases import each_case
from tests.support.controller.controller_harness import BookBoundary, ControllerHarness
from tests.support.http.wire_objects import Wire, member, queue

CPU = {"requests": {"cpu": "1"}}
#: Longer than any back-off and count of these cases.
SECONDS = 40.0


def waiting(name: str, of: str) -> Wire:
    return member(name, of, gates=[QUOTA_GATE], resources=CPU)


def running(name: str, of: str) -> Wire:
    return member(name, of, nodeName="node-1", resources=CPU)


def quota(server: ControllerHarness) -> None:
    server.receive_events(queue("lab", capability={"cpu": "1"}))
    server.receive_events(running("runs", "lab"), waiting("first", "lab"), waiting("second", "lab"))


def quota_that_went(server: ControllerHarness) -> None:
    server.receive_events(queue("lab", capability={"cpu": "1"}), running("runs", "lab"))
    server.sync()
    server.receive_events(queue("lab", version=60, generation=2), event="MODIFIED")


def pod_that_was_deleted_by_force(server: ControllerHarness) -> None:
    quota(server)
    server.sync()
    server.receive_events(running("runs", "lab"), event="DELETED")


def stopped(server: ControllerHarness) -> None:
    server.receive_events(queue("lab", state="Suspended", capability={"cpu": "1"}), waiting("first", "lab"))


def claimed_devices(server: ControllerHarness) -> None:
    server.receive_events(queue("lab", capability={"deviceclass/gpu": "1"}), waiting("first", "lab"))


@each_case(
    "case",
    [
        quota,
        quota_that_went,
        pod_that_was_deleted_by_force,
        stopped,
        claimed_devices,
    ],
)
def test_it_rests_until_something_is_due(case: Callable[[ControllerHarness], None]) -> None:
    server = ControllerHarness(BookBoundary())
    server.receive_events(queue("root", parent=""), queue("default"))
    case(server)
    server.sync(rounds=10)
    server.clock.seconds += SECONDS
    server.sync(rounds=10)
    due = 0
    for _ in range(20):
        due += server.controller.next_sync_at <= server.clock.monotonic()
        server.sync(rounds=1, seconds=0.01)
    assert due <= 2
