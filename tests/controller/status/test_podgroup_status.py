"""The status of a PodGroup as it should be: its phase, its counts, and its conditions."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from cluster.objects import PodGroup
from controller.status.podgroup_status import desired_status, status_difference
from queues.snapshot import QueueDecision, QueueSnapshot
from queues.states import StopPolicy
from queues.status.podgroup_conditions import FREE, GangQuotaState, Lacking, released_until
from queues.status.podgroup_phases import PodTally
from tests.support.cases import each_case
from tests.support.http.wire_objects import Wire, podgroup
from tests.support.rules.cases import NOW, queue, tree

SNAPSHOT = QueueSnapshot(tree(queue("open"), queue("held", stop_policy=StopPolicy.HOLD)), now=NOW)
OPEN, HELD = SNAPSHOT.decision("open"), SNAPSHOT.decision("held")


def group(**status: object) -> PodGroup:
    obj: Wire = {**podgroup("gang", queue="open", status=status), "spec": {"minMember": 2}}
    return msgspec.json.decode(json.dumps(obj), type=PodGroup)


def status_of(
    pods: PodTally,
    decision: QueueDecision = OPEN,
    *,
    stored: PodGroup | None = None,
    standing: GangQuotaState = FREE,
    had_pods: bool = True,
) -> dict[str, Any]:
    return desired_status(stored or group(), pods, decision, standing=standing, had_pods=had_pods, now=NOW)


def condition(status: dict[str, Any], kind: str) -> tuple[str, str]:
    [found] = [one for one in status["conditions"] if one["type"] == kind]
    return found["status"], found["reason"]


@each_case(
    ("pods", "decision", "phase", "scheduled"),
    [
        (PodTally(waiting=2), OPEN, "Inqueue", ("False", "Inqueue")),
        (PodTally(waiting=2), HELD, "Pending", ("False", "Stopped")),
        (PodTally(waiting=1, running=1), OPEN, "Unknown", ("False", "Unknown")),
        (PodTally(waiting=1, running=1), HELD, "Unknown", ("False", "Stopped")),
        (PodTally(running=2), HELD, "Running", ("True", "Running")),
        (PodTally(succeeded=2), OPEN, "Completed", ("True", "Completed")),
    ],
    ids=["waiting", "stopped", "some run", "some run, stopped", "all run", "done"],
)
def test_the_phase_and_why_it_is_not_scheduled(
    pods: PodTally, decision: QueueDecision, phase: str, scheduled: tuple[str, str]
) -> None:
    """A stop is named as the reason only where pods wait because of it."""
    status = status_of(pods, decision)
    assert (status["phase"], condition(status, "Scheduled")) == (phase, scheduled)
    assert (status["running"], status["succeeded"]) == (pods.running, pods.succeeded)


@pytest.mark.parametrize(
    ("pods", "had_pods", "populated"),
    [
        (PodTally(), False, None),
        (PodTally(waiting=1), True, ("True", "HasPods")),
        (PodTally(), True, ("False", "PodsGone")),
    ],
    ids=["never", "now", "before"],
)
def test_it_is_populated_once_it_has_had_a_pod(
    pods: PodTally, had_pods: bool, populated: tuple[str, str] | None
) -> None:
    status = status_of(pods, had_pods=had_pods)
    assert ("Populated" in str(status["conditions"])) is (populated is not None)
    assert populated is None or condition(status, "Populated") == populated


def test_a_status_that_is_stored_already_does_not_differ() -> None:
    """Whatever the order of its conditions, and with one that another controller wrote."""
    other = {"type": "Unschedulable", "status": "True", "transitionID": "x"}
    first = status_of(PodTally(waiting=2), stored=group(conditions=[other]))
    stored = group(**{**first, "conditions": first["conditions"][::-1]})
    assert status_difference(status_of(PodTally(waiting=2), stored=stored), stored) == {}


def test_only_the_fields_that_differ_are_written() -> None:
    stored = group(**status_of(PodTally(running=2)))
    assert status_difference(status_of(PodTally(running=3), stored=stored), stored) == {"running": 3}


@each_case(
    ("pods", "decision", "standing", "phase", "unschedulable"),
    [
        (PodTally(waiting=1), OPEN, GangQuotaState(lacking=Lacking.PODS), "Inqueue", "NotEnoughTasks"),
        (
            PodTally(waiting=2),
            OPEN,
            GangQuotaState(lacking=Lacking.PODS_OF_TASK),
            "Inqueue",
            "NotEnoughPodsOfTask",
        ),
        (
            PodTally(),
            OPEN,
            GangQuotaState(has_room=False, lacking=Lacking.ROOM),
            "Pending",
            "NotEnoughResources",
        ),
        (PodTally(waiting=2), OPEN, GangQuotaState(lacking=Lacking.NEVER), "Inqueue", "NotEnoughResources"),
        (PodTally(waiting=2), HELD, GangQuotaState(lacking=Lacking.ROOM), "Pending", None),
        (
            PodTally(waiting=1, running=1),
            OPEN,
            GangQuotaState(lacking=Lacking.ROOM),
            "Unknown",
            "NotEnoughResources",
        ),
        (PodTally(running=2), OPEN, GangQuotaState(lacking=Lacking.ROOM), "Running", None),
        (PodTally(waiting=2), OPEN, FREE, "Inqueue", None),
    ],
    ids=["pods", "of a task", "room", "never", "stopped", "some run", "enough run", "nothing lacks"],
)
def test_what_a_gang_lacks_is_said_in_the_words_of_volcano(
    pods: PodTally, decision: QueueDecision, standing: GangQuotaState, phase: str, unschedulable: str | None
) -> None:
    status = status_of(pods, decision, standing=standing)
    assert status["phase"] == phase
    if unschedulable is None:
        assert "Unschedulable" not in str(status["conditions"])
    else:
        assert condition(status, "Unschedulable") == ("True", unschedulable)


def test_what_a_gang_lacks_is_written_once_and_taken_away() -> None:
    """Whatever becomes of its pods meanwhile. One that is False would make events on Volcano's Job."""
    lacks = GangQuotaState(lacking=Lacking.PODS)
    stored = group(**status_of(PodTally(), standing=lacks))
    later = desired_status(
        stored, PodTally(), OPEN, standing=lacks, had_pods=True, now=NOW + timedelta(minutes=1)
    )
    assert status_difference(later, stored) == {}
    assert "Unschedulable" not in str(status_of(PodTally(), stored=stored)["conditions"])
    others = group(
        conditions=[{"type": "Unschedulable", "status": "True", "reason": "Other", "message": "1/2"}]
    )
    assert condition(status_of(PodTally(waiting=2), stored=others), "Unschedulable")[0] == "True"


def test_a_gang_that_was_released_says_by_when_it_is_to_be_on_nodes() -> None:
    status = status_of(PodTally(waiting=2), standing=GangQuotaState(until=NOW))
    [scheduled] = [one for one in status["conditions"] if one["type"] == "Scheduled"]
    assert (scheduled["status"], scheduled["reason"]) == ("False", "Released")
    assert released_until(scheduled["message"]) == NOW
    assert released_until(scheduled["message"][:-9]) is None
    assert released_until("fewer of its pods than minMember are on nodes") is None
