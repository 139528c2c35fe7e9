"""What is written at each edge."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.windows.entries import CurrentWindow, read_entries, to_wire
from queues.windows.in_window import (
    CLOCKS,
    Happened,
    in_window,
    overdue,
)
from queues.windows.rules import next_edge, windows_on
from queues.windows.window import Windows
from tests.queues.windows.cases import fields, moments, utc, weekly, windows, zones
from tests.support.examples import examples

NIGHTLY = windows(weekly("0 2 * * *", "2h", "UTC"))
START, END = utc(2026, 11, 1, 2), utc(2026, 11, 1, 4)
WRITTEN = (CurrentWindow(name="w0", start=START, until=END),)
STARTED, ENDED, MISSED = Happened.STARTED, Happened.ENDED, Happened.MISSED


@pytest.mark.parametrize(
    ("seconds", "changes"), [(0, [STARTED]), (10, [STARTED]), (11, [MISSED]), (59, [MISSED])]
)
def test_a_window_of_a_minute_is_begun_by_who_is_not_late(seconds: int, changes: list[Happened]) -> None:
    short = windows(weekly("0 2 * * *", "1m", "UTC"))
    found = in_window(short, (), START + timedelta(seconds=seconds))
    assert [change.what for change in found.changes] == changes


@pytest.mark.parametrize(
    ("now", "written", "entries", "changes"),
    [
        (START - timedelta(seconds=1), (), (), []),
        (START, (), WRITTEN, [STARTED]),
        (START + timedelta(hours=1), (), WRITTEN, [STARTED]),  # a leader that comes late starts late
        (END - timedelta(seconds=60), (), WRITTEN, [STARTED]),
        (END - timedelta(seconds=59), (), (), [MISSED]),
        (START, WRITTEN, WRITTEN, []),
        (END - timedelta(seconds=1), WRITTEN, WRITTEN, []),
        (END, WRITTEN, (), [ENDED]),
        (START - timedelta(minutes=4), WRITTEN, WRITTEN, []),  # a clock went back
        (START - CLOCKS, WRITTEN, (), [ENDED]),
        (END + timedelta(hours=3), WRITTEN, (), [ENDED]),  # a leader that comes after the end
        (
            START + timedelta(hours=25),  # and one that comes a day later
            WRITTEN,
            (CurrentWindow(name="w0", start=START + timedelta(days=1), until=END + timedelta(days=1)),),
            [ENDED, STARTED],
        ),
        (END + timedelta(hours=24, seconds=-30), WRITTEN, (), [ENDED, MISSED]),
    ],
)
def test_the_table(
    now: datetime,
    written: tuple[CurrentWindow, ...],
    entries: tuple[CurrentWindow, ...],
    changes: list[Happened],
) -> None:
    found = in_window(NIGHTLY, written, now)
    assert found.entries == entries
    assert [change.what for change in found.changes] == changes
    assert {change.window for change in found.changes} <= {"w0"}


def test_an_edit_counts_in_its_version() -> None:
    """A window that is taken away, or moved, ends with the edit; one that is made longer goes on."""
    now = START + timedelta(minutes=30)
    assert in_window(Windows(), WRITTEN, now).changes[0].what is ENDED
    moved = windows(weekly("0 14 * * *", "2h", "UTC"))
    assert in_window(moved, WRITTEN, now).entries == ()
    longer = windows(weekly("0 2 * * *", "5h", "UTC"))
    [entry] = in_window(longer, WRITTEN, now).entries
    assert (entry.start, entry.until) == (START, utc(2026, 11, 1, 7))


def test_an_occurrence_that_is_left_out_ends_at_once_and_begins_again_without_that() -> None:
    skip = {"window": "w0", "start": "2026-11-01T02:00", "skip": True}
    given, now = windows(weekly("0 2 * * *", "2h", "UTC"), overrides=(skip,)), START + timedelta(minutes=30)
    assert in_window(given, WRITTEN, now).entries == ()
    assert in_window(NIGHTLY, (), now).entries == WRITTEN


def test_one_ends_where_the_next_begins_in_one_write() -> None:
    given = windows(weekly("0 2 * * *", "2h", "UTC"), weekly("0 4 * * *", "1h", "UTC"))
    found = in_window(given, WRITTEN, END)
    assert [entry.name for entry in found.entries] == ["w1"]
    assert [(change.window, change.what) for change in found.changes] == [("w0", ENDED), ("w1", STARTED)]


def test_what_nobody_has_written_is_overdue() -> None:
    assert overdue(NIGHTLY, (), START + timedelta(minutes=3)) == 1
    assert overdue(NIGHTLY, WRITTEN, START + timedelta(minutes=3)) == 0
    assert overdue(NIGHTLY, WRITTEN, END + timedelta(minutes=3)) == 1
    assert overdue(NIGHTLY, (), END - timedelta(seconds=30)) == 0, "whoever comes so late begins nothing"


def test_what_is_written_is_read_back_and_what_others_write_is_left_out() -> None:
    assert read_entries(to_wire(WRITTEN)) == WRITTEN
    assert to_wire(WRITTEN) == [
        {"name": "w0", "start": "2026-11-01T02:00:00Z", "until": "2026-11-01T04:00:00Z"}
    ]
    others: tuple[object, ...] = (None, {}, "x", [None], [{}], [{"name": 1}])
    for other in (*others, [{"name": "a", "start": "b", "until": "c"}]):
        assert read_entries(other) == ()


@given(st.data())
@examples(20)
def test_a_leader_that_goes_on_and_one_that_comes_late_write_the_same(data: st.DataObject) -> None:
    """From edge to edge, or at any moment from nothing: the same windows. Twice is once."""
    zone = data.draw(zones())
    given = windows(
        *(
            weekly(schedule.text(), f"{minutes}m", zone.key)
            for schedule, minutes in data.draw(
                st.lists(st.tuples(fields(), st.integers(2, 300)), min_size=1, max_size=3)
            )
        )
    )
    now = data.draw(moments(zone))
    written: tuple[CurrentWindow, ...] = in_window(given, (), now).entries
    for _ in range(10):
        assert in_window(given, written, now).changes == () or any(
            change.what is MISSED for change in in_window(given, written, now).changes
        )
        assert in_window(given, written, now).entries == written
        edge = next_edge(given, now)
        if edge is None:
            break
        between = now + (edge.at - now) / 2
        late = {entry.name for entry in in_window(given, (), between).entries}
        kept = {entry.name for entry in in_window(given, written, between).entries}
        on = windows_on(given, between)
        assert late == {each.window.name for each in on if each.until - between >= timedelta(seconds=60)}
        assert late <= kept <= {each.window.name for each in on}
        now = edge.at
        written = in_window(given, written, now).entries


@given(st.data())
@examples(60)
def test_clocks_that_differ_by_up_to_four_minutes_end_nothing(data: st.DataObject) -> None:
    """Whoever writes next has a clock that is behind."""
    zone = data.draw(zones())
    given = windows(weekly(data.draw(fields()).text(), "2h", zone.key))
    edge = next_edge(given, data.draw(moments(zone)))
    if edge is None:
        return
    written = in_window(given, (), edge.at).entries
    behind = edge.at - timedelta(seconds=data.draw(st.integers(0, 240)))
    assert {entry.name for entry in in_window(given, written, behind).entries} >= {
        each.name for each in written
    }
