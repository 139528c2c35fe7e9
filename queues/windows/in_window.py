"""What is written into `spec.inWindow` at each edge. The verdict reads that, and no clock.

An acknowledgement rests on versions that every replica has seen. A stop that began because a clock went by
could never be acknowledged, so both edges are writes: the leader applies `in_window` at each, the webhook at
every edit.

| the window, at this moment               | was written | so                                         |
|------------------------------------------|-------------|--------------------------------------------|
| is on, for `SHORTEST_LEFT` or longer     | no          | STARTED: it is written                     |
| is on, and ends sooner, but began just   | no          | STARTED: such a window is short            |
| now (`PUNCTUAL`)                         |             |                                            |
| is on, and ends sooner                   | no          | MISSED: who comes so late stops nothing    |
| is on, and has been since it was written | yes         | it stays, with the end that it has now     |
| is on anew, and nobody wrote the end     | yes         | ENDED and STARTED, or MISSED               |
| is off                                   | yes         | ENDED, at its end or with an edit          |
| begins in less than `CLOCKS`             | yes         | it stays: a clock went back, or two differ |
| is in the spec no more                   | yes         | ENDED, with that edit                      |

Promises
- It follows from its arguments alone, so a restart changes nothing. Applied twice it changes nothing.
- Without a leader at the end of a window it stays stopped: `overdue` says so, and an alert with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import msgspec

from queues.windows.entries import CurrentWindow, read_entries
from queues.windows.reader import read_windows
from queues.windows.rules import On, window_on
from queues.windows.window import Windows

#: What is left of a window that is begun late.
SHORTEST_LEFT = timedelta(seconds=60)
#: Who writes it within this time of its beginning is not late.
PUNCTUAL = timedelta(seconds=10)
#: By how much clocks may differ, or go back.
CLOCKS = timedelta(minutes=5)


class Happened(StrEnum):
    """The reasons of events."""

    STARTED = "WindowStarted"
    ENDED = "WindowEnded"
    MISSED = "WindowMissed"


class WindowChange(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a window."""

    window: str
    what: Happened


class InWindow(msgspec.Struct, frozen=True):
    """What is to be written, in the order of the spec, and what changes by it."""

    entries: tuple[CurrentWindow, ...]
    changes: tuple[WindowChange, ...]


def in_window(given: Windows, written: Sequence[CurrentWindow], now: datetime) -> InWindow:
    """The table of the module."""
    before = {entry.name: entry for entry in written}
    entries: list[CurrentWindow] = []
    changes: list[WindowChange] = []
    for window in given.windows:
        name, old = window.name, before.pop(window.name, None)
        on = window_on(window, given.overrides, now)
        if on is None and old is not None and timedelta() < old.start - now < CLOCKS:
            on = window_on(window, given.overrides, old.start)
        entry = _entry(on, old, now)
        if old is not None and (entry is None or entry.start != old.start):
            changes.append(WindowChange(window=name, what=Happened.ENDED))
        if entry is not None:
            entries.append(entry)
            if old is None or entry.start != old.start:
                changes.append(WindowChange(window=name, what=Happened.STARTED))
        elif on is not None:
            changes.append(WindowChange(window=name, what=Happened.MISSED))
    changes += (WindowChange(window=name, what=Happened.ENDED) for name in before)
    return InWindow(tuple(entries), tuple(changes))


def _entry(on: On | None, old: CurrentWindow | None, now: datetime) -> CurrentWindow | None:
    """What is written of a window that is on; None if nothing is."""
    if on is None:
        return None
    if old is not None and old.until >= on.since:
        return CurrentWindow(name=old.name, start=old.start, until=on.until)
    if on.until - now < SHORTEST_LEFT and now - on.since > PUNCTUAL:
        return None
    return CurrentWindow(name=on.window.name, start=on.since, until=on.until)


def written_on(spec: Mapping[str, Any]) -> tuple[On, ...]:
    """The windows that are on, as `spec.inWindow` says, for who shows them. Those that cannot be read are
    left out."""
    entries = {entry.name: entry for entry in read_entries(spec.get("inWindow"))}
    windows = read_windows(spec).windows if entries else ()
    return tuple(
        On(window=window, since=entries[window.name].start, until=entries[window.name].until)
        for window in windows
        if window.name in entries
    )


def overdue(given: Windows, written: Sequence[CurrentWindow], now: datetime) -> int:
    """How many windows should have been begun or ended by now, and were not."""
    return len(
        {change.window for change in in_window(given, written, now).changes if change.what != Happened.MISSED}
    )
