"""When schedules begin, against an oracle that looks at each minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.windows import recurrence
from queues.windows.recurrence import TICK, last_by_schedule, never_off, next_by_schedule
from queues.windows.schedule import parse_schedule
from queues.windows.window import Recurrence
from queues.windows.zones import local_time
from tests.queues.windows import calendar_oracle as oracle
from tests.queues.windows.calendar_oracle import Fields
from tests.queues.windows.cases import fields, moments, utc, weekly, windows, zones
from tests.support.examples import examples

DAYS = timedelta(days=2)


def recurs_by(schedule: Fields, zone: ZoneInfo) -> Recurrence:
    return Recurrence(schedule=parse_schedule(schedule.text()), duration=timedelta(hours=1), zone=zone)


@given(st.data())
@examples(50)
def test_a_schedule_begins_when_a_look_at_each_minute_says_so(data: st.DataObject) -> None:
    zone, schedule = data.draw(zones()), data.draw(fields())
    at = data.draw(moments(zone))
    recurs, expected = recurs_by(schedule, zone), oracle.starts(schedule, zone, at, at + DAYS)
    found, moment = [], at - TICK
    while (following := next_by_schedule(recurs, moment)) is not None and following < at + DAYS:
        found.append(following)
        moment = following
    assert found == expected


@given(st.data())
@examples(50)
def test_looking_back_finds_the_last_of_those_that_going_forward_finds(data: st.DataObject) -> None:
    zone, schedule = data.draw(zones()), data.draw(fields())
    at = data.draw(moments(zone)) + timedelta(seconds=data.draw(st.integers(0, 59)))
    expected = oracle.starts(schedule, zone, at - DAYS, at + timedelta(seconds=1))
    found = last_by_schedule(recurs_by(schedule, zone), at, not_before=at - DAYS)
    assert found == (max(expected) if expected else None)


@given(st.data())
@examples(30)
def test_a_wall_clock_begins_once(data: st.DataObject) -> None:
    """Unless the hours are `*`. Clocks that are skipped begin together, at the end of the gap."""
    zone = data.draw(zones())
    schedule = data.draw(fields().filter(lambda each: each.hours is not None))
    at = data.draw(moments(zone))
    recurs, moment, shown = recurs_by(schedule, zone), at, Counter[object]()
    while (following := next_by_schedule(recurs, moment)) is not None and following < at + DAYS:
        shown[local_time(following, zone)] += 1
        moment = following
    assert not shown or max(shown.values()) == 1


@pytest.mark.parametrize("years", [0, 30])
def test_a_look_costs_the_same_however_much_time_has_gone_by(
    monkeypatch: pytest.MonkeyPatch, years: int
) -> None:
    """Some days are looked at, and no minutes."""
    looked_at = []
    starts_of = recurrence._starts_of

    def counted(recurs: Recurrence, day: date) -> Sequence[datetime]:
        looked_at.append(day)
        return starts_of(recurs, day)

    monkeypatch.setattr(recurrence, "_starts_of", counted)
    [window] = windows(weekly("*/5 2 * * *", "1m")).windows
    assert isinstance(window.when, Recurrence)
    at = utc(2026 + years, 1, 1, 12)
    assert next_by_schedule(window.when, at) == utc(2026 + years, 1, 2, 1)
    assert last_by_schedule(window.when, at, not_before=at - timedelta(days=1)) == utc(
        2026 + years, 1, 1, 1, 55
    )
    assert len(looked_at) <= 6


@pytest.mark.parametrize(
    ("schedule", "duration", "is_refused"),
    [
        ("* * * * *", "1m", True),
        ("*/5 * * * *", "5m", True),
        ("*/5 * * * *", "4m", False),
        ("0 0 * * *", "24h", False),  # on 25 October a day has 25 hours
        ("0 0 * * *", "25h", True),
        ("0 0 * * MON", "168h", False),
        ("0 0 * * MON", "169h", True),
        ("0 0 * 1-11 *", "24h", False),
        ("0 0 1 * *", "744h", False),  # 31 days, and a month with them whose clocks go back
        ("0 0 1,15 * *", "744h", True),
    ],
)
def test_what_is_never_off_within_a_year_is_refused(schedule: str, duration: str, is_refused: bool) -> None:
    refusals = never_off(windows(weekly(schedule, duration)), utc(2026, 1, 1))
    assert [str(each) for each in refusals] == (
        ['spec.windows[0].schedule of window "w0": it is never off within a year: stop the queue instead']
        if is_refused
        else []
    )


def test_what_has_an_end_may_be_on_until_then() -> None:
    assert never_off(windows(weekly("* * * * *", "1m", until="2026-02-01T00:00")), utc(2026, 1, 1)) == []


def test_what_begins_no_more_is_refused() -> None:
    given = windows(weekly("0 0 * * *", "1h", until="2020-02-01T00:00"))
    assert [each.problem for each in never_off(given, utc(2026, 1, 1))] == ["it never begins"]
