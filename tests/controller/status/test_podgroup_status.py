"""The status of a PodGroup as it should be: its phase, its counts, and its two conditions."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from cluster.objects import PodGroup
from controller.status.podgroup_status import desired_status, status_difference
from queues.snapshot import QueueDecision, QueueSnapshot
from queues.states import StopPolicy
from queues.status.podgroup_phases import PodTally
from tests.support.http.wire_objects import Wire, podgroup
from tests.support.rules.cases import NOW, queue, tree

SNAPSHOT = QueueSnapshot(tree(queue("open"), queue("held", stop_policy=StopPolicy.HOLD)), now=NOW)
OPEN, HELD = SNAPSHOT.decision("open"), SNAPSHOT.decision("held")


def group(**status: object) -> PodGroup:
    obj: Wire = {**podgroup("gang", queue="open", status=status), "spec": {"minMember": 2}}
    return msgspec.json.decode(json.dumps(obj), type=PodGroup)


def status_of(
    pods: PodTally, decision: QueueDecision = OPEN, *, stored: PodGroup | None = None, had_pods: bool = True
) -> dict[str, Any]:
    return desired_status(stored or group(), pods, decision, had_pods=had_pods, now=NOW)


def condition(status: dict[str, Any], kind: str) -> tuple[str, str]:
    [found] = [one for one in status["conditions"] if one["type"] == kind]
    return found["status"], found["reason"]


@pytest.mark.parametrize(
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
