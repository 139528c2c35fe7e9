"""Which events a change of a queue's status brings, and which of them share a rate limit."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cluster.objects import Condition, QueueStatus
from controller.events import POLICY_KEY, QueueEvent, is_active_news, queue_events
from tests.support.cases import each_case


def status(**fields: Any) -> QueueStatus:
    return msgspec.convert({"observedGeneration": 1, **fields}, QueueStatus)


def condition(kind: str, value: str = "False", *, reason: str = "Stopped") -> dict[str, str]:
    return {"type": kind, "status": value, "reason": reason, "message": f"{kind} {value}"}


def events(before: QueueStatus, after: QueueStatus, *, drains_itself: bool = True) -> list[QueueEvent]:
    return list(queue_events(before, after, drains_itself=drains_itself))


def test_a_status_that_says_the_same_brings_none() -> None:
    same = status(state="Open", conditions=[condition("Active"), condition("Drained")], running=3)
    assert events(same, same) == []


@pytest.mark.parametrize(("generation", "inherited"), [(2, False), (1, True)], ids=["own", "an ancestor's"])
def test_a_new_state_brings_an_event(generation: int, inherited: bool) -> None:
    """Where the queue's own generation did not change, an ancestor's spec did."""
    after = status(state="Suspended", observedGeneration=generation)
    message = "the queue is Suspended, it was Open"
    assert events(status(state="Open"), after) == [QueueEvent("QueueSuspended", message, inherited)]


def test_a_new_queue_was_new() -> None:
    [event] = events(QueueStatus(), status(state="Open"))
    assert (event.reason, event.message) == ("QueueOpen", "the queue is Open, it was new")


@each_case(
    ("before", "after", "expected"),
    [
        (None, "True", True),
        (None, "False", True),
        ("True", "False", True),
        ("False", "True", True),
        ("True", "True", False),
        ("False", "False", False),
        ("False", "Unknown", False),
        ("Unknown", "False", False),
        ("Unknown", "True", True),
        (None, "Unknown", False),
    ],
)
def test_what_of_condition_active_is_news(before: str | None, after: str, expected: bool) -> None:
    """A stop that waits for changed specs, and is acknowledged again, is none."""
    stored = None if before is None else Condition(type="Active", status=before)
    assert is_active_news(stored, Condition(type="Active", status=after)) is expected


@each_case(
    ("reason", "event", "warning"),
    [
        ("Draining", "DrainBegun", False),
        ("Drained", "DrainEnded", False),
        ("Blocked", "DrainBlocked", True),
        ("DeadlinePassed", "DrainOverdue", True),
        ("SomethingNew", "DrainChanged", False),
    ],
)
@each_case("drains_itself", [True, False])
def test_each_turn_of_a_drain_brings_an_event(
    reason: str, event: str, warning: bool, drains_itself: bool
) -> None:
    after = status(conditions=[condition("Drained", reason=reason)])
    expected = QueueEvent(event, "Drained False", not drains_itself, warning)
    assert events(status(), after, drains_itself=drains_itself) == [expected]
    assert events(after, after) == []


@each_case(
    ("before", "after", "expected"),
    [
        (None, "True", False),
        (None, "False", True),
        ("True", "False", True),
        ("False", "True", True),
        ("True", "True", False),
        ("False", "False", False),
    ],
)
def test_a_policy_that_does_not_resolve_brings_an_event_and_so_does_its_end(
    before: str | None, after: str, expected: bool
) -> None:
    """A first policy that resolves is none. Such events have a rate limit of their own."""
    stored = status(conditions=[] if before is None else [condition("PolicyResolved", before)])
    found = events(stored, status(conditions=[condition("PolicyResolved", after)]))
    warning = after == "False"
    event = QueueEvent(f"PolicyResolved{after}", f"PolicyResolved {after}", True, warning, POLICY_KEY)
    assert found == ([event] if expected else [])


def test_each_new_line_of_the_history_brings_an_event_before_all_others() -> None:
    line = {"by": "alice", "field": "state", "from": "Open", "to": "Suspended", "at": "2030-01-01T12:00:00Z"}
    after = status(state="Suspended", changes=[line], conditions=[condition("Active")])
    found = events(status(state="Open"), after)
    assert [event.reason for event in found] == ["QueueChanged", "QueueSuspended", "ActiveFalse"]
    assert "alice" in found[0].message
