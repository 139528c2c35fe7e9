"""Schedules in five fields, as Debian's cron reads them: minute, hour, day of month, month, day of week.

| in a field                 | means                                                            |
|----------------------------|------------------------------------------------------------------|
| `*`, `5`, `1-5`, `1,3`     | each, one, a range, a list                                       |
| `*/10`, `10-40/10`, `5/10` | each tenth of them; after a number up to the end                 |
| `JAN`, `SUN`               | months and days of the week, in any case; 0 and 7 are Sunday too |
| `SAT-SUN`                  | Sunday is 7 at the end of a range                                |
| `L` as day of month        | its last day                                                     |
| `5L`, `TUE#2`              | the last Friday of the month (names, too), the second Tuesday    |

Two day fields: a day matches where either does, unless one of them is `*`. `*/2` beside a restricted day is
refused: crons disagree on what it means.

What else is refused has a text of its own (`WindowError`): other numbers of fields, `@daily`, `TZ=`, seconds,
numbers out of range, a day that no month of the schedule has.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from functools import lru_cache

import msgspec

from queues.text import printable
from queues.windows.refusals import TEXT_LIMIT, WindowError

#: Characters of a schedule: a list of each minute is shorter.
LENGTH = 300
#: Years that are looked at for a day: 29 February is on each day of the week within 28, or 40 around 2100.
YEARS = 41
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
#: How many days a month has at most.
_LONGEST = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_NUMBER = re.compile(r"[0-9]{1,4}", re.ASCII)
#: In `Schedule.weeks`: the last one of the month.
LAST = 0


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """`times`: minutes since midnight, ascending. `weekdays`: 0 is Sunday. `weeks`: days of the week with the
    number of their week in the month, `LAST` for the last.

    `every_hour`: the hour field begins with `*`: it follows the time that elapses, not the wall clock.
    """

    times: tuple[int, ...]
    every_hour: bool
    months: frozenset[int]
    days: frozenset[int]
    last_day: bool
    weekdays: frozenset[int]
    weeks: frozenset[tuple[int, int]]
    any_day: bool
    any_weekday: bool

    def matches(self, day: date) -> bool:
        return day.month in self.months and self._matches_day(day)

    def _matches_day(self, day: date) -> bool:
        if self.any_day or self.any_weekday:
            return (self.any_day or self._is_day(day)) and (self.any_weekday or self._is_weekday(day))
        return self._is_day(day) or self._is_weekday(day)

    def _is_day(self, day: date) -> bool:
        return day.day in self.days or (self.last_day and day.day == _last(day))

    def _is_weekday(self, day: date) -> bool:
        weekday = day.isoweekday() % 7
        if weekday in self.weekdays or (weekday, (day.day + 6) // 7) in self.weeks:
            return True
        return (weekday, LAST) in self.weeks and day.day + 7 > _last(day)

    def next_day(self, day: date) -> date | None:
        """The first day that matches, from this one on; None if there is none within `YEARS`."""
        end = min(day.year + YEARS, date.max.year)
        while day.year < end:
            if day.month not in self.months:
                day = _next_month(day)
            elif self._matches_day(day):
                return day
            else:
                day += timedelta(days=1)
        return None

    def last_day_before(self, day: date, *, not_before: date) -> date | None:
        """The last day that matches, from this one backwards."""
        while day >= not_before:
            if self.matches(day):
                return day
            day -= timedelta(days=1)
        return None


def _last(day: date) -> int:
    return calendar.monthrange(day.year, day.month)[1]


def _next_month(day: date) -> date:
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)


class _Field(msgspec.Struct, frozen=True):
    name: str
    first: int
    last: int
    names: Mapping[str, int] = {}
    #: Reads what only this field knows; None where it does not know it.
    special: Callable[[str], object] | None = None


@lru_cache(maxsize=4096)  # a thousand queues have the same few
def parse_schedule(text: str) -> Schedule:
    """Raises `WindowError`."""
    if len(text) > LENGTH:
        raise WindowError(f"it has {len(text)} characters, {LENGTH} at most")
    if not (text.isascii() and text.isprintable()):
        raise WindowError("it has characters other than letters, digits, spaces and * , - / #")
    fields = text.upper().split()
    if text.lstrip().startswith("@"):
        raise WindowError(f"{_shown(text)} is not known; write five fields, as 0 2 * * SUN")
    if any("=" in field for field in fields):
        raise WindowError("it sets a variable; the time zone is in timeZone")
    if len(fields) != 5:
        raise WindowError(
            f"it has {len(fields)} fields and not five: minute, hour, day of month, month, day of week"
        )
    minutes, _ = _numbers(_MINUTE, fields[0])
    hours, _ = _numbers(_HOUR, fields[1])
    days, last_day = _numbers(_DAY, fields[2])
    months, _ = _numbers(_MONTH, fields[3])
    weekdays, weeks = _numbers(_WEEKDAY, fields[4])
    _refuse_steps_beside_a_day(fields[2], fields[4])
    schedule = Schedule(
        times=tuple(60 * hour + minute for hour in sorted(hours) for minute in sorted(minutes)),
        every_hour=fields[1].startswith("*"),
        months=frozenset(months),
        days=frozenset(days),
        last_day=bool(last_day),
        weekdays=frozenset(weekday % 7 for weekday in weekdays),
        weeks=frozenset(week for week in weeks if isinstance(week, tuple)),
        any_day=fields[2].startswith("*") and len(days) == 31,
        any_weekday=fields[4].startswith("*") and len({weekday % 7 for weekday in weekdays}) == 7,
    )
    _refuse_days_that_never_come(schedule)
    return schedule


def _numbers(field: _Field, text: str) -> tuple[set[int], list[object]]:
    """The numbers that a field names, and what only this field knows."""
    numbers: set[int] = set()
    special: list[object] = []
    for term in text.split(","):
        known = field.special(term) if field.special is not None else None
        if known is not None:
            special.append(known)
        else:
            numbers.update(_range(field, term))
    return numbers, special


def _range(field: _Field, term: str) -> Sequence[int]:
    body, slash, step_text = term.partition("/")
    step = _step(field, step_text) if slash else 1
    first_text, dash, last_text = body.partition("-")
    if body == "*":
        first, last = field.first, field.last
    elif dash:
        first, last = _number(field, first_text), _number(field, last_text)
        if field is _WEEKDAY and last == 0:
            last = 7
    else:
        first = _number(field, body)
        last = field.last if slash else first
    if last < first:
        raise WindowError(f"{field.name} {_shown(body)} ends before it begins")
    return range(first, last + 1, step)


def _number(field: _Field, text: str) -> int:
    if text in field.names:
        return field.names[text]
    if not _NUMBER.fullmatch(text):
        raise WindowError(f"{field.name} {_shown(text)} is not known")
    number = int(text)
    if not field.first <= number <= field.last:
        raise WindowError(f"{field.name} {number} is not from {field.first} to {field.last}")
    return number


def _step(field: _Field, text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) == 0:
        raise WindowError(f"{field.name} has step {_shown(text)}, which is no number above 0")
    return int(text)


def _special_day(term: str) -> object:
    return True if term == "L" else None


def _special_weekday(term: str) -> object:
    """`TUE#2`, `5L`."""
    name, sharp, number = term.partition("#")
    if sharp:
        if number not in ("1", "2", "3", "4", "5"):
            raise WindowError(f"day of week {_shown(term)} names no week from 1 to 5")
        return _number(_WEEKDAY, name) % 7, int(number)
    if len(term) > 1 and term.endswith("L"):
        return _number(_WEEKDAY, term[:-1]) % 7, LAST
    return None


_MINUTE = _Field("minute", 0, 59)
_HOUR = _Field("hour", 0, 23)
_DAY = _Field("day of month", 1, 31, special=_special_day)
_MONTH = _Field("month", 1, 12, names={name: number for number, name in enumerate(_MONTHS, 1)})
_WEEKDAY = _Field(
    "day of week", 0, 7, names={name: number for number, name in enumerate(_DAYS)}, special=_special_weekday
)


def _refuse_steps_beside_a_day(day: str, weekday: str) -> None:
    for stepped, other, name in ((day, weekday, "day of month"), (weekday, day, "day of week")):
        if stepped.startswith("*/") and other != "*":
            raise WindowError(
                f"{name} {_shown(stepped)} beside another restricted day is read differently by each cron;"
                " write a list of days, or two windows"
            )


def _refuse_days_that_never_come(schedule: Schedule) -> None:
    """30 February, and the like. A day of the week brings its days with it."""
    if schedule.last_day or not schedule.days or not schedule.any_weekday:
        return
    longest = max(_LONGEST[month - 1] for month in schedule.months)
    if min(schedule.days) > longest:
        raise WindowError(f"none of its months has a day {min(schedule.days)}")


def _shown(text: str) -> str:
    return printable(text, limit=TEXT_LIMIT)
