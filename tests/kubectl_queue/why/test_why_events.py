"""Whoever may not read queues learns from the events of the object what stops it."""

from __future__ import annotations

from typing import Any

from kubectl_queue.commands.why import lines
from kubectl_queue.views.why import Event
from kubectl_queue.why.events import creation_failure, latest_events
from queues.why.explanation import Explanation, Fate, ObjectRef
from tests.support.plugin.harness import NOW, StoredObjects, StoredQueues, run_command

TEXT = 'queue "vision" is Suspended by its ancestor "research"; resume it with: kubectl queue resume research'


def event(reason: str, *, minute: int = 0, source: str = "sluice", message: str = TEXT) -> dict[str, Any]:
    return {
        "reason": reason,
        "message": message,
        "source": {"component": source},
        "lastTimestamp": f"2030-01-01T11:{minute:02}:00Z",
    }


def test_the_latest_event_of_each_reason_is_taken_newest_first() -> None:
    found = latest_events(
        [
            event("QueueStopped", minute=1, message="old"),
            event("QueueStopped", minute=5),
            event("X", minute=9),
        ]
    )
    assert [(each.reason, each.message) for each in found] == [("X", TEXT), ("QueueStopped", TEXT)]


def test_events_of_others_are_taken_where_sluice_has_written_none() -> None:
    others = [event("FailedScheduling", source="default-scheduler", message="no nodes")]
    assert latest_events([*others, event("QueueStopped")])[0].reason == "QueueStopped"
    assert latest_events(others)[0].message == "no nodes"


def test_an_event_without_a_time_of_its_own_has_that_of_its_series_or_its_making() -> None:
    series = {"reason": "A", "message": "m", "series": {"lastObservedTime": "2030-01-01T11:59:00.000000Z"}}
    assert latest_events([series])[0].at.startswith("2030-01-01T11:59")
    assert latest_events([{"reason": "A", "metadata": {"creationTimestamp": "2030"}}])[0].at == "2030"


def test_the_events_stand_below_the_answer() -> None:
    pod = ObjectRef(kind="Pod", name="p", namespace="ns")
    explanation = Explanation(object=pod, outcome=Fate.UNREAD, summary="Pod ns/p is of queue b")
    events = [Event("QueueStopped", TEXT, "2030-01-01T11:59:00Z")]
    assert lines(explanation, now=NOW, events=events) == [
        "Pod ns/p is of queue b",
        f"Events:      QueueStopped, 2030-01-01T11:59:00Z (60s ago): {TEXT}",
    ]


def test_why_the_latest_pod_was_not_created_is_known_until_one_is() -> None:
    failed = event("FailedCreate", minute=5, source="job-controller", message="no webhook")
    earlier = event("FailedCreate", minute=1, source="job-controller", message="old")
    assert creation_failure([earlier, failed, event("QueueStopped", minute=9)]) == "no webhook"
    made = event("SuccessfulCreate", minute=6, source="job-controller", message="Created pod: p")
    assert creation_failure([failed, made]) == ""
    assert creation_failure([]) == ""


def gone_pod(*events: dict[str, Any]) -> str:
    """What `why` says of a pod that is not there, whose events are."""
    stored = StoredObjects({"/api/v1/namespaces/default/events": {"items": list(events)}})
    done = run_command(StoredQueues(), "why", "pod/work-0", client=stored)
    assert done.code == 1
    return done.err


def test_of_a_pod_that_is_gone_the_last_that_was_said_stands() -> None:
    """A bare pod that was evicted has no owner that could say it."""
    evicted = event("Reclaimed", minute=5, message='evicted: queue "a" uses more than it deserves')
    later_of_others = event("Killing", minute=6, source="kubelet", message="Stopping container main")
    said = gone_pod(event("QueueStopped", minute=1), evicted, later_of_others).splitlines()
    assert said[-1] == (
        'It was there. Reclaimed, 2030-01-01T11:05:00Z: evicted: queue "a" uses more than it deserves'
    )


def test_of_a_pod_that_never_was_nothing_more_is_said() -> None:
    assert "It was there" not in gone_pod()
    assert "It was there" not in gone_pod(event("Killing", source="kubelet", message="x"))
