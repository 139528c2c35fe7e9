"""What an edit of a Queue does to its windows: whether it may be stored, what is on after it, what it says.

Whether it may be stored, where that takes both fields, and the time (`window_refusal`).

Each window by itself, and the shape of each override: the checks of the table (`queues.fields.windows`).

| the edit                                               | is refused |
|--------------------------------------------------------|------------|
| has an override that its window cannot be found for    | yes        |
| has an override whose times cannot be read             | yes        |
| has a window that never begins, or never ends in a year| yes        |
| leaves such a one as it is stored                      | no         |

What is on after it (`settle_edit`). So a queue that is made inside a window is stopped from its first version
on, and an edit of a window counts in the version that makes it.

| the edit                            | `spec.inWindow`                                                    |
|-------------------------------------|--------------------------------------------------------------------|
| creates a queue                     | what its windows say now                                           |
| changes a window, or an override    | the same, by what was on before                                    |
| changes neither                     | as it was, whatever its author wrote; the server's own: as written |

Each edge but these is a write of the leader. An override goes with the window that an edit removes: else a
Git repository could remove none for which people have left out an occurrence.

Each row that holds says its sentence:

| the edit                                              | says                                             |
|-------------------------------------------------------|--------------------------------------------------|
| ends a window that is on                              | that, and until when it was                      |
| begins one                                            | that, until when, and what it sets               |
| leaves it on, with another end, or another stop       | both                                             |
| begins one that ends within a minute                  | that it stops nothing any more                   |
| takes overrides away with their window                | how many                                         |
| has an override for no occurrence of its window       | that it changes nothing                          |
| writes `spec.inWindow`                                | that this is the server's                        |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from queues.admission.stop_edits import LENGTH
from queues.apimachinery.timestamps import rfc3339
from queues.fields.windows import faults_text
from queues.text import printable, quoted, truncated
from queues.windows.edges import Calendar, missed, read_calendar, settle
from queues.windows.entries import CurrentWindow, read_entries, to_wire
from queues.windows.in_window import InWindow
from queues.windows.reader import read_windows
from queues.windows.recurrence import never_off
from queues.windows.rules import is_start
from queues.windows.stops import read_stops, what_it_sets
from queues.windows.window import OVERRIDES as LIMIT

WINDOWS, OVERRIDES, IN_WINDOW = "windows", "windowOverrides", "inWindow"
FIELDS = (WINDOWS, OVERRIDES)
_NAME = 63
_NOT_YOURS = "spec.inWindow is written by the server alone: what this edit writes there is left out"


def window_refusal(before: Mapping[str, Any], after: Mapping[str, Any], *, now: datetime) -> str | None:
    """The table of the module. `before`: the spec as it was, {} for a new queue."""
    if not touches_windows(before, after):
        return None
    known = {(fault.name, fault.problem) for fault in read_windows(before).refusals}
    given = read_windows(after)
    of_overrides = [fault for fault in given.refusals if fault.path.startswith(f"spec.{OVERRIDES}")]
    was = before.get(WINDOWS)
    stays = [each.get("name") for each in was if isinstance(each, Mapping)] if isinstance(was, list) else []
    stays = [name for name in stays if _named(before, name) == _named(after, name)]
    faults = [
        *(fault for fault in of_overrides if (fault.name, fault.problem) not in known),
        *(fault for fault in never_off(given, now) if fault.name not in stays),
    ]
    return faults_text(faults) if faults else None


def touches_windows(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether an edit changes a window, or an override."""
    return any((after.get(field) or None) != (before.get(field) or None) for field in FIELDS)


class SettledEdit(msgspec.Struct, frozen=True, kw_only=True):
    """`fields`: of the spec, that are to be other than the author wrote; None removes one. `warnings`: lines
    of at most `LENGTH` characters.
    """

    fields: Mapping[str, list[Any] | None]
    warnings: tuple[str, ...] = ()


def settle_edit(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any],
    *,
    queue: str,
    now: datetime,
    own: bool = False,
) -> SettledEdit:
    """The second and the third table. `before`: the spec as it was; None for a new queue. `own`: it is the
    server's own edit."""
    was, wrote = before or {}, after.get(IN_WINDOW) or None
    if not (was.get(WINDOWS) or after.get(WINDOWS) or was.get(IN_WINDOW) or wrote):
        return SettledEdit(fields={})
    kept, removed = _overrides_to_keep(was, after)
    if before is not None and not touches_windows(was, after):
        wanted = wrote if own else (was.get(IN_WINDOW) or None)
        said = [] if own or wrote in (None, wanted) else [_NOT_YOURS]
        return _settled(after, {IN_WINDOW: wanted}, said)
    spec = {**after, OVERRIDES: kept}
    calendar, written = read_calendar(spec), read_entries(was.get(IN_WINDOW))
    found = settle(calendar, written, now)
    wanted = to_wire(found.entries) or None
    edit = _Edit(queue, was, spec, calendar)
    said = [
        *edit.changes(written, found),
        *edit.overrides(removed),
        *([] if own or wrote in (None, was.get(IN_WINDOW) or None, wanted) else [_NOT_YOURS]),
    ]
    if window_refusal(was, spec, now=now):  # that is what the author is told
        said = []
    return _settled(after, {IN_WINDOW: wanted, OVERRIDES: kept}, said)


def _settled(
    after: Mapping[str, Any], wanted: Mapping[str, list[Any] | None], said: list[str]
) -> SettledEdit:
    fields = {key: value for key, value in wanted.items() if value != (after.get(key) or None)}
    return SettledEdit(fields=fields, warnings=tuple(truncated(text, limit=LENGTH) for text in said))


class _Edit:
    def __init__(
        self, queue: str, before: Mapping[str, Any], after: Mapping[str, Any], calendar: Calendar
    ) -> None:
        self._queue = f"queue {quoted(queue, limit=_NAME)}"
        self._before, self._calendar = before, calendar
        self._was, self._is = (
            {stop.name: stop for stop in read_stops(spec.get(WINDOWS))} for spec in (before, after)
        )

    def changes(self, written: Sequence[CurrentWindow], found: InWindow) -> Iterator[str]:
        now_on, ends = {each.name: each for each in found.entries}, set(missed(found.changes))
        for entry in written:
            still = now_on.get(entry.name)
            if still is not None and still.start == entry.start:
                yield from self._stays(entry, still)
            elif entry.name in self._was:
                until = rfc3339(entry.until)
                yield f"this ends window {_shown(entry.name)} of {self._queue}, which was on until {until}"
        for entry in found.entries:
            if not any((each.name, each.start) == (entry.name, entry.start) for each in written):
                sets = what_it_sets(self._is[entry.name])
                until = rfc3339(entry.until)
                yield f"window {_shown(entry.name)} of {self._queue} is on from now until {until}: {sets}"
        for name in ends:
            yield f"window {_shown(name)} of {self._queue} ends within a minute, so it stops nothing any more"

    def _stays(self, was: CurrentWindow, still: CurrentWindow) -> Iterator[str]:
        name, before, after = was.name, self._was.get(was.name), self._is.get(was.name)
        if still.until != was.until:
            until = f"until {rfc3339(still.until)} now; it was until {rfc3339(was.until)}"
            yield f"window {_shown(name)} of {self._queue} is on {until}"
        if before is not None and after is not None and what_it_sets(before) != what_it_sets(after):
            sets = f"{what_it_sets(after) or 'nothing'} now; it was {what_it_sets(before) or 'nothing'}"
            yield f"window {_shown(name)} of {self._queue} is on, and sets {sets}"

    def overrides(self, removed: int) -> Iterator[str]:
        if removed:
            yield f"{removed} of spec.{OVERRIDES} of {self._queue} went with their windows"
        windows = {window.name: window for window in self._calendar.given.windows}
        known = {(each.window, each.start) for each in read_windows(self._before).overrides}
        for each in self._calendar.given.overrides:
            if (each.window, each.start) not in known and not is_start(windows[each.window], each.start):
                yield (
                    f"window {_shown(each.window)} of {self._queue} does not begin at {rfc3339(each.start)} "
                    "by its schedule, so the override of that changes nothing"
                )


def _overrides_to_keep(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[list[Any] | None, int]:
    """The overrides without those whose window this edit removes, and how many these are."""
    given, was = after.get(OVERRIDES), before.get(OVERRIDES)
    if not isinstance(given, list) or not isinstance(was, list) or len(given) > LIMIT:
        return given or None, 0
    left, gone = _names(after), _names(before) - _names(after)
    kept = [
        each
        for each in given
        if not (isinstance(each, Mapping) and each in was and _is_of(each, gone) and not _is_of(each, left))
    ]
    return kept or None, len(given) - len(kept)


def _is_of(override: Mapping[str, Any], names: frozenset[str]) -> bool:
    name = override.get("window")
    return isinstance(name, str) and name in names


def _names(spec: Mapping[str, Any]) -> frozenset[str]:
    return frozenset(stop.name for stop in read_stops(spec.get(WINDOWS)))


def _shown(name: str) -> str:
    return printable(name, limit=_NAME)


def _named(spec: Mapping[str, Any], name: object) -> object:
    """The window of this name as it is written."""
    given = spec.get(WINDOWS)
    windows = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
    return next((each for each in windows if each.get("name") == name), None)
