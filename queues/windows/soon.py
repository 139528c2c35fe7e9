"""Which windows begin soon: for those who want to know before.

Promises
- Of each window that is off, the next occurrence alone.
- Between now and `next_soon`, `soon` gets no other one: who waits for that misses none.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from queues.windows.rules import Occurrence, occurrences_after, window_on
from queues.windows.window import Windows


def soon(given: Windows, now: datetime, within: timedelta) -> list[Occurrence]:
    """Those that begin by then, in the order of the spec."""
    return [each for each in _next_of_each(given, now) if each.start - now <= within]


def next_soon(given: Windows, now: datetime, within: timedelta) -> datetime | None:
    """When another one begins soon; None if none does. A window that is on is not asked: look at its end."""
    times = (each.start - within for each in _next_of_each(given, now))
    return min((at for at in times if at > now), default=None)


def _next_of_each(given: Windows, now: datetime) -> Iterator[Occurrence]:
    for window in given.windows:
        if window_on(window, given.overrides, now) is None:
            following = next(occurrences_after(window, given.overrides, now), None)
            if following is not None:
                yield following
