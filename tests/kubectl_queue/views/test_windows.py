"""Which windows are shown, in which order, and what of each."""

from __future__ import annotations

from typing import Any

from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.views.windows import WindowState, as_structure, cells, window_table
from tests.support.plugin.harness import NOW, item, snapshot

#: It is noon of 1 January 2030.
NIGHTLY = {
    "name": "nightly",
    "schedule": "0 2 * * *",
    "duration": "2h",
    "timeZone": "Europe/Berlin",
    "stopPolicy": "HoldAndDrain",
    "reason": "backup",
}
NOON = {**NIGHTLY, "name": "noon", "schedule": "0 11 * * *", "duration": "4h", "timeZone": "UTC"}
SKIP = {"window": "nightly", "start": "2030-01-02T01:00:00Z", "skip": True, "reason": "release"}
SKIP_NOON = {"window": "noon", "start": "2030-01-01T11:00:00Z", "skip": True}


def on(name: str, until: str) -> dict[str, str]:
    return {"name": name, "start": "2030-01-01T11:00:00Z", "until": until}


def queues(**spec: Any) -> QueueObjects:
    return snapshot(
        item("root", windows=[{**NIGHTLY, "name": "all", "schedule": "0 0 * * SUN"}]),
        item("research", parent="root", **spec),
        item("below", parent="research"),
        item("beside", parent="root", windows=[NIGHTLY]),
    )


def shown(given: QueueObjects, *, top: str = "", number: int = 3) -> list[tuple[str, str, str, str]]:
    return [
        (row.queue, row.window, f"{row.start:%d %H:%M}", row.standing.value)
        for row in window_table(given, top=top, number=number).rows
    ]


def test_the_next_of_all_queues_come_in_their_order() -> None:
    assert shown(queues(windows=[NIGHTLY])) == [
        ("beside", "nightly", "02 01:00", "Next"),
        ("research", "nightly", "02 01:00", "Next"),
        ("beside", "nightly", "03 01:00", "Next"),
    ]


def test_of_a_queue_those_above_it_count_and_are_named_by_their_queue() -> None:
    assert shown(queues(windows=[NIGHTLY]), top="below", number=6)[-2:] == [
        ("root", "all", "05 23:00", "Next"),
        ("research", "nightly", "06 01:00", "Next"),
    ]


def test_what_is_on_comes_first_and_does_not_count_as_one_that_comes() -> None:
    given = queues(windows=[NOON, NIGHTLY], inWindow=[on("noon", "2030-01-01T15:00:00Z")])
    assert shown(given, top="research", number=1) == [
        ("research", "noon", "01 11:00", "On"),
        ("research", "nightly", "02 01:00", "Next"),
    ]


def test_what_the_server_has_not_written_yet_is_due_or_overdue() -> None:
    assert shown(queues(windows=[NOON]), top="research", number=1)[0][3] == WindowState.DUE
    late = queues(windows=[NIGHTLY], inWindow=[on("nightly", "2030-01-01T11:30:00Z")])
    assert shown(late, top="research", number=1)[0][3] == WindowState.OVERDUE
    removed = queues(inWindow=[on("gone", "2030-01-01T15:00:00Z")])
    assert shown(removed, top="research", number=1)[0] == ("research", "gone", "01 11:00", "On")


def test_what_is_left_out_is_shown_as_such_whether_it_comes_or_would_be_on() -> None:
    given = queues(windows=[NIGHTLY, NOON], windowOverrides=[SKIP, SKIP_NOON])
    assert shown(given, top="research", number=2) == [
        ("research", "noon", "01 11:00", "Skipped"),
        ("research", "nightly", "02 01:00", "Skipped"),
        ("research", "noon", "02 11:00", "Next"),
    ]
    assert [row.reason for row in window_table(given, top="research", number=2).rows][1] == "release"


def test_a_row_says_when_in_the_zone_of_the_window() -> None:
    [row] = window_table(queues(windows=[NIGHTLY]), top="research", number=1).rows
    assert cells(row, now=NOW) == (
        *("research", "nightly", "Wed 2 Jan 02:00 CET", "04:00 CET", "2h", "HoldAndDrain", "Next", "backup"),
    )


def test_programs_get_moments_and_what_is_not_known_is_not_there() -> None:
    [row] = as_structure(window_table(queues(windows=[NIGHTLY]), top="research", number=1).rows)
    assert row == {
        "queue": "research",
        "window": "nightly",
        "state": "Next",
        "scheduled": "2030-01-02T01:00:00Z",
        "start": "2030-01-02T01:00:00Z",
        "until": "2030-01-02T03:00:00Z",
        "timeZone": "Europe/Berlin",
        "sets": {"stopPolicy": "HoldAndDrain"},
        "reason": "backup",
    }


def test_what_cannot_be_read_is_named_and_the_rest_is_shown() -> None:
    table = window_table(
        queues(windows=[{**NIGHTLY, "schedule": "@daily", "name": "bad"}, NIGHTLY, 7]),
        top="research",
        number=1,
    )
    [refused] = table.refused
    assert refused.queue == "research"
    assert len(refused.refusals) == 2
    assert len(table.rows) == 1
