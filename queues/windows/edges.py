"""A queue's windows as its spec has them: what is to be written now, and when to look again.

| a window that is written                     | so                                              |
|----------------------------------------------|-------------------------------------------------|
| can be read                                  | `queues.windows.in_window` says what            |
| cannot be read any more, its end is to come  | it stays (say, its time zone was renamed)       |
| the same, its end is past                    | it goes                                         |
| is in the spec no more                       | it goes                                         |

Promises
- `settle` follows from its arguments alone; applied twice it changes nothing.
- Between now and `next_look`, `settle` says the same: who waits for that misses nothing.
- What is read is bounded, whatever is stored (`queues.windows.reader`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from queues.windows.entries import CurrentWindow
from queues.windows.in_window import Happened, InWindow, WindowChange, in_window
from queues.windows.reader import read_windows
from queues.windows.rules import is_start, next_edge
from queues.windows.stops import read_stops
from queues.windows.window import Override, Windows


class Calendar(msgspec.Struct, frozen=True):
    """`given`: the windows that can be read, and their overrides. `unread`: the names of the others."""

    given: Windows
    unread: frozenset[str]


def read_calendar(spec: Mapping[str, Any]) -> Calendar:
    """Of a Queue's `spec` in wire form."""
    given = read_windows(spec)
    names = {stop.name for stop in read_stops(spec.get("windows"))}
    return Calendar(given, frozenset(names - {window.name for window in given.windows}))


def settle(calendar: Calendar, written: Sequence[CurrentWindow], now: datetime) -> InWindow:
    """The table of the module."""
    stays = tuple(entry for entry in written if entry.name in calendar.unread and entry.until > now)
    found = in_window(calendar.given, [entry for entry in written if entry not in stays], now)
    return InWindow((*found.entries, *stays), found.changes) if stays else found


def missed(changes: Sequence[WindowChange]) -> list[str]:
    """The windows that began, and end too soon to be written."""
    return [change.window for change in changes if change.what == Happened.MISSED]


def next_look(calendar: Calendar, written: Sequence[CurrentWindow], now: datetime) -> datetime | None:
    """When something may change; None if nothing will. Not before `now`."""
    edge = next_edge(calendar.given, now)
    skips = (override.start for override in calendar.given.overrides if override.skip)
    times = [*(entry.until for entry in written), *(start for start in skips if start > now)]
    if edge is not None:
        times.append(edge.at)
    return max(min(times), now) if times else None


def skipped_between(calendar: Calendar, after: datetime, until: datetime) -> list[Override]:
    """The occurrences that would have begun in this time, and are left out."""
    windows = {window.name: window for window in calendar.given.windows}
    return [
        each
        for each in calendar.given.overrides
        if each.skip and after < each.start <= until and is_start(windows[each.window], each.start)
    ]
