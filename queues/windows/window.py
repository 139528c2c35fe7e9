"""Windows and their overrides, as values.

Five lines of YAML are a window:

    windows:
      - name: nightly
        schedule: 0 2 * * SUN
        duration: 2h
        timeZone: Europe/Berlin
        stopPolicy: HoldAndDrain

| field             | what it says                                                                       |
|-------------------|------------------------------------------------------------------------------------|
| `name`            | by which edits, overrides and people name it; one of each in a queue               |
| `schedule`        | when it begins (`queues.windows.schedule`); with `duration` and `timeZone`         |
| `duration`        | for how long, as time elapses: 1m to 31 days                                       |
| `from`, `until`   | alone: a freeze, from one moment to another. Beside a schedule: it begins between  |
| `except`          | spans `from`, `until`, `reason` in which it does not begin                         |
| `state`           | `Suspended`, while it is on; `Closed` is refused, for a close has no end           |
| `stopPolicy`      | `Hold` or `HoldAndDrain`; of both fields one at least                              |
| `reason`, `drain` | as in the spec; `drain.deadlineAfter` counts from the beginning, for `deadline`    |

An override is for one occurrence, by the moment at which that begins by its schedule: `{window, start}` with
`skip: true`, or with an earlier `from` or another `until`, and a `reason`.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from queues.states import Desired, StopPolicy
from queues.windows.refusals import Refusal
from queues.windows.schedule import Schedule

#: Of one queue; and spans in `except` of one window.
WINDOWS, OVERRIDES, EXCEPTS = 16, 64, 16


class Span(msgspec.Struct, frozen=True):
    """From a moment up to another, which is not in it any more."""

    start: datetime
    end: datetime
    reason: str = ""

    def __contains__(self, moment: datetime) -> bool:
        return self.start <= moment < self.end


class Recurrence(msgspec.Struct, frozen=True, kw_only=True):
    """`first`, `end`: it begins at the first or later, and before the end; None without a bound."""

    schedule: Schedule
    duration: timedelta
    zone: ZoneInfo
    first: datetime | None = None
    end: datetime | None = None


class Known(msgspec.Struct, kw_only=True):
    """What was worked out of a window and stays true: it is a function of the window, and of what is kept
    beside it. Any thread may put another one in its place.

    `starts`: whether it begins then by its schedule. `following`: a moment, and when it begins next after
    that. `on`: overrides, a moment, and how it was on then. `chain`: overrides, when the first of some
    occurrences that overlap began, and when the last ends.
    """

    starts: dict[datetime, bool] = {}
    following: tuple[datetime, datetime | None] | None = None
    on: tuple[tuple[Override, ...], datetime, Any] | None = None
    chain: tuple[tuple[Override, ...], datetime, datetime] | None = None


class Window(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """`when`: a span for a freeze."""

    name: str
    when: Recurrence | Span
    excepts: tuple[Span, ...] = ()
    state: Desired | None = None
    stop_policy: StopPolicy = StopPolicy.NONE
    reason: str = ""
    deadline_after: timedelta | None = None
    zone: ZoneInfo | None = None

    @cached_property
    def known(self) -> Known:
        return Known()


class Override(msgspec.Struct, frozen=True, kw_only=True):
    """Of one occurrence of `window`: left out, or begun at `begin`, or ended at `end`."""

    window: str
    start: datetime
    skip: bool = False
    begin: datetime | None = None
    end: datetime | None = None
    reason: str = ""


class Windows(msgspec.Struct, frozen=True):
    """What could be read, and what could not."""

    windows: tuple[Window, ...] = ()
    overrides: tuple[Override, ...] = ()
    refusals: tuple[Refusal, ...] = ()
