"""What is new in a history, and how a line of it reads."""

from __future__ import annotations

from queues.status.changes import (
    Change,
    describe_change,
    new_changes,
)

FIRST = Change(
    by="ann", field="state", from_="Open", to="Suspended", reason="disks", at="2030-01-01T12:00:00Z"
)
SECOND = Change(by="bob", field="resumeAt", from_="2030-01-01T13:00:00Z", at="2030-01-01T12:00:01Z")


def test_only_the_lines_that_came_are_added() -> None:
    """The former history may have lines that were dropped since, for the oldest go first."""
    assert new_changes([], [FIRST]) == [FIRST]
    assert new_changes([FIRST], [FIRST, SECOND]) == [SECOND]
    assert new_changes([FIRST, SECOND], [SECOND]) == []


def test_a_line_tells_who_what_and_why() -> None:
    """In one sentence; an empty value is none."""
    assert describe_change(FIRST) == "spec.state by ann (disks): Suspended, it was Open"
    assert describe_change(SECOND) == "spec.resumeAt by bob: none, it was 2030-01-01T13:00:00Z"
