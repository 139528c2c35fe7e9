"""Windows for tests: schedules, zones, and dates where clocks change."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from queues.windows.reader import read_windows
from queues.windows.window import Windows
from queues.windows.zones import time_zone
from tests.queues.windows.calendar_oracle import Fields

#: Whose clocks change at 2, at 3, at midnight, by half an hour, by two hours, over midnight (St. John's until
#: 2011), around Ramadan, by a whole day (Apia in 2011), or never.
ZONES = (
    *("Europe/Berlin", "Europe/London", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe"),
    *("Antarctica/Troll", "America/St_Johns", "Africa/Casablanca", "Pacific/Apia", "Asia/Kathmandu"),
    *("Asia/Beirut", "America/Havana"),
)
FIRST, LAST = datetime(2004, 1, 1, tzinfo=UTC), datetime(2032, 1, 1, tzinfo=UTC)


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


def windows(*given: dict[str, Any], overrides: tuple[dict[str, Any], ...] = ()) -> Windows:
    """Each is `Hold`, unless it says more, and named by its place."""
    spec = [{"name": f"w{number}", "stopPolicy": "Hold", **each} for number, each in enumerate(given)]
    read = read_windows({"windows": spec, "windowOverrides": list(overrides)})
    assert read.refusals == ()
    return read


def weekly(schedule: str, duration: str, zone: str = "Europe/Berlin", /, **more: Any) -> dict[str, Any]:
    return {"schedule": schedule, "duration": duration, "timeZone": zone, **more}


@cache
def changes(zone: ZoneInfo) -> list[datetime]:
    """About when the clocks of a zone change: the days before."""
    found, day = [], FIRST
    while day < LAST:
        following = day + timedelta(days=1)
        if day.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
            found.append(day)
        day = following
    return found


def moments(zone: ZoneInfo) -> st.SearchStrategy[datetime]:
    """Most often near a change of the clocks."""
    anywhere = _from(FIRST, st.integers(0, (LAST - FIRST) // timedelta(minutes=1)))
    near = changes(zone)
    if not near:
        return anywhere
    days = st.sampled_from(near)
    around = days.flatmap(lambda day: _from(day, st.integers(-1440, 2880)))
    return st.one_of(around, around, around, anywhere)


def _from(moment: datetime, minutes: st.SearchStrategy[int]) -> st.SearchStrategy[datetime]:
    return minutes.map(lambda number: moment + timedelta(minutes=number))


def zones() -> st.SearchStrategy[ZoneInfo]:
    return st.sampled_from(ZONES).map(time_zone)


def _some(first: int, last: int, most: int) -> st.SearchStrategy[frozenset[int]]:
    return st.frozensets(st.integers(first, last), min_size=1, max_size=most)


def fields() -> st.SearchStrategy[Fields]:
    """Most often in the small hours, each day."""
    return st.builds(
        Fields,
        minutes=st.one_of(_some(0, 59, 3), st.just(frozenset({0})), st.none()),
        hours=st.one_of(_some(0, 4, 3), _some(0, 23, 4), st.none()),
        days=st.one_of(st.none(), st.none(), _some(1, 28, 12)),
        months=st.one_of(st.none(), st.none(), _some(1, 12, 8)),
        weekdays=st.one_of(st.none(), _some(0, 6, 5)),
    )
