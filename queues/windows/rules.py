"""When a window is on, and what is next.

| case                                    | rule                                                         |
|-----------------------------------------|--------------------------------------------------------------|
| windows overlap, or the spec has a stop | the strictest; on a tie the spec is named, then the one that |
|                                         | lasts longest (`queues.windows.stops`)                       |
| one ends where the next one begins      | no moment between them: a window is on at its beginning, and |
|                                         | off at its end                                               |
| a wall clock is skipped (summer begins) | it begins at the first moment after the gap                  |
| a wall clock is there twice             | it begins at the first of the two                            |
| the hour field begins with `*`          | it begins in both hours, and in no hour that is skipped      |
| `duration`                              | as time elapses: two hours are two hours in every night      |
| it lasts longer than its period         | it goes on, and its end moves on (`On.until`)                |
| it is never off within a year           | refused (`never_off`): that is a stop, and no window         |
| it would begin in a span of `except`    | it does not begin; what began before goes on                 |
| `from` and `until` beside a schedule    | it begins in between, and ends when it ends                  |
| an override                             | its occurrence alone is left out, begins early, or ends      |
|                                         | otherwise                                                    |

Moments, in UTC and in 2026, which the tests have too:

| schedule                                          | on                                                |
|---------------------------------------------------|---------------------------------------------------|
| `0 2 * * SUN` Europe/Berlin 2h, 29 March          | 01:00 to 03:00                                    |
| the same, 25 October                              | 00:00 to 02:00                                    |
| `30 2 * * *` Europe/Berlin 2h, 25 October         | 00:30 to 02:30; next 26 October 01:30             |
| `0 3 * * TUE#2` Europe/London 4h                  | 13 October 02:00 to 06:00, 10 November 03:00 to   |
|                                                   | 07:00                                             |
| from 2026-12-20T00:00 until 2027-01-04T00:00      | 19 December 23:00 to 3 January 23:00              |
| Europe/Berlin                                     |                                                   |

Costs: a look at a window and its next edge is some dates and one bisection, however late it is. Nothing
is looked at each second: who keeps `next_edge` of each queue waits for the earliest. What takes longer, of
many overrides, spans of `except`, or occurrences that overlap, is kept with the window (`window.Known`) for
as long as it is true: one look asks the same several times, and the next look much of the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice

import msgspec

from queues.windows.recurrence import TICK, last_by_schedule, next_by_schedule
from queues.windows.window import OVERRIDES, Override, Span, Window, Windows

#: Occurrences that overlap each other and are looked at for one end. It moves on from there.
CHAIN = 100


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """`scheduled`: when it begins by its schedule, by which an override names it."""

    window: str
    scheduled: datetime
    start: datetime
    end: datetime


class On(msgspec.Struct, frozen=True, kw_only=True):
    """A window that is on. `since`: when the latest occurrence began. `until`: when it goes off."""

    window: Window
    since: datetime
    until: datetime


class Edge(msgspec.Struct, frozen=True, kw_only=True):
    """A window begins, or goes off or is to be looked at anew."""

    at: datetime
    window: str
    begins: bool


# What users ask


def windows_on(given: Windows, at: datetime) -> tuple[On, ...]:
    """The windows that are on, in the order of the spec."""
    found = (window_on(window, given.overrides, at) for window in given.windows)
    return tuple(each for each in found if each is not None)


def next_edge(given: Windows, after: datetime) -> Edge | None:
    """The first edge after a moment; None if there is none any more."""
    edges = (window_edge(window, given.overrides, after) for window in given.windows)
    return min((edge for edge in edges if edge is not None), key=lambda edge: edge.at, default=None)


def coming(given: Windows, after: datetime, *, number: int) -> list[Occurrence]:
    """The next occurrences of all windows that begin after a moment, in their order."""
    found = [
        occurrence
        for window in given.windows
        for occurrence in islice(occurrences_after(window, given.overrides, after), number)
    ]
    return sorted(found, key=lambda each: (each.start, each.window))[:number]


# One window


def window_on(window: Window, overrides: Sequence[Override], at: datetime) -> On | None:
    """The window, if it is on."""
    known = window.known.on
    if known is not None and known[0] is overrides and known[1] == at:
        on: On | None = known[2]
        return on
    current = latest_on(window, overrides, at)
    on = None
    if current is not None:
        on = On(window=window, since=current.start, until=_end_of_chain(window, overrides, current))
    if isinstance(overrides, tuple):
        window.known.on = overrides, at, on
    return on


def window_edge(window: Window, overrides: Sequence[Override], after: datetime) -> Edge | None:
    """Its next edge after a moment."""
    on = window_on(window, overrides, after)
    if on is not None:
        return Edge(at=on.until, window=window.name, begins=False)
    following = next(occurrences_after(window, overrides, after), None)
    return Edge(at=following.start, window=window.name, begins=True) if following is not None else None


def occurrences_after(window: Window, overrides: Sequence[Override], after: datetime) -> Iterator[Occurrence]:
    """Its occurrences that begin after a moment, in their order."""
    changed = sorted(_changed(window, overrides), key=lambda each: each.start)
    waiting = [each for each in changed if each.start > after]
    for start in _starts_after(window, overrides, after):
        while waiting and waiting[0].start <= start:
            yield waiting.pop(0)
        yield _plain(window, start)
    yield from waiting


def latest_on(window: Window, overrides: Sequence[Override], at: datetime) -> Occurrence | None:
    """Of the occurrences that are on, the one that ends last."""
    found = [each for each in _changed(window, overrides) if each.start <= at < each.end]
    start = _last_start(window, overrides, at)
    if start is not None and at < (plain := _plain(window, start)).end:
        found.append(plain)
    return max(found, key=lambda each: (each.end, each.start), default=None)


def _end_of_chain(window: Window, overrides: Sequence[Override], current: Occurrence) -> datetime:
    """When it goes off: what begins while it is on, or right then, moves that on."""
    known = window.known.chain
    if known is not None and known[0] is overrides and known[1] <= current.start and current.end <= known[2]:
        return known[2]
    end, is_whole = current.end, False
    following = occurrences_after(window, overrides, current.start)
    for number, occurrence in enumerate(following):
        if number == CHAIN:
            break
        if occurrence.start > end:
            is_whole = True
            break
        end = max(end, occurrence.end)
    else:
        is_whole = True
    if is_whole and isinstance(overrides, tuple):
        window.known.chain = overrides, current.start, end
    return end


def _plain(window: Window, start: datetime) -> Occurrence:
    """The occurrence that begins then by the schedule."""
    when = window.when
    end = when.end if isinstance(when, Span) else start + when.duration
    return Occurrence(window=window.name, scheduled=start, start=start, end=end)


def _changed(window: Window, overrides: Sequence[Override]) -> Iterator[Occurrence]:
    """The occurrences that an override changes, and that there are by the schedule."""
    for override in overrides:
        if override.window == window.name and not override.skip and is_start(window, override.start):
            plain = _plain(window, override.start)
            yield Occurrence(
                window=window.name,
                scheduled=plain.scheduled,
                start=override.begin or plain.start,
                end=override.end or plain.end,
            )


def is_start(window: Window, moment: datetime) -> bool:
    """Whether it begins then by its schedule."""
    starts = window.known.starts
    known = starts.get(moment)
    if known is None:
        if len(starts) >= OVERRIDES:
            starts.clear()
        known = starts[moment] = next(_starts_after(window, (), moment - TICK), None) == moment
    return known


def _starts_after(window: Window, overrides: Sequence[Override], after: datetime) -> Iterator[datetime]:
    """When it begins by its schedule, without the occurrences that an override is for."""
    overridden = _overridden(window, overrides)
    moment = _next_start(window, after)
    while moment is not None:
        if moment not in overridden:
            yield moment
        moment = _next_start(window, moment)


def _overridden(window: Window, overrides: Sequence[Override]) -> frozenset[datetime]:
    return frozenset(each.start for each in overrides if each.window == window.name)


def _next_start(window: Window, after: datetime) -> datetime | None:
    """The next moment at which it begins, but for overrides."""
    known = window.known.following
    if known is not None and known[0] <= after and (known[1] is None or after < known[1]):
        return known[1]
    asked = after
    while (start := _next_anyway(window, after)) is not None:
        span = next((span for span in window.excepts if start in span), None)
        if span is None:
            break
        after = span.end - TICK
    window.known.following = asked, start
    return start


def _next_anyway(window: Window, after: datetime) -> datetime | None:
    """Excepts left aside."""
    if isinstance(window.when, Span):
        return window.when.start if window.when.start > after else None
    return next_by_schedule(window.when, after)


def _last_start(window: Window, overrides: Sequence[Override], at: datetime) -> datetime | None:
    """The last moment up to `at` at which it began, and from which it could be on."""
    when, overridden = window.when, _overridden(window, overrides)
    if isinstance(when, Span):
        is_left_out = when.start in overridden or any(when.start in span for span in window.excepts)
        return when.start if when.start <= at and not is_left_out else None
    moment = at
    while (start := last_by_schedule(when, moment, not_before=at - when.duration)) is not None:
        span = next((span for span in window.excepts if start in span), None)
        if span is None and start not in overridden:
            return start
        moment = (span.start if span is not None else start) - TICK
    return None
