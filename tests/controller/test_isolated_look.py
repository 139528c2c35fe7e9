"""A step, a queue or an object that raises keeps nobody else waiting; a write that is refused neither."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NoReturn

import pytest

from cluster.exceptions import ClusterError, Overloaded, Refused
from controller.pods.pod_conditions import PodConditions
from controller.status.podgroup_status import PodGroupStatuses
from controller.status.queue_reconciler import QueueReconciler
from tests.controller.test_hostile_objects_looked_at import all_is_done, begun, honest
from tests.support.controller.whole_look import Sent, WholeLook
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
def look() -> WholeLook:
    return begun()


def raises(*_: object, **__: object) -> NoReturn:
    raise ValueError("a mistake of ours")


STEPS = [
    "_bind_pass_retry.retry_old_passes",
    "_parent_cycles.record_events",
    "_reconciler.send_questions",
    "_podgroup_statuses.reconcile_due",
    "_draining.step",
    "_unreadable.report",
    "_report_failures",
    "_forget_absent",
]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_raises_keeps_no_other_from_its_work(look: WholeLook, step: str) -> None:
    holder: Any = look.controller
    *path, name = step.split(".")
    for part in path:
        holder = getattr(holder, part)
    setattr(holder, name, raises)
    look.controller._resync_at = 0.0
    honest(look)
    look.look()
    all_is_done(look)
    assert sum(look.failed().values()) >= 1


@pytest.mark.parametrize("where", ["create_default_queues", "label_namespaces", "set_gauges"])
def test_so_does_a_function(look: WholeLook, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"controller.controller.{where}", raises)
    look.controller._resync_at = 0.0
    honest(look)
    look.look()
    all_is_done(look)
    assert sum(look.failed().values()) >= 1


def test_a_queue_that_raises_is_named_and_all_others_are_written(
    look: WholeLook, monkeypatch: pytest.MonkeyPatch
) -> None:
    reconcile = QueueReconciler.reconcile

    def picky(self: QueueReconciler, name: str, **more: Any) -> float | None:
        return raises() if name == "evil" else reconcile(self, name, **more)

    monkeypatch.setattr(QueueReconciler, "reconcile", picky)
    honest(look)
    look.look()
    all_is_done(look)
    assert 1 <= look.failed()["status"] <= 4
    [event] = look.events("StepFailed")
    assert (event["involvedObject"]["name"], event["type"]) == ("evil", "Warning")
    assert "status failed and is tried again: a mistake of ours" in event["message"]


def test_a_pod_that_raises_keeps_no_other_of_its_queue_waiting(
    look: WholeLook, monkeypatch: pytest.MonkeyPatch
) -> None:
    say = PodConditions._write

    def picky(self: PodConditions, one: Any, cause: Any, **more: Any) -> None:
        raises() if one.name == "evil" else say(self, one, cause, **more)

    monkeypatch.setattr(PodConditions, "_write", picky)
    look.hears(queue("victim", generation=2, state="Suspended"))
    names = ("a", "evil", "z")
    look.hears(*(member(name, "victim", gates=["sluice.dev/queue"]) for name in names))
    look.look()
    assert [bool(look.bodies(f"{PODS}/{name}/status")) for name in names] == [True, False, True]
    assert {event["involvedObject"]["name"] for event in look.events("StepFailed")} == {"evil"}


def test_a_podgroup_that_raises_keeps_no_other_waiting(
    look: WholeLook, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = PodGroupStatuses._submit

    def picky(self: PodGroupStatuses, key: Any, group: Any, difference: Any) -> None:
        raises() if key.name == "evil" else submit(self, key, group, difference)

    monkeypatch.setattr(PodGroupStatuses, "_submit", picky)
    look.hears(queue("a"), podgroup("evil", queue="a"), podgroup("z", queue="a"))
    look.look()
    assert look.bodies("/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/z")


def test_what_raised_is_tried_again_later_and_later(look: WholeLook, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[float] = []

    def picky(_: QueueReconciler, name: str, **__: Any) -> None:
        if name == "a":
            tries.append(look.clock.seconds)
            raises()

    monkeypatch.setattr(QueueReconciler, "reconcile", picky)
    look.hears(queue("a"))
    for number in range(200):  # and something of it changes all the time
        look.hears(member(f"m-{number}", "a"))
        look.look(rounds=1, seconds=0.1)
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
def test_counts_that_are_refused_delay_no_acknowledgement(look: WholeLook, refusal: Refused) -> None:
    """The stop that comes after is written alone; what was refused is named, and waits longer and longer."""

    def refuse(sent: Sent) -> ClusterError | None:
        return refusal if "allocated" in (sent.body or {}).get("status", {}) else None

    look.client.refusal = refuse
    look.hears(queue("a"))
    look.look()
    look.hears(queue("a", version=2, generation=2, state="Suspended"))
    look.look(rounds=20, seconds=0.1)
    bodies = [body["status"] for body in look.bodies(f"{QUEUES}/a/status")]
    apart = [body for body in bodies if "allocated" not in body]
    assert {one["type"]: one["status"] for one in apart[-1]["conditions"]}["Active"] == "False"
    assert apart[-1]["observedGeneration"] == 2
    assert len(bodies) - len(apart) <= 4
    events = {event["involvedObject"]["name"]: event["message"] for event in look.events("WriteRefused")}
    assert refusal.message in events["a"]


def test_a_pod_whose_gate_cannot_be_taken_off_keeps_no_other_waiting(look: WholeLook) -> None:
    def refuse(sent: Sent) -> Refused | None:
        return Refused(422, "Invalid", "nobody changes it") if sent.path == f"{PODS}/evil" else None

    look.client.refusal = refuse
    look.hears(queue("a"), *(member(name, "a", gates=["sluice.dev/queue"]) for name in ("a", "evil", "z")))
    look.look(rounds=40, seconds=0.2)
    assert look.bodies(f"{PODS}/a")
    assert look.bodies(f"{PODS}/z")
    assert len(look.bodies(f"{PODS}/evil")) <= 4
    assert [event["message"] for event in look.events("WriteRefused")] == [
        "ungate was refused and is tried again: 422 Invalid: nobody changes it"
    ]


def test_counts_that_are_large_are_written_apart(look: WholeLook) -> None:
    """So that whatever else becomes of them, the stop is written at once."""
    needs = {f"example.com/{'r' * 40}-{number}": "1" for number in range(300)}
    body = pod("greedy", resources={"requests": needs}, nodeName="n", annotations={"sluice.dev/queue": "a"})
    look.hears(queue("a", generation=2, state="Suspended"), body)
    look.look(rounds=10)
    bodies = [body["status"] for body in look.bodies(f"{QUEUES}/a/status")]
    assert all("allocated" not in body for body in bodies)
    assert {one["type"] for one in bodies[-1]["conditions"]} >= {"Active"}


def test_a_group_that_the_definition_lets_in_is_named_where_it_keeps_its_queue(look: WholeLook) -> None:
    """As long as it must; and it counts by what can be read of it."""
    look.hears(queue("a", generation=2, state="Closed"), podgroup("odd", queue="a", status={"running": "x"}))
    look.look()
    [event] = look.events("Unreadable")
    assert event["involvedObject"]["name"] == "a"
    assert "podgroup team/odd (status.running) cannot be read in full" in event["message"]
    status = look.bodies(f"{QUEUES}/a/status")[-1]["status"]
    [accepting] = [one for one in status["conditions"] if one["type"] == "Accepting"]
    assert "podgroup team/odd (it cannot be read in full: status.running)" in accepting["message"]
    done = podgroup("odd", queue="a", version=2, status={"running": "x", "phase": "Completed"})
    look.hears(done, event="MODIFIED")
    assert look.store.live_members_below("a") == 0
    look.hears(podgroup("odd", queue="a", version=3), event="MODIFIED")
    assert look.store.unreadable.all() == []


def test_a_queue_with_a_field_that_cannot_be_read_is_held_by_what_can(look: WholeLook) -> None:
    """Where it does not say whether it stops, it does."""
    look.hears(queue("a", status={"conditions": 5}), queue("b", stopPolicy=["Hold"]), queue("c"))
    assert [look.store.snapshot.decision(name).schedules for name in "abc"] == [True, False, True]
    assert look.store.synced


def test_the_question_whether_a_queue_is_empty_is_asked_less_and_less(
    look: WholeLook, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the API server has a member that no watch tells of."""
    hidden = podgroup("hidden", queue="a", labels={"sluice.dev/queue": "a"}, annotations={GROUP: "x"})
    path = "/apis/scheduling.volcano.sh/v1beta1/podgroups"
    look.client.readable[path] = {"metadata": {"resourceVersion": "1"}, "items": [hidden]}
    asked: list[float] = []
    get = look.client.get

    def counted(where: str, **query: object) -> bytes:
        if where == path:
            asked.append(look.clock.seconds)
        return get(where, **query)

    monkeypatch.setattr(look.client, "get", counted)
    look.hears(queue("a", generation=2, state="Closed"))
    look.look(rounds=600, seconds=0.1)
    assert 5 <= len(asked) <= 9


def test_conditions_that_cannot_be_read_are_left_as_they_are(look: WholeLook) -> None:
    """Those of others would be lost: the list is written as a whole. The phase is kept all the same."""
    odd = {"type": 5, "status": "True"}
    look.hears(queue("a"), podgroup("odd", queue="a", status={"conditions": [odd]}))
    look.look()
    [body, *_] = look.bodies("/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/odd")
    assert body["status"] == {"phase": "Inqueue"}


@pytest.mark.parametrize("year", ["0000", "0001", "9999"])
def test_the_time_of_somebody_elses_condition_goes_back_as_it_came(look: WholeLook, year: str) -> None:
    odd = {"type": "Odd", "status": "True", "lastTransitionTime": f"{year}-01-01T00:00:00+00:00"}
    look.hears(queue("a"), podgroup("odd", queue="a", status={"conditions": [odd]}))
    look.look()
    [body, *_] = look.bodies("/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/odd")
    assert body["status"]["conditions"][0] == odd
    assert look.store.unreadable.all() == []
