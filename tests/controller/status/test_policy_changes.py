"""Which queues a change of the scheduling policies has reconciled, and how many at once."""

from __future__ import annotations

import math
from typing import Any

from cluster.metrics import Metrics
from cluster.object_reference import ObjectReference
from controller.status.policy_changes import ROUND_SECONDS, WRITES_LIMIT, PolicyChanges
from controller.status.queue_records import QueueRecords
from controller.workqueue import WorkQueue
from tests.support.controller.contexts import context_with
from tests.support.controller.controller_harness import ControllerHarness
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, policies, queue

GOOD = "actions: allocate\ntiers: [{}]"
BAD = "actions: x"


class Stage:
    """A store, and what has to be reconciled after its policies change."""

    def __init__(self, *queues: Wire) -> None:
        self.server = Server().has(*queues)
        self.clock, self.store = self.server.clock, self.server.store
        self.work_queue = WorkQueue(self.clock.monotonic)
        self.records = QueueRecords(self.work_queue)
        self.events: list[tuple[str, str, str]] = []
        context = context_with(store=self.store, metrics=Metrics(), work_queue=self.work_queue, recorder=self)
        self.changes = PolicyChanges(context, records=self.records)

    def record(self, subject: ObjectReference, *, reason: str, message: str, **_: Any) -> None:
        """An event."""
        self.events.append((subject.name, reason, message))

    def take(self) -> list[str]:
        return sorted(self.changes.step())

    def being_written(self, *names: str, under_way: bool = True) -> None:
        for name in names:
            self.records.record_of(self.store.queues[name]).write_under_way = under_way

    def offer(self, name: str) -> bool:
        """Whether its write is sent."""
        may = self.changes.may_write(name)
        self.being_written(name, under_way=may)
        return may


def resolved(name: str, message: str, **spec: str) -> Wire:
    condition = {"type": "PolicyResolved", "status": "True", "reason": "Own", "message": message}
    return {**queue(name, status={"conditions": [condition]}), "spec": {"parent": "root", **spec}}


def test_without_policies_nothing_is_reconciled() -> None:
    stage = Stage(queue("a"), queue("b"))
    assert (stage.take(), stage.changes.due) == ([], math.inf)


def test_a_change_concerns_the_queues_whose_condition_changes() -> None:
    counts = 'policy "packed" counts, which the queue names'
    stage = Stage(
        queue("plain"),
        queue("new", schedulerPolicy="packed"),
        resolved("done", counts, schedulerPolicy="packed"),
        resolved("left", counts),
    )
    stage.server.has(policies(packed=GOOD))
    assert stage.changes.due <= stage.clock.seconds
    assert stage.take() == ["left", "new"]
    assert (stage.take(), stage.changes.due) == ([], math.inf)


def test_the_global_policy_concerns_every_queue() -> None:
    stage = Stage(queue("a"), queue("b"))
    stage.server.has(policies(common=GOOD))
    assert stage.take() == ["a", "b"]


def test_a_change_wakes_the_controller() -> None:
    stage = Stage(queue("a"))
    stage.server.has(policies(common=GOOD))
    assert stage.work_queue.get([math.inf]) == {}  # it returns at once


def test_of_many_queues_a_bounded_number_is_written_at_once() -> None:
    names = [f"q{number}" for number in range(WRITES_LIMIT * 2 + 1)]
    stage = Stage(*map(queue, names))
    stage.server.has(policies(common=GOOD))
    first = stage.take()
    assert len(first) == WRITES_LIMIT
    stage.being_written(*first)
    assert (stage.take(), stage.changes.due) == ([], math.inf)
    stage.being_written(first[0], under_way=False)
    assert stage.changes.due == -math.inf
    second = stage.take()
    assert len(second) == 1
    stage.being_written(*first, under_way=False)
    third = stage.take()
    assert len({*first, *second, *third}) == len(names)
    assert stage.changes.due == math.inf


def test_writes_of_a_resync_are_bounded_likewise_and_none_is_lost() -> None:
    """Each queue is offered at once; those for which there is no room come back from `take`."""
    names = [f"q{number}" for number in range(WRITES_LIMIT + 2)]
    stage = Stage(*map(queue, names))
    may = [name for name in names if stage.offer(name)]
    assert may == names[:WRITES_LIMIT]
    assert stage.changes.may_write(may[0])  # it has a place already
    assert (stage.take(), stage.changes.due) == ([], math.inf)
    stage.being_written(*may, under_way=False)
    assert stage.take() == names[WRITES_LIMIT:]
    assert all(map(stage.changes.may_write, names[WRITES_LIMIT:]))


def test_a_burst_of_changes_is_one_round() -> None:
    stage = Stage(queue("a"))
    stage.server.has(policies(common=GOOD))
    assert stage.take() == ["a"]
    for text in (BAD, GOOD + " ", BAD + " "):
        stage.server.has(policies(common=text))
    assert (stage.take(), stage.changes.due) == ([], stage.clock.seconds + ROUND_SECONDS)
    stage.clock.seconds += ROUND_SECONDS
    assert stage.take() == ["a"]


def test_the_condition_is_written_once_and_says_what_is_wrong() -> None:
    """By the whole controller. The API server takes nothing here, so what is written is what was sent."""
    harness = ControllerHarness()
    harness.receive_events(queue("a", schedulerPolicy="packed"))
    harness.sync()
    [*_, written] = harness.bodies("/apis/scheduling.volcano.sh/v1beta1/queues/a/status")
    found = [each for each in written["status"]["conditions"] if each["type"] == "PolicyResolved"]
    assert [(each["status"], each["reason"]) for each in found] == [("False", "NotFound")]
    harness.receive_events(policies(packed=BAD))
    harness.sync(rounds=1)
    harness.sync()
    [*_, written] = harness.bodies("/apis/scheduling.volcano.sh/v1beta1/queues/a/status")
    [condition] = [each for each in written["status"]["conditions"] if each["type"] == "PolicyResolved"]
    assert (condition["status"], condition["reason"]) == ("False", "Invalid")
    assert 'policy "packed", line 1: there is no action "x"' in condition["message"]


def test_what_is_wrong_with_policies_and_what_does_nothing_is_an_event_of_the_config_map_once() -> None:
    stage = Stage(queue("a"))
    idle = "actions: allocate\ntiers: [{plugins: [{name: sla}, {name: acme}]}]"
    for texts in ({"common": BAD, "packed": idle}, {"common": GOOD, "packed": idle + " "}, {"packed": idle}):
        stage.server.has(policies(**texts))
        stage.take()
        stage.clock.seconds += ROUND_SECONDS
    name = "volcano-scheduler-configmap"
    assert stage.events == [
        (name, "PolicyProblem", stage.events[0][2]),
        (name, "PolicyPartsIgnored", 'policy "packed": plugin acme is not known here and passed over'),
        (name, "PolicyPartsIgnored", 'policy "packed": plugin sla does nothing here'),
    ]

    assert stage.events[0][2].startswith('policy "volcano-scheduler.conf" cannot be read (line 1: there is')
    stage.server.has(policies(**{"default-scheduler.conf": GOOD}))
    stage.take()
    assert stage.events[-1][1:] == (
        "PolicyProblem",
        'no policy counts for queues that name none: that is the one under key "volcano-scheduler.conf", and '
        'there is none; the one under "default-scheduler.conf" counts only for queues that name it',
    )
