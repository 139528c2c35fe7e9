"""What a resume does to the windows of its queue: each that is on is left out until its next beginning.

| a window of the queue's own                       | becomes                                                |
|---------------------------------------------------|--------------------------------------------------------|
| on, by `spec.inWindow` or by its calendar         | left out: an override `skip` for the occurrence, and   |
|                                                   | for each other one that overlaps it                    |
| on, though its end is past (no leader wrote that) | the same, so that the edit ends it                     |
| on, and cannot be read any more                   | stays: its name is told                                |
| on, of an ancestor                                | is not looked at: that is another queue's stop         |

A Command resumes what suspends the queue alone (`suspended_only`). `kubectl queue windows start` undoes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from queues.apimachinery.timestamps import rfc3339
from queues.states import Desired
from queues.windows.entries import CurrentWindow, read_entries
from queues.windows.overriding import ChosenOccurrence, skip
from queues.windows.reader import read_windows
from queues.windows.rules import Occurrence, latest_on
from queues.windows.stops import on_by, read_stops
from queues.windows.window import OVERRIDES, Override, Window, Windows


class Resumed(msgspec.Struct, frozen=True):
    """`overrides`: `spec.windowOverrides` from then on; None where nothing changes. `ended`, `left`: the
    windows that are left out, and those that stay on."""

    overrides: list[Any] | None = None
    ended: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def resume_windows(
    spec: Mapping[str, Any], *, now: datetime, reason: str = "", suspended_only: bool = False
) -> Resumed:
    """The table of the module. `spec`: of a Queue, in wire form. Raises `WindowError` where there is no room
    for another override."""
    if not spec.get("windows"):
        return Resumed()
    given, stops = read_windows(spec), read_stops(spec.get("windows"))
    entries = {entry.name: entry for entry in read_entries(spec.get("inWindow"))}
    readable = {window.name for window in given.windows}
    left = [
        on.window.name
        for on in on_by(entries.values(), stops)
        if on.window.name not in readable and (on.window.state is Desired.SUSPENDED or not suspended_only)
    ]
    raw = spec.get("windowOverrides")
    overrides = before = raw if isinstance(raw, list) else []
    ended = []
    for window in given.windows:
        if suspended_only and window.state is not Desired.SUSPENDED:
            continue
        changed = _without_what_is_on(
            window, spec, overrides, entries.get(window.name), now=now, reason=reason
        )
        if changed is not overrides:
            overrides = changed
            ended.append(window.name)
    return Resumed(overrides if overrides is not before else None, tuple(ended), tuple(left))


def _without_what_is_on(
    window: Window,
    spec: Mapping[str, Any],
    overrides: list[Any],
    entry: CurrentWindow | None,
    *,
    now: datetime,
    reason: str,
) -> list[Any]:
    """The overrides with a skip for each occurrence of the window that is on; the same list if none is."""
    for _ in range(OVERRIDES):
        read = read_windows({**spec, "windowOverrides": overrides})
        occurrence = latest_on(window, read.overrides, now)
        if occurrence is None:
            break
        chosen = _chosen(window, occurrence, read, is_on=True)
        overrides = skip(overrides, chosen, reason=reason, now=now).overrides or overrides
        entry = None
    if entry is None:
        return overrides
    return [*_of_others(overrides, window.name, entry), _skip_of(entry, reason=reason)]


def _chosen(window: Window, occurrence: Occurrence, read: Windows, *, is_on: bool) -> ChosenOccurrence:
    override: Override | None = next(
        (
            each
            for each in read.overrides
            if each.window == window.name and each.start == occurrence.scheduled
        ),
        None,
    )
    return ChosenOccurrence(window=window, occurrence=occurrence, override=override, is_on=is_on)


def _skip_of(entry: CurrentWindow, *, reason: str) -> dict[str, Any]:
    """Of an occurrence that is over by its calendar: any edit of the windows ends it."""
    override: dict[str, Any] = {"window": entry.name, "start": rfc3339(entry.start), "skip": True}
    return {**override, "reason": reason} if reason else override


def _of_others(overrides: list[Any], name: str, entry: CurrentWindow) -> list[Any]:
    start = rfc3339(entry.start)
    return [
        each
        for each in overrides
        if not (isinstance(each, Mapping) and each.get("window") == name and each.get("start") == start)
    ]
