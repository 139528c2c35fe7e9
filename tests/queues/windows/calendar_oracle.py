"""A slow second opinion on when schedules begin: it looks at each minute, and shares nothing with the rules.

It takes a schedule as sets of numbers, so it does not read the text either. Offsets from UTC are whole
minutes in all years that tests ask for.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)


class Fields(NamedTuple):
    """None: each. `weekdays`: 0 is Sunday."""

    minutes: frozenset[int] | None
    hours: frozenset[int] | None
    days: frozenset[int] | None
    months: frozenset[int] | None
    weekdays: frozenset[int] | None

    def text(self) -> str:
        return " ".join("*" if each is None else ",".join(map(str, sorted(each))) for each in self)

    def has_day(self, day: date) -> bool:
        if self.months is not None and day.month not in self.months:
            return False
        weekday = (day.weekday() + 1) % 7
        if self.days is None or self.weekdays is None:
            return (self.days is None or day.day in self.days) and (
                self.weekdays is None or weekday in self.weekdays
            )
        return day.day in self.days or weekday in self.weekdays

    def shows(self, clock: datetime) -> bool:
        return (
            (self.minutes is None or clock.minute in self.minutes)
            and (self.hours is None or clock.hour in self.hours)
            and self.has_day(clock.date())
        )


def starts(fields: Fields, zone: ZoneInfo, begin: datetime, end: datetime) -> list[datetime]:
    """The moments from `begin` up to `end` at which the schedule begins."""
    found = _each_hour(fields, zone, begin, end) if fields.hours is None else _fixed(fields, zone, begin, end)
    return sorted({moment for moment in found if begin <= moment < end})


def _each_hour(fields: Fields, zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    """Whenever a clock shows it."""
    for moment, clock in _clocks(zone, begin, end):
        if fields.shows(clock):
            yield moment


def _fixed(fields: Fields, zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[datetime]:
    """Each wall clock once: when it is first shown, or when a later one is shown instead."""
    reached: datetime | None = None
    for moment, clock in _clocks(zone, begin - timedelta(days=2), end):
        if reached is not None and clock <= reached:
            continue  # shown before
        passed = clock if reached is None else reached + MINUTE
        while passed <= clock:
            if fields.shows(passed):
                yield moment
            passed += MINUTE
        reached = clock


def _clocks(zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Each whole minute, and what the wall clock shows then."""
    moment = begin.astimezone(UTC).replace(second=0, microsecond=0)
    while moment < end:
        yield moment, moment.astimezone(zone).replace(tzinfo=None)
        moment += MINUTE
