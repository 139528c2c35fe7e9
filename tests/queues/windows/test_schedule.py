"""Five fields as Debian's cron reads them, and what is refused."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queues.windows.refusals import WindowError
from queues.windows.schedule import LENGTH, parse_schedule
from tests.support.cases import each_case
from tests.support.examples import examples


def days(text: str, *, month: int = 10) -> list[int]:
    """The days of a month of 2026 that match."""
    schedule, day, found = parse_schedule(text), date(2026, month, 1), []
    while day.month == month:
        if schedule.matches(day):
            found.append(day.day)
        day += timedelta(days=1)
    return found


@each_case(
    ("text", "expected"),
    [
        ("0 0 * * SUN", [4, 11, 18, 25]),
        ("0 0 * * sun", [4, 11, 18, 25]),
        ("0 0 * * 0", [4, 11, 18, 25]),
        ("0 0 * * 7", [4, 11, 18, 25]),
        ("0 0 * * TUE#2", [13]),
        ("0 0 * * 2#5", []),
        ("0 0 * * THU#5", [29]),
        ("0 0 * * 5L", [30]),
        ("0 0 * * FRIL", [30]),
        ("0 0 * * SAT-SUN", [3, 4, 10, 11, 17, 18, 24, 25, 31]),
        ("0 0 * * 5-7", [2, 3, 4, 9, 10, 11, 16, 17, 18, 23, 24, 25, 30, 31]),
        ("0 0 L * *", [31]),
        ("0 0 1,L * *", [1, 31]),
        ("0 0 */10 * *", [1, 11, 21, 31]),
        ("0 0 10-20/5 * *", [10, 15, 20]),
        ("0 0 25/3 * *", [25, 28, 31]),
        ("0 0 13 * FRI", [2, 9, 13, 16, 23, 30]),
        ("0 0 * OCT *", list(range(1, 32))),
        ("0 0 * 1-9,11,12 *", []),
    ],
)
def test_days_match(text: str, expected: list[int]) -> None:
    assert days(text) == expected


def test_the_last_of_february_is_known() -> None:
    assert days("0 0 L * *", month=2) == [28]


def test_times_are_minutes_of_the_day() -> None:
    assert parse_schedule("*/30 2,14 * * *").times == (120, 150, 840, 870)


@each_case(
    ("text", "problem"),
    [
        ("", "it has 0 fields and not five: minute, hour, day of month, month, day of week"),
        ("0 2 * *", "it has 4 fields and not five: minute, hour, day of month, month, day of week"),
        ("0 0 2 * * SUN", "it has 6 fields and not five: minute, hour, day of month, month, day of week"),
        ("@daily", "@daily is not known; write five fields, as 0 2 * * SUN"),
        ("TZ=Europe/Berlin 0 2 * * *", "it sets a variable; the time zone is in timeZone"),
        ("CRON_TZ=UTC 0 2 * * *", "it sets a variable; the time zone is in timeZone"),
        ("60 2 * * *", "minute 60 is not from 0 to 59"),
        ("0 24 * * *", "hour 24 is not from 0 to 23"),
        ("0 2 0 * *", "day of month 0 is not from 1 to 31"),
        ("0 2 * 13 *", "month 13 is not from 1 to 12"),
        ("0 2 * * 8", "day of week 8 is not from 0 to 7"),
        ("0 2 * * SUNDAY", "day of week SUNDAY is not known"),
        ("0 2 * * TUE#6", "day of week TUE#6 names no week from 1 to 5"),
        ("0 2 * * TUE#", "day of week TUE# names no week from 1 to 5"),
        ("0 2 30 2 *", "none of its months has a day 30"),
        ("0 2 31 4,6 *", "none of its months has a day 31"),
        ("0 2 LW * *", "day of month LW is not known"),
        ("0 5-2 * * *", "hour 5-2 ends before it begins"),
        ("*/0 2 * * *", "minute has step 0, which is no number above 0"),
        ("*/x 2 * * *", "minute has step X, which is no number above 0"),
        ("0 2 * ? *", "month ? is not known"),
        ("1, 2 * * *", "minute  is not known"),
        ("-1 2 * * *", "minute  is not known"),
        ("0 2 */2 * SUN", "day of month */2 beside another restricted day is read differently by each cron"),
        ("0 2 1 * */2", "day of week */2 beside another restricted day is read differently by each cron"),
        ("0 2 * * \u017fun", "it has characters other than letters, digits, spaces and * , - / #"),
        ("0\n2 * * *", "it has characters other than letters, digits, spaces and * , - / #"),
        ("0 2 * * " + "1," * 500_000, f"it has 1000008 characters, {LENGTH} at most"),
    ],
)
def test_what_is_no_schedule_is_refused_by_its_fault(text: str, problem: str) -> None:
    with pytest.raises(WindowError) as caught:
        parse_schedule(text)
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 200


def test_29_february_is_a_day_of_some_years() -> None:
    assert parse_schedule("0 2 29 2 *").next_day(date(2026, 1, 1)) == date(2028, 2, 29)
    assert parse_schedule("0 2 * 2 MON#5").next_day(date(2026, 1, 1)) == date(2044, 2, 29)


def test_the_calendar_has_an_end() -> None:
    assert parse_schedule("0 2 29 2 *").next_day(date(9998, 1, 1)) is None


@given(st.text(alphabet="0123456789*,-/#L SUNJAN@=?\x00é", max_size=40))
@examples(300)
def test_any_text_is_a_schedule_or_refused(text: str) -> None:
    try:
        schedule = parse_schedule(text)
    except WindowError as exc:
        assert str(exc)
    else:
        assert schedule.times
        assert schedule.next_day(date(2026, 1, 1)) != date(2025, 12, 31)
