"""Counts that wait to be sent hold up nothing else: no condition of their queue, and none of another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from cluster.write_ranks import WriteRank
from controller.status.count_slots import BURST
from controller.status.status_writer import COUNTS
from controller.stops.edge_hold import AT_ONCE
from tests.controller.status.test_quota_enforcement import change
from tests.controller.status.test_quota_status import Server, running
from tests.controller.status.test_stops_in_windows import EDGES, LATER, EdgeBoundary, OneByOne
from tests.support.controller.controller_harness import ControllerHarness, Inline
from tests.support.http.wire_objects import queue


class BusyWithCounts(Inline):
    """Sends all but counts: these wait."""

    def work(self) -> None:
        while (first := self._waiting.first(now=0.0)) is not None and first.rank < WriteRank.COUNTS:
            self.send_one()


def leave_counts(harness: ControllerHarness, *, waiting: bool = True) -> Inline:
    """From now on counts wait, or do not any more."""
    statuses = harness._writers[4]
    statuses.__class__ = BusyWithCounts if waiting else Inline
    return statuses


def says(found: Any, condition: str = "Active") -> tuple[str, int]:
    """The condition's status, and how many pods run by the counts."""
    status = found["status"]
    conditions = {each["type"]: each["status"] for each in status["conditions"]}
    return conditions[condition], status["pods"]["running"]


def test_a_stop_does_not_wait_behind_the_counts_of_its_queue() -> None:
    """It takes them along. What is written of the queue stays in order."""
    server = Server(queue("lab"))
    statuses = leave_counts(server.harness)
    server.has(running("a", "lab"))
    server.step(seconds=0.1)
    assert (COUNTS, "lab") in statuses._waiting
    change(server, "lab", version=5_000, stopPolicy="Hold")
    for _ in range(10):
        server.step(seconds=0.1)
    assert says(server.boundary.queues["lab"]) == ("False", 1)
    leave_counts(server.harness, waiting=False)
    server.settle()
    assert says(server.boundary.queues["lab"]) == ("False", 1)


def test_counts_that_are_being_sent_are_waited_for() -> None:
    """What is written over the same object beside them would be refused, or lost."""
    server = Server(queue("lab"))
    statuses = leave_counts(server.harness)
    server.has(running("a", "lab"))
    server.step(seconds=0.1)
    sent = statuses._waiting.first(now=0.0)
    assert sent is not None
    assert sent.key == (COUNTS, "lab")
    statuses._waiting.begin(sent)
    change(server, "lab", version=5_000, stopPolicy="Hold")
    assert [server.step(seconds=0.1) for _ in range(10)] == [[]] * 10
    statuses._carry_out(sent)
    server.has(server.boundary.queues["lab"], event="MODIFIED")
    written = [name for _ in range(10) for name in server.step(seconds=0.1)]
    assert written.count("lab") >= 1
    assert says(server.boundary.queues["lab"]) == ("False", 1)


def test_counts_of_all_queues_are_written_in_turns_and_none_is_left_out() -> None:
    names = [f"q{number}" for number in range(3 * BURST)]
    server = Server(*map(queue, names))
    server.has(*(running(f"pod-{name}", name) for name in names))
    first = server.step(seconds=0.1)
    assert len(first) == BURST
    for _ in range(100):
        server.step(seconds=0.1)
    assert all(says(server.boundary.queues[name]) == ("True", 1) for name in names)


def test_the_stops_of_windows_do_not_wait_behind_counts() -> None:
    """However many of these wait."""
    others = [f"q{number}" for number in range(2 * AT_ONCE)]
    boundary = EdgeBoundary(
        queue("root", parent=""),
        *(queue(name, windows=[LATER]) for name in EDGES),
        *map(queue, others),
    )
    harness = ControllerHarness(boundary)
    harness._writers[0].__class__ = OneByOne

    def step() -> None:
        boundary.written.clear()
        boundary.edges.clear()
        harness.sync(rounds=1, seconds=0.1)
        changed = {*boundary.edges, *boundary.written}
        harness.receive_events(*(boundary.queues[name] for name in changed), event="MODIFIED")

    harness.receive_events(*boundary.queues.values())
    for _ in range(40):
        step()
    statuses = leave_counts(harness)
    harness.receive_events(*(running(f"pod-{name}", name) for name in others))
    step()
    assert len(statuses) > AT_ONCE
    harness.clock.at += timedelta(minutes=1)
    for _ in range(40):
        step()
    for name in EDGES:
        assert says(boundary.queues[name])[0] == "False"
