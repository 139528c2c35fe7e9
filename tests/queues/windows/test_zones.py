"""Zones by name, wall clocks as moments, durations."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from queues.windows.refusals import WindowError
from queues.windows.times import parse_duration, parse_moment
from queues.windows.zones import moment_of, moments_of, time_zone, zone_names
from tests.queues.windows.cases import ZONES, utc
from tests.support.cases import each_case

BERLIN = time_zone("Europe/Berlin")


@each_case(
    ("clock", "moment"),
    [
        (datetime(2026, 3, 29, 1, 59), utc(2026, 3, 29, 0, 59)),
        (datetime(2026, 3, 29, 2, 0), utc(2026, 3, 29, 1)),
        (datetime(2026, 3, 29, 2, 30), utc(2026, 3, 29, 1)),
        (datetime(2026, 3, 29, 3, 0), utc(2026, 3, 29, 1)),
        (datetime(2026, 10, 25, 2, 30), utc(2026, 10, 25, 0, 30)),
        (datetime(2026, 10, 25, 3, 0), utc(2026, 10, 25, 2)),
    ],
)
def test_a_wall_clock_is_a_moment(clock: datetime, moment: datetime) -> None:
    assert moment_of(clock, BERLIN) == moment


def test_a_wall_clock_is_shown_never_once_or_twice() -> None:
    assert moments_of(datetime(2026, 3, 29, 2, 30), BERLIN) == []
    assert moments_of(datetime(2026, 3, 29, 4, 30), BERLIN) == [utc(2026, 3, 29, 2, 30)]
    twice = [utc(2026, 10, 25, 0, 30), utc(2026, 10, 25, 1, 30)]
    assert moments_of(datetime(2026, 10, 25, 2, 30), BERLIN) == twice


def test_a_day_that_a_country_left_out_is_over_at_once() -> None:
    """Samoa had no 30 December in 2011."""
    apia = time_zone("Pacific/Apia")
    assert moment_of(datetime(2011, 12, 30, 15, 7), apia) == moment_of(datetime(2011, 12, 31), apia)


@each_case("name", [*ZONES, "UTC", "Etc/GMT+5", "America/Argentina/Buenos_Aires"])
def test_zones_of_the_table_are_known(name: str) -> None:
    assert time_zone(name).key == name


@each_case(
    ("name", "problem"),
    [
        ("Europe/Berln", 'there is no time zone "Europe/Berln"; did you mean Europe/Berlin?'),
        ("CEST", 'there is no time zone "CEST"; did you mean EST or CET?'),
        ("", 'there is no time zone ""; write a name as Europe/Berlin'),
        ("+02:00", "there is no time zone"),
        ("localtime", "there is no time zone"),
        ("Local", "there is no time zone"),
        ("posix/Europe/Berlin", "there is no time zone"),
        ("right/Europe/Berlin", "there is no time zone"),
        ("../zones", "there is no time zone"),
        ("/etc/localtime", "there is no time zone"),
        ("europe/berlin", "there is no time zone"),
        ("Europe/Berlin\x00", "there is no time zone"),
        ("W. Europe Standard Time", "there is no time zone"),
        ("x" * 1_000_000, "there is no time zone"),
    ],
)
def test_other_names_are_refused(name: str, problem: str) -> None:
    with pytest.raises(WindowError) as caught:
        time_zone(name)
    assert problem in str(caught.value)
    assert len(str(caught.value)) < 250


def test_each_name_of_the_list_is_a_zone() -> None:
    """The package has them all, wherever it was installed from."""
    assert len(zone_names()) > 500
    assert all(
        time_zone.__wrapped__(name).utcoffset(datetime(2026, 1, 1)) is not None for name in zone_names()
    )


@each_case(
    ("text", "minutes"), [("1m", 1), ("2h", 120), ("1h30m", 90), ("90m", 90), ("60s", 1), ("744h", 44640)]
)
def test_durations_are_read(text: str, minutes: int) -> None:
    assert parse_duration(text) == timedelta(minutes=minutes)


@each_case(
    ("text", "problem"),
    [
        ("59s", '"59s" is not from 1m to 744h (31 days)'),
        ("745h", '"745h" is not from 1m to 744h (31 days)'),
        ("2", '"2" is no duration; write it as 2h, 90m or 1h30m'),
        ("2d", "is no duration"),
        ("-2h", "is no duration"),
        ("2h ", "is no duration"),
        ("1.5h", "is no duration"),
        ("٢h", "is no duration"),
        ("", "is no duration"),
        ("9" * 1000 + "h", "is no duration"),
    ],
)
def test_other_durations_are_refused(text: str, problem: str) -> None:
    with pytest.raises(WindowError) as caught:
        parse_duration(text)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-12-20T00:00", utc(2026, 12, 19, 23)),
        ("2026-12-20T00:00:30", utc(2026, 12, 19, 23, 0, 30)),
        ("2026-12-20T00:00Z", utc(2026, 12, 20)),
        ("2026-12-20T00:00:00+05:45", utc(2026, 12, 19, 18, 15)),
    ],
)
def test_times_are_read(text: str, moment: datetime) -> None:
    assert parse_moment(text, BERLIN) == moment


@each_case(
    ("text", "problem"),
    [
        ("2026-12-20", "is no time; write it as 2026-12-20T00:00"),
        ("20261220T0000", "is no time"),
        ("2026-W01-1T00:00", "is no time"),
        ("tomorrow", "is no time"),
        ("2026-02-30T00:00", "is not in the calendar"),
        ("2026-02-28T24:00", "is not in the calendar"),
        ("0001-01-01T00:00+14:00", "is not from 1970 to 9000"),
        ("9999-12-31T23:59", "is not from 1970 to 9000"),
        ("2026-12-20T00:00+25:00", "has an offset that there is not"),
    ],
)
def test_other_times_are_refused(text: str, problem: str) -> None:
    with pytest.raises(WindowError) as caught:
        parse_moment(text, BERLIN)
    assert problem in str(caught.value)


def test_a_wall_clock_needs_a_zone() -> None:
    assert parse_moment("2026-12-20T00:00Z", None) == utc(2026, 12, 20)
    with pytest.raises(WindowError, match="has no offset, and the window has no timeZone"):
        parse_moment("2026-12-20T00:00", None)
