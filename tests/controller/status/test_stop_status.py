"""When the status of a stopped queue is written, and what ends its acknowledgement."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.objects import QueueObject
from controller.status.queue_reconciler import YOUNG_SECONDS, QueueReconciler
from controller.status.queue_records import PendingStop
from controller.stops.acknowledgement import StopAcknowledgement
from queues.status.acknowledgement import Obstacle, ObstacleReason
from queues.well_known import CONTACT
from tests.support.controller.controller_harness import ControllerHarness
from tests.support.http.wire_objects import Wire, member, namespace, queue

ABOVE = "/apis/scheduling.volcano.sh/v1beta1/queues/above/status"
STEP = 0.005


def below(version: int, **spec: Any) -> Wire:
    """Each edit makes the next version and generation."""
    fields: Wire = {"parent": "above", "weight": version, **spec}
    return queue("below", version=version, generation=version, **fields)


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


def created_again(version: int) -> Wire:
    made = below(version)
    made["metadata"]["uid"] = "another"
    return made


@pytest.mark.parametrize("is_pending", [False, True], ids=["acknowledged", "pending"])
@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([below(5)], 1),
        ([below(5), below(6)], 1),
        ([below(5, state="Suspended"), below(6, state="Open")], 1),
        ([below(5, parent="root"), below(6)], 2),
        ([below(6)], 2),
        ([created_again(5)], 2),
        ([queue("new", parent="above", version=5)], 2),
        ([queue("new", parent="below", version=5)], 2),
    ],
    ids=[
        "its weight is edited",
        "twice",
        "it is suspended and resumed",
        "it is moved away and back between two syncs",
        "an edit was missed",
        "it is created again",
        "another comes",
        "one comes below it",
    ],
)
def test_evidence_for_a_stop_begins_anew_only_where_other_queues_are_below(
    monkeypatch: pytest.MonkeyPatch, edits: list[Wire], expected: int, is_pending: bool
) -> None:
    """A queue that was elsewhere may have let pods through; one that stayed below has not. The status is of
    the specs that there are now in any case.
    """
    stops: set[int] = set()
    advance = StopAcknowledgement.advance

    def follow(self: StopAcknowledgement, queue: str, *, since: int, at: float) -> Obstacle | None:
        if queue == "above":
            stops.add(since)
        return advance(self, queue, since=since, at=at)

    monkeypatch.setattr(StopAcknowledgement, "advance", follow)
    server = ControllerHarness()
    server.receive_events(namespace("team"), queue("root", parent=""), queue("above", state="Suspended"))
    server.receive_events(below(4), *([member("work", "below")] if is_pending else []))
    rounds, seconds = (10, 0.1) if is_pending else (10, 0.8)  # it is pending for two seconds
    server.sync(rounds=rounds, seconds=seconds)
    former = server.bodies(ABOVE)[-1]["status"]["stop"].get("scope")
    assert (former is None) is is_pending
    server.client.sent.clear()
    server.receive_events(*edits, event="MODIFIED")
    server.sync(rounds=rounds, seconds=seconds)
    assert len(stops) == expected
    stop = server.bodies(ABOVE)[-1]["status"]["stop"]
    assert is_pending or stop["scope"] not in (former, None)


def test_a_queue_that_comes_below_while_the_status_is_made_is_not_acknowledged_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The evidence is for the queues that there were when it was looked at."""
    server = ControllerHarness()
    server.receive_events(namespace("team"), queue("root", parent=""), queue("above", state="Suspended"))
    server.receive_events(queue("elsewhere", version=4), member("work", "elsewhere"))
    server.sync(rounds=8, seconds=0.3)
    assert server.bodies(ABOVE)[-1]["status"]["stop"]["scope"]
    report, moved = QueueReconciler._stop_report, list[bool]()

    def move_first(self: QueueReconciler, obj: QueueObject, stop: PendingStop | None) -> Any:
        if obj.metadata.name == "above" and not moved:
            moved.append(True)
            edited = queue("elsewhere", parent="above", version=50, generation=5)
            server.receive_events(edited, event="MODIFIED")
        return report(self, obj, stop)

    monkeypatch.setattr(QueueReconciler, "_stop_report", move_first)
    server.client.sent.clear()
    server.receive_events(member("late", "above", gates=["sluice.dev/queue"], version=20))
    for _ in range(20):
        server.sync(rounds=1, seconds=0.1)
        if moved:
            break
    assert moved
    written = [body["status"].get("stop", {}).get("scope") for body in server.bodies(ABOVE)]
    assert server.store.snapshot.scope("above") not in written


def test_another_contact_is_told_to_the_pods_that_wait_and_ends_no_acknowledgement() -> None:
    """One write for each pod, and one for the status."""
    server = ControllerHarness()
    stopped = queue("above", state="Suspended", version=3)
    waiting = [
        member(f"work-{number}", "above", gates=["sluice.dev/queue"], version=4) for number in range(5)
    ]
    server.receive_events(namespace("team"), queue("root", parent=""), stopped, *waiting)
    server.sync(rounds=8, seconds=0.3)
    status = server.bodies(ABOVE)[-1]["status"]
    assert status["stop"]["scope"]
    server.receive_events({**stopped, "status": status}, event="MODIFIED")
    server.sync(rounds=8, seconds=0.3)
    server.client.sent.clear()
    named = queue("above", state="Suspended", version=9, status=status, annotations={CONTACT: "Ann"})
    server.receive_events(named, event="MODIFIED")
    server.sync(rounds=8, seconds=0.3)
    text = 'queue "above" is Suspended; Ann can resume it'
    for written in server.bodies(ABOVE):  # again and again, since the cache hears of none
        assert written["status"] == {"stop": {**status["stop"], "refusal": text, "contact": "Ann"}}
    for pod in waiting:
        [body] = server.bodies(f"/api/v1/namespaces/team/pods/{pod['metadata']['name']}/status")
        assert body["status"]["conditions"] == [{"type": "PodScheduled", "message": text}]


def test_what_a_new_leader_waits_for_is_not_written_while_the_former_ones_acknowledgement_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is for the same specs, so it holds. For other specs it does not, and what is waited for is said."""
    stopped = queue("above", state="Suspended", version=3)
    former = ControllerHarness()
    former.receive_events(namespace("team"), queue("root", parent=""), stopped)
    former.sync(rounds=8, seconds=0.3)
    status = former.bodies(ABOVE)[-1]["status"]
    assert status["stop"]["scope"]

    obstacle = Obstacle(ObstacleReason.PODS_BEHIND, "the leader's view of the pods is older than the stop")
    monkeypatch.setattr(StopAcknowledgement, "advance", lambda *_, **__: obstacle)
    server = ControllerHarness()
    server.receive_events(namespace("team"), queue("root", parent=""), {**stopped, "status": status})
    server.sync(rounds=10, seconds=0.3)
    assert server.bodies(ABOVE) == []

    edited = queue("above", state="Suspended", version=9, generation=2, weight=2, status=status)
    server.receive_events(edited, event="MODIFIED")
    server.sync(rounds=10, seconds=0.3)
    assert server.bodies(ABOVE)[-1]["status"]["stop"]["waitingFor"].startswith("PodsBehind")
