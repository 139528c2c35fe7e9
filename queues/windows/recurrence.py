"""When a schedule begins in its time zone: the next moment after one, and the last one up to it.

On a day on which no clock is changed the moments are midnight and the minutes since then. On the few others
each wall clock is looked at by itself (`queues.windows.zones`). Where clocks go back over midnight, the wall
clock shows the end of a day again after the next day has begun, so that two days are looked at together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from queues.windows.refusals import Refusal
from queues.windows.window import Recurrence, Windows
from queues.windows.zones import local_time, moment_of, moments_of

TICK = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_YEAR = 366 * _DAY


def next_by_schedule(recurs: Recurrence, after: datetime) -> datetime | None:
    """The first moment after this one at which it begins."""
    if recurs.first is not None and after < recurs.first:
        after = recurs.first - TICK
    start = _next_unbounded(recurs, after)
    return start if start is not None and (recurs.end is None or start < recurs.end) else None


def last_by_schedule(recurs: Recurrence, at: datetime, *, not_before: datetime) -> datetime | None:
    """The last moment up to this one at which it began, after `not_before`."""
    if recurs.end is not None and at >= recurs.end:
        at = recurs.end - TICK
    schedule, zone = recurs.schedule, recurs.zone
    earliest = local_time(not_before, zone).date() - _DAY
    found: datetime | None = None
    day: date | None = local_time(at, zone).date() + _DAY
    while day is not None and (day := schedule.last_day_before(day, not_before=earliest)) is not None:
        starts = _starts_of(recurs, day)
        place = bisect_right(starts, at)
        if place:
            found = max(starts[place - 1], found or starts[0])
        if found is not None and not _goes_back_over_midnight(day - _DAY, zone):
            break
        day -= _DAY
    if found is None or found <= not_before or (recurs.first is not None and found < recurs.first):
        return None
    return found


def _next_unbounded(recurs: Recurrence, after: datetime) -> datetime | None:
    schedule, zone = recurs.schedule, recurs.zone
    found: datetime | None = None
    day: date | None = local_time(after, zone).date() - _DAY
    while day is not None and (day := schedule.next_day(day)) is not None:
        starts = _starts_of(recurs, day)
        place = bisect_right(starts, after)
        if place < len(starts):
            found = min(starts[place], found or starts[-1])
        if found is not None and not _goes_back_over_midnight(day, zone):
            break
        day += _DAY
    return found


@lru_cache(maxsize=8192)  # a thousand queues look at the same days of a few zones
def _midnights(day: date, zone: ZoneInfo) -> tuple[datetime, bool, bool]:
    """When the day begins, whether no clock is changed on it, and whether clocks go back over its end: then
    the wall clock shows some of it again after the next day has begun."""
    midnight = datetime.combine(day, time())
    first, last = moment_of(midnight, zone), moment_of(midnight + _DAY, zone)
    is_plain = last - first == _DAY and local_time(first, zone) == midnight
    return first, is_plain, not is_plain and bool(moments_of(midnight + _DAY, zone)[1:])


def _goes_back_over_midnight(day: date, zone: ZoneInfo) -> bool:
    return _midnights(day, zone)[2]


class _DayStarts(Sequence[datetime]):
    """The moments of a day on which no clock is changed, without making them all."""

    def __init__(self, midnight: datetime, times: tuple[int, ...]) -> None:
        self._midnight = midnight
        self._times = times

    def __len__(self) -> int:
        return len(self._times)

    def __getitem__(self, place: int) -> datetime:  # type: ignore[override] # no slices
        return self._midnight + timedelta(minutes=self._times[place])


def _starts_of(recurs: Recurrence, day: date) -> Sequence[datetime]:
    """The moments at which it begins on a day that matches, ascending."""
    zone, schedule = recurs.zone, recurs.schedule
    first, is_plain, _ = _midnights(day, zone)
    if is_plain:
        return _DayStarts(first, schedule.times)
    return _starts_on_a_change(schedule.times, day, zone, every_hour=schedule.every_hour)


@lru_cache(maxsize=256)  # all that end together look at the same day
def _starts_on_a_change(
    times: tuple[int, ...], day: date, zone: ZoneInfo, *, every_hour: bool
) -> Sequence[datetime]:
    midnight = datetime.combine(day, time())
    clocks = [midnight + timedelta(minutes=minutes) for minutes in times]
    if every_hour:
        return sorted({moment for clock in clocks for moment in moments_of(clock, zone)})
    return sorted({moment_of(clock, zone) for clock in clocks})


def never_off(given: Windows, now: datetime) -> list[Refusal]:
    """The windows that are on for a whole year from their next beginning, and those that never begin.

    For who writes them; nobody else needs it.
    """
    refusals = []
    for number, window in enumerate(given.windows):
        if isinstance(window.when, Recurrence):
            path, start = f"spec.windows[{number}].schedule", next_by_schedule(window.when, now)
            if start is None:
                refusals.append(Refusal(path, window.name, "it never begins"))
            elif window.when.end is None and _is_on_for_a_year(window.when, start):
                problem = "it is never off within a year: stop the queue instead"
                refusals.append(Refusal(path, window.name, problem))
    return refusals


def _is_on_for_a_year(recurs: Recurrence, start: datetime) -> bool:
    """Whether from `start` on each occurrence begins before the one before it has ended."""
    times, duration = recurs.schedule.times, recurs.duration
    widest = timedelta(minutes=max((after - before for before, after in pairwise(times)), default=0))
    reached, day = start, local_time(start, recurs.zone).date()
    while reached < start + _YEAR:
        if day > local_time(reached, recurs.zone).date():
            return False
        starts = _starts_of(recurs, day) if recurs.schedule.matches(day) else ()
        if isinstance(starts, _DayStarts) and widest <= duration and starts[0] >= start:
            starts = (starts[0], starts[-1]) if starts[0] <= reached else starts  # those between overlap
            if starts[0] > reached:
                return False
            reached = max(reached, starts[-1] + duration)
        else:
            for moment in starts:
                if moment > reached:
                    return False
                reached = max(reached, moment + duration) if moment >= start else reached
        day += _DAY
    return True
