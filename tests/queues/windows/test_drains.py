"""Which drain counts while a window drains."""

from __future__ import annotations

from typing import Any

from queues.drain.model import parse_drain_spec
from queues.windows.drains import drain_in_force
from queues.windows.stops import WindowOn, WindowStop
from tests.queues.windows.cases import utc
from tests.support.cases import each_case

START = utc(2026, 11, 1, 2)
ON = WindowOn(window=WindowStop(name="nightly"), start=START, until=utc(2026, 11, 1, 4))
SPEC = {"rate": 5, "deadline": "2026-01-01T00:00:00Z", "afterDeadline": "Delete"}


def of_window(drain: Any) -> Any:
    windows = [{"name": "other", "drain": {"rate": 9}}, {"name": "nightly", "drain": drain}]
    return drain_in_force(SPEC, windows, ON)


def test_what_the_spec_drains_is_drained_as_the_spec_says() -> None:
    assert drain_in_force(SPEC, [{"name": "nightly", "drain": {"rate": 1}}], None) == SPEC


@each_case(
    ("drain", "counts"),
    [
        ({"rate": 1}, {"rate": 1}),
        ({"deadlineAfter": "30m"}, {"deadline": "2026-11-01T02:30:00Z"}),
        (
            {"deadlineAfter": "1h30m", "afterDeadline": "Scale", "rate": 2},
            {"deadline": "2026-11-01T03:30:00Z", "afterDeadline": "Scale", "rate": 2},
        ),
        ({"deadline": "2026-01-01T00:00:00Z", "afterDeadline": "Delete"}, {}),  # refused; stored all the same
        ({"deadlineAfter": "soon", "afterDeadline": "Delete"}, {}),
        ({"deadlineAfter": 30}, {}),
        (None, {"rate": 5}),
        ({}, {"rate": 5}),
    ],
)
def test_a_deadline_is_counted_from_the_beginning_of_the_window(drain: Any, counts: dict[str, Any]) -> None:
    """And none that has passed, or cannot be read, deletes anything."""
    assert of_window(drain) == counts


def test_a_drain_that_cannot_be_read_evicts_nothing() -> None:
    assert parse_drain_spec(of_window("all")).unreadable
