"""One event makes kube-scheduler retry the pods that filter refused; those that it leaves are changed."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cluster.api.client import Client
from cluster.cache.changes import QueueChange
from cluster.waiting_writes import WriteKey
from cluster.write_queue import WriteQueue
from controller.pods.refused_pods import FEW, LONGEST_SECONDS, STALL_SECONDS
from controller.pods.retry_event import NO_NODE, RetryEvents
from controller.pods.ungating import Ungating
from controller.workqueue import WorkQueue
from tests.support.controller.contexts import context_with
from tests.support.controller.controller_harness import ControllerHarness, GrantingBoundary
from tests.support.http.asking import Server
from tests.support.http.wire_objects import Wire, member, queue

REFUSED = (
    '0/3 nodes are available: 3 queue "vision" is Suspended; resume it with: kubectl queue resume vision.'
)
NO_ROOM = "0/3 nodes are available: 3 Insufficient cpu."
MANY = FEW + 3


class Writes:
    """A write queue that sends a write when the test says so, and none whose key backs off."""

    def __init__(self) -> None:
        self.waiting: list[tuple[WriteKey, Any, Any]] = []
        self.sent: list[WriteKey] = []
        self.backs_off = False

    def submit(self, key: WriteKey, write: Any, *, done: Any = None, **_: Any) -> bool:
        if self.backs_off or any(key == each for each, _, _ in self.waiting):
            return False
        self.waiting.append((key, write, done))
        return True

    def wait(self, _: WriteKey) -> float:
        return 0.0

    def send_all(self, *, fail: bool = False) -> None:
        while self.waiting:
            key, write, done = self.waiting.pop(0)
            self.sent.append(key)
            if not fail:
                write()
            if done is not None:
                done(not fail)


class Setup:
    """An open queue `vision` whose pods filter has refused while it was suspended."""

    def __init__(self, count: int) -> None:
        self.server = Server().has(queue("root", parent=""), queue("vision"))
        self.writes = Writes()
        self.requests: list[tuple[str, str]] = []
        self.created: list[Wire] = []
        client = SimpleNamespace(
            patch=lambda path, _body, **_: self.requests.append(("patch", path.rpartition("/")[2])),
            create=self.create,
            delete=lambda path, _body: self.requests.append(("delete", path.rpartition("/")[0])),
        )
        self.context = context_with(
            store=self.server.store,
            client=cast(Client, client),
            writers=cast(WriteQueue, self.writes),
            work_queue=WorkQueue(self.server.clock.monotonic),
            namespace="sluice-system",
        )
        self.events = RetryEvents(self.context)
        self.ungating = Ungating(self.context, events=self.events)
        self.names = [f"p-{number}" for number in range(count)]
        for name in self.names:
            self.refuse(name)

    def create(self, path: str, body: Wire) -> None:
        self.requests.append(("create", path))
        self.created.append(body)

    def refuse(self, name: str, *, version: int = 1, text: str = REFUSED) -> None:
        self.server.has(member(name, "vision", version=version, status=waits(text)))

    def sync(self, *names: str, fail: bool = False) -> list[tuple[str, str]]:
        """The requests that a sync of these members, or of all, sends."""
        self.requests.clear()
        members = self.server.store.members.waiting_in("vision")
        chosen = [each for each in members if not names or each.name in names]
        self.ungating.ungate("vision", chosen, may_retry=lambda: True)
        self.writes.send_all(fail=fail)
        self.context.work_queue.get([0.0])  # passes the results on
        return list(self.requests)

    def patches(self, *names: str) -> list[tuple[str, str]]:
        return [("patch", name) for name in names or self.names]

    def later(self, seconds: float = STALL_SECONDS) -> None:
        self.server.clock.seconds += seconds


PODS, TEAM = "/api/v1/namespaces/sluice-system/pods", "/api/v1/namespaces/team/pods"
EVENT = [("create", PODS), ("delete", PODS)]


def waits(text: str) -> Wire:
    """The status of a pod for which kube-scheduler found no node."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text}
    return {"phase": "Pending", "conditions": [condition]}


def test_one_event_is_for_all_pods_that_filter_refused() -> None:
    setup = Setup(MANY)
    assert setup.sync() == EVENT
    assert setup.created[0]["spec"]["nodeName"] == NO_NODE
    assert setup.sync() == setup.sync("p-0") == []


def test_a_few_pods_are_changed_themselves() -> None:
    setup = Setup(FEW)
    assert setup.sync() == setup.patches()


def test_pods_are_changed_if_kube_scheduler_tries_none_of_them() -> None:
    setup = Setup(MANY)
    setup.sync()
    setup.later()
    assert setup.sync() == setup.patches()


def test_pods_are_left_to_kube_scheduler_while_it_tries_them() -> None:
    """It may bind them, or find no room for them: then their condition says something else."""
    setup = Setup(MANY)
    setup.sync()
    for number, text in ((0, NO_ROOM), (1, NO_ROOM)):
        setup.refuse(f"p-{number}", version=2, text=text)
        setup.later()
        assert setup.sync() == []
    setup.later()
    assert setup.sync() == setup.patches(*setup.names[2:])


def test_pods_are_changed_in_the_end_however_slowly_they_are_tried() -> None:
    setup = Setup(MANY)
    setup.sync()
    setup.refuse("p-0", version=2, text=NO_ROOM)
    setup.later(LONGEST_SECONDS)
    assert setup.sync() == setup.patches(*setup.names[1:])


def test_a_look_at_the_members_that_is_due_sooner_does_not_replace_the_one_at_the_pods() -> None:
    """Of two looks that are due the sooner counts: it may be one for pods whose preemption was denied."""
    setup, members = Setup(MANY), {"vision": {QueueChange.MEMBERS}}
    setup.sync()
    setup.context.work_queue.add_after("vision", QueueChange.MEMBERS, seconds=STALL_SECONDS / 2)
    setup.later(STALL_SECONDS / 2)
    assert (setup.context.work_queue.get([0.0]), setup.sync()) == (members, [])
    setup.later(STALL_SECONDS / 2)
    assert (setup.context.work_queue.get([0.0]), setup.sync()) == (members, setup.patches())


def test_pods_are_changed_if_the_event_cannot_be_made() -> None:
    setup = Setup(MANY)
    setup.sync(fail=True)
    assert setup.sync() == setup.patches()


def test_pods_are_changed_while_the_event_backs_off() -> None:
    setup = Setup(MANY)
    setup.writes.backs_off = True
    setup.sync()
    setup.writes.backs_off = False
    assert setup.sync() == setup.patches()


def test_a_pod_that_is_refused_after_the_event_is_changed() -> None:
    setup = Setup(MANY)
    setup.sync()
    setup.refuse("late")
    assert setup.sync("late") == setup.patches("late")


def test_each_resume_has_its_event() -> None:
    setup = Setup(MANY)
    setup.sync()
    setup.server.has(queue("vision", version=2, generation=2, state="Suspended"))
    assert setup.sync() == []
    setup.server.has(queue("vision", version=3, generation=3))
    assert setup.sync() == EVENT


def test_nothing_is_left_of_a_queue_without_members() -> None:
    setup = Setup(MANY)
    setup.sync()
    for name in setup.names:
        setup.server.lacks(member(name, "vision", version=9))
    setup.ungating.forget_absent_queues()
    assert setup.ungating._refused_pods._waves == {}


@pytest.mark.parametrize("fail", [False, True], ids=["made", "failed"])
def test_one_event_serves_all_who_asked_while_another_was_under_way(fail: bool) -> None:
    """That one may have begun too early for them."""
    setup, served = Setup(0), list[tuple[int, bool]]()
    for number in range(4):
        setup.events.trigger(partial(lambda number, ok: served.append((number, ok)), number))
    for expected in ([0], [0, 1, 2, 3]):
        setup.writes.send_all(fail=fail)
        setup.context.work_queue.get([0.0])
        assert served == [(number, not fail) for number in expected]
    assert len(setup.writes.sent) == 2


@pytest.mark.parametrize("seconds", [0.005, 0.02, 0.7])
def test_pods_that_kube_scheduler_leaves_are_changed_however_often_the_status_is_looked_at(
    seconds: float,
) -> None:
    """The status of a resumed queue is due again within milliseconds: long before the look at its pods."""
    server = ControllerHarness(GrantingBoundary())
    pods = [member(f"p-{number}", "vision", status=waits(REFUSED)) for number in range(MANY)]
    server.receive_events(queue("root", parent=""), queue("vision", state="Suspended"), *pods)
    server.sync()
    server.receive_events(queue("vision", generation=2, version=60), event="MODIFIED")
    server.sync(rounds=round(STALL_SECONDS / seconds), seconds=seconds)
    assert server.bodies(PODS, "POST"), "one event for all"
    assert not any(server.bodies(f"{TEAM}/p-{number}") for number in range(MANY))
    server.sync(rounds=3, seconds=seconds)
    assert all(server.bodies(f"{TEAM}/p-{number}") for number in range(MANY))
