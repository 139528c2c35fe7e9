"""A step, a queue or an object that raises blocks no other; nor does a write that is refused."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NoReturn

import pytest

from cluster.exceptions import ClusterError, Overloaded, Refused
from controller.pods.pod_conditions import PodConditions
from controller.status.podgroup_status import PodGroupStatuses
from controller.status.queue_reconciler import QueueReconciler
from tests.controller.test_hostile_objects import (
    add_honest_objects,
    assert_honest_work_is_done,
    started_harness,
)
from tests.support.controller.controller_harness import ControllerHarness, Sent
from tests.support.http.wire_objects import (
    GROUP,
    member,
    pod,
    podgroup,
    queue,
)

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
PODS = "/api/v1/namespaces/team/pods"


@pytest.fixture
def harness() -> ControllerHarness:
    return started_harness()


def raises(*_: object, **__: object) -> NoReturn:
    raise ValueError("a mistake of ours")


PARTS = [part.name for part in ControllerHarness().controller.parts]
#: Those that the honest work itself takes.
AT_WORK = {"member_labels", "guard", "ungate", "status", "commands", "queue_members"}


@pytest.mark.parametrize("method", ["step", "resync"])
@pytest.mark.parametrize("name", PARTS)
def test_a_part_that_raises_blocks_no_other(
    harness: ControllerHarness, name: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    [part] = [part for part in harness.controller.parts if part.name == name]
    monkeypatch.setattr(part, method, raises)
    harness.controller._resync_at = 0.0
    add_honest_objects(harness)
    harness.sync()
    if method == "resync" or name not in AT_WORK:
        assert_honest_work_is_done(harness)
    failed = {step: times for step, times in harness.failed().items() if times}
    assert failed.keys() == {name if method == "step" else f"resync of {name}"}


def test_a_queue_that_raises_is_named_and_all_others_are_written(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconcile = QueueReconciler.reconcile

    def picky(self: QueueReconciler, name: str, **more: Any) -> float | None:
        return raises() if name == "evil" else reconcile(self, name, **more)

    monkeypatch.setattr(QueueReconciler, "reconcile", picky)
    add_honest_objects(harness)
    harness.sync()
    assert_honest_work_is_done(harness)
    assert 1 <= harness.failed()["status"] <= 4
    [event] = harness.events("StepFailed")
    assert (event["involvedObject"]["name"], event["type"]) == ("evil", "Warning")
    assert "status failed and is tried again: a mistake of ours" in event["message"]


def test_a_pod_that_raises_blocks_no_other_of_its_queue(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = PodConditions._write

    def picky(self: PodConditions, one: Any, cause: Any, **more: Any) -> None:
        raises() if one.name == "evil" else say(self, one, cause, **more)

    monkeypatch.setattr(PodConditions, "_write", picky)
    harness.receive_events(queue("victim", generation=2, state="Suspended"))
    names = ("a", "evil", "z")
    harness.receive_events(*(member(name, "victim", gates=["sluice.dev/queue"]) for name in names))
    harness.sync()
    assert [bool(harness.bodies(f"{PODS}/{name}/status")) for name in names] == [True, False, True]
    assert {event["involvedObject"]["name"] for event in harness.events("StepFailed")} == {"evil"}


def test_a_podgroup_that_raises_blocks_no_other(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = PodGroupStatuses._submit

    def picky(self: PodGroupStatuses, key: Any, group: Any, difference: Any) -> None:
        raises() if key.name == "evil" else submit(self, key, group, difference)

    monkeypatch.setattr(PodGroupStatuses, "_submit", picky)
    harness.receive_events(queue("a"), podgroup("evil", queue="a"), podgroup("z", queue="a"))
    harness.sync()
    assert harness.bodies("/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/z")


def test_a_queue_that_raises_is_tried_again_with_a_growing_back_off(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []

    def picky(_: QueueReconciler, name: str, **__: Any) -> None:
        if name == "a":
            tries.append(harness.clock.seconds)
            raises()

    monkeypatch.setattr(QueueReconciler, "reconcile", picky)
    harness.receive_events(queue("a"))
    for number in range(200):  # and something of it changes all the time
        harness.receive_events(member(f"m-{number}", "a"))
        harness.sync(rounds=1, seconds=0.1)
    waits = [after - before for before, after in pairwise(tries)]
    assert waits == pytest.approx([1.0, 2.0, 4.0, 8.0], abs=0.11)


# Writes that are refused


REFUSALS = [
    Refused(413, "RequestEntityTooLarge", "limit is 3145728"),
    Refused(422, "Invalid", "status.allocated: Too long"),
    Refused(400, "BadRequest", "no"),
    Overloaded(500, "InternalError", "etcdserver: request is too large", retry_after=1.0),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda one: str(one.status))
def test_counts_that_are_refused_delay_no_acknowledgement(
    harness: ControllerHarness, refusal: Refused
) -> None:
    """A later stop is written alone; the refused counts are named in an event, and back off."""

    def refuse(sent: Sent) -> ClusterError | None:
        return refusal if "allocated" in (sent.body or {}).get("status", {}) else None

    harness.client.refusal = refuse
    harness.receive_events(queue("a"))
    harness.sync()
    harness.receive_events(queue("a", version=2, generation=2, state="Suspended"))
    harness.sync(rounds=20, seconds=0.1)
    bodies = [body["status"] for body in harness.bodies(f"{QUEUES}/a/status")]
    apart = [body for body in bodies if "allocated" not in body]
    assert {one["type"]: one["status"] for one in apart[-1]["conditions"]}["Active"] == "False"
    assert apart[-1]["observedGeneration"] == 2
    assert len(bodies) - len(apart) <= 4
    events = {event["involvedObject"]["name"]: event["message"] for event in harness.events("WriteRefused")}
    assert refusal.message in events["a"]


def test_a_pod_whose_gate_cannot_be_removed_blocks_no_other(harness: ControllerHarness) -> None:
    def refuse(sent: Sent) -> Refused | None:
        return Refused(422, "Invalid", "nobody changes it") if sent.path == f"{PODS}/evil" else None

    harness.client.refusal = refuse
    harness.receive_events(
        queue("a"), *(member(name, "a", gates=["sluice.dev/queue"]) for name in ("a", "evil", "z"))
    )
    harness.sync(rounds=40, seconds=0.2)
    assert harness.bodies(f"{PODS}/a")
    assert harness.bodies(f"{PODS}/z")
    assert len(harness.bodies(f"{PODS}/evil")) <= 4
    said = [event["message"] for event in harness.events("WriteRefused")]
    assert [text for text in said if "nobody changes it" in text] == [
        "ungate was refused and is tried again: 422 Invalid: nobody changes it"
    ]


def test_counts_that_are_large_are_written_apart(harness: ControllerHarness) -> None:
    """So the stop is written at once, even if the counts are refused."""
    needs = {f"example.com/{'r' * 40}-{number}": "1" for number in range(300)}
    body = pod("greedy", resources={"requests": needs}, nodeName="n", annotations={"sluice.dev/queue": "a"})
    harness.receive_events(queue("a", generation=2, state="Suspended"), body)
    harness.sync(rounds=10)
    bodies = [body["status"] for body in harness.bodies(f"{QUEUES}/a/status")]
    assert all("allocated" not in body for body in bodies)
    assert {one["type"] for one in bodies[-1]["conditions"]} >= {"Active"}


def test_a_group_that_the_definition_lets_in_is_named_where_it_keeps_its_queue(
    harness: ControllerHarness,
) -> None:
    """Only while it keeps its queue from Closed: it counts by the fields that can be read."""
    harness.receive_events(
        queue("a", generation=2, state="Closed"), podgroup("odd", queue="a", status={"running": "x"})
    )
    harness.sync()
    [event] = harness.events("Unreadable")
    assert event["involvedObject"]["name"] == "a"
    assert "podgroup team/odd (status.running) cannot be read in full" in event["message"]
    status = harness.bodies(f"{QUEUES}/a/status")[-1]["status"]
    [accepting] = [one for one in status["conditions"] if one["type"] == "Accepting"]
    assert "podgroup team/odd (it cannot be read in full: status.running)" in accepting["message"]
    done = podgroup("odd", queue="a", version=2, status={"running": "x", "phase": "Completed"})
    harness.receive_events(done, event="MODIFIED")
    assert harness.store.live_members.below("a") == 0
    harness.receive_events(podgroup("odd", queue="a", version=3), event="MODIFIED")
    assert harness.store.unreadable.all() == []


def test_a_queue_with_an_unreadable_field_is_decided_by_the_others(harness: ControllerHarness) -> None:
    """An unreadable stop policy stops the queue."""
    harness.receive_events(queue("a", status={"conditions": 5}), queue("b", stopPolicy=["Hold"]), queue("c"))
    assert [harness.store.snapshot.decision(name).schedules for name in "abc"] == [True, False, True]
    assert harness.store.synced


def test_the_question_whether_a_queue_is_empty_backs_off(
    harness: ControllerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server has a member that no watch reports."""
    hidden = podgroup("hidden", queue="a", labels={"sluice.dev/queue": "a"}, annotations={GROUP: "x"})
    path = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
    harness.client.readable[path] = {"metadata": {"resourceVersion": "1"}, "items": [hidden]}
    asked: list[float] = []
    get = harness.client.get

    def counted(where: str, **query: object) -> bytes:
        if where == path:
            asked.append(harness.clock.seconds)
        return get(where, **query)

    monkeypatch.setattr(harness.client, "get", counted)
    harness.receive_events(queue("a", generation=2, state="Closed"))
    harness.sync(rounds=600, seconds=0.1)
    assert 5 <= len(asked) <= 9


def test_conditions_that_cannot_be_read_are_left_as_they_are(harness: ControllerHarness) -> None:
    """The list is written as a whole, so the conditions of others would be lost. The phase is written."""
    odd = {"type": 5, "status": "True"}
    harness.receive_events(queue("a"), podgroup("odd", queue="a", status={"conditions": [odd]}))
    harness.sync()
    [body, *_] = harness.bodies("/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/odd")
    assert body["status"] == {"phase": "Inqueue"}


@pytest.mark.parametrize("year", ["0000", "0001", "9999"])
def test_the_time_of_a_foreign_condition_is_written_back_unchanged(
    harness: ControllerHarness, year: str
) -> None:
    odd = {"type": "Odd", "status": "True", "lastTransitionTime": f"{year}-01-01T00:00:00+00:00"}
    harness.receive_events(queue("a"), podgroup("odd", queue="a", status={"conditions": [odd]}))
    harness.sync()
    [body, *_] = harness.bodies("/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/odd")
    assert body["status"]["conditions"][0] == odd
    assert harness.store.unreadable.all() == []
