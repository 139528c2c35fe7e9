"""Change windows: those that are on, and the next ones.

| state   | the occurrence                                                                      |
|---------|-------------------------------------------------------------------------------------|
| On      | is on: the server has written it into `spec.inWindow`                               |
| Due     | should be on by now, and the server has not written that                            |
| Overdue | is over, and the server has not written that: the queue is still stopped            |
| Next    | comes                                                                               |
| Skipped | comes, or would be on, and an override leaves it out                                |

Promises
- Of `top`: its own windows and those of the queues above it, which stop it too. Else those of all queues.
- First what is on, due, overdue or left out of now, then the next `number` in their order.
- What cannot be read is left out and named (`refused`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from kubectl_queue.objects.fields import spec_of
from kubectl_queue.objects.queues import QueueObjects
from queues.apimachinery.timestamps import rfc3339
from queues.states import Desired, StopPolicy
from queues.windows.entries import CurrentWindow, read_entries
from queues.windows.reader import read_windows
from queues.windows.refusals import Refusal
from queues.windows.rules import Occurrence, latest_on, occurrences_after, window_on
from queues.windows.stops import what_it_sets
from queues.windows.texts import clock, length
from queues.windows.window import Override, Window, Windows

HEADINGS = ("QUEUE", "WINDOW", "STARTS", "ENDS", "FOR", "SETS", "STATE", "REASON")


class WindowState(StrEnum):
    """The table of the module."""

    ON = "On"
    DUE = "Due"
    OVERDUE = "Overdue"
    NEXT = "Next"
    SKIPPED = "Skipped"


class WindowRow(msgspec.Struct, frozen=True, kw_only=True):
    """An occurrence. `queue`: whose window it is. `scheduled`: when it begins by its schedule, by which an
    override names it; None where that is not known any more. `reason`: of the override, else of the window.
    """

    queue: str
    window: str
    zone: str
    scheduled: datetime | None
    start: datetime
    end: datetime
    standing: WindowState
    sets: str
    state: Desired | None
    policy: StopPolicy
    reason: str
    is_changed: bool = False
    definition: Window | None = None


class RefusedWindows(msgspec.Struct, frozen=True):
    """What of a queue's windows cannot be read."""

    queue: str
    refusals: tuple[Refusal, ...]


class WindowTable(msgspec.Struct, frozen=True):
    rows: tuple[WindowRow, ...]
    refused: tuple[RefusedWindows, ...]


def window_table(queues: QueueObjects, *, top: str = "", number: int) -> WindowTable:
    names = [queue.name for queue in queues.tree.chain(top).queues] if top else sorted(queues.items)
    now: list[WindowRow] = []
    later: list[WindowRow] = []
    refused: list[RefusedWindows] = []
    for name in (name for name in names if name in queues.items):
        given = read_windows(spec_of(queues.items[name]))
        entries = read_entries(spec_of(queues.items[name]).get("inWindow"))
        now += _present(name, given, entries, queues.now)
        later += _coming(name, given, queues.now, number=number)
        refused += [RefusedWindows(name, given.refusals)] if given.refusals else []
    later.sort(key=_order)
    return WindowTable((*sorted(now, key=_order), *later[:number]), tuple(refused))


def as_structure(rows: Iterable[WindowRow]) -> list[dict[str, Any]]:
    """For programs. What is not known is not there."""
    return [
        {
            key: value
            for key, value in {
                "queue": row.queue,
                "window": row.window,
                "state": row.standing.value,
                "scheduled": rfc3339(row.scheduled) if row.scheduled is not None else None,
                "start": rfc3339(row.start),
                "until": rfc3339(row.end),
                "timeZone": row.zone or None,
                "sets": {
                    key: value.value
                    for key, value in (("state", row.state), ("stopPolicy", row.policy))
                    if value not in (None, StopPolicy.NONE)
                },
                "reason": row.reason or None,
                "overridden": row.is_changed or None,
            }.items()
            if value is not None
        }
        for row in rows
    ]


def cells(row: WindowRow, *, now: datetime) -> tuple[str, ...]:
    """As `HEADINGS`. Times are in the window's own zone."""
    zone = row.definition.zone if row.definition is not None else None
    return (
        row.queue,
        row.window,
        clock(row.start, zone, now=now, with_day=True),
        clock(row.end, zone, now=row.start),
        length(row.end - row.start),
        row.sets,
        row.standing.value,
        row.reason,
    )


def _order(row: WindowRow) -> tuple[datetime, str, str]:
    return row.start, row.queue, row.window


def _present(
    queue: str, given: Windows, entries: Sequence[CurrentWindow], now: datetime
) -> Iterator[WindowRow]:
    """What is, should be or would be on."""
    written = {entry.name: entry for entry in entries}
    for window in given.windows:
        entry, on = written.pop(window.name, None), window_on(window, given.overrides, now)
        if entry is not None:
            standing = WindowState.ON if on is not None or now < entry.until else WindowState.OVERDUE
            end = on.until if on is not None else entry.until
            current = latest_on(window, given.overrides, now)
            yield _row(queue, window, given, current, entry.start, end, standing)
        elif on is not None:
            current = latest_on(window, given.overrides, now)
            yield _row(queue, window, given, current, on.since, on.until, WindowState.DUE)
        skipped = latest_on(window, _without_skips(given.overrides), now)
        if skipped is not None and _override(given, skipped) and on is None:
            yield _row(queue, window, given, skipped, skipped.start, skipped.end, WindowState.SKIPPED)
    for entry in written.values():
        yield WindowRow(
            queue=queue,
            window=entry.name,
            zone="",
            scheduled=None,
            start=entry.start,
            end=entry.until,
            standing=WindowState.OVERDUE if entry.until <= now else WindowState.ON,
            sets="",
            state=None,
            policy=StopPolicy.NONE,
            reason="",
        )


def _coming(queue: str, given: Windows, now: datetime, *, number: int) -> Iterator[WindowRow]:
    for window in given.windows:
        for count, occurrence in enumerate(occurrences_after(window, _without_skips(given.overrides), now)):
            if count == number:
                break
            override = _override(given, occurrence)
            is_skipped = override is not None and override.skip
            standing = WindowState.SKIPPED if is_skipped else WindowState.NEXT
            yield _row(queue, window, given, occurrence, occurrence.start, occurrence.end, standing)


def _without_skips(overrides: Iterable[Override]) -> list[Override]:
    return [each for each in overrides if not each.skip]


def _override(given: Windows, occurrence: Occurrence | None) -> Override | None:
    if occurrence is None:
        return None
    return next(
        (
            each
            for each in given.overrides
            if each.window == occurrence.window and each.start == occurrence.scheduled
        ),
        None,
    )


def _row(
    queue: str,
    window: Window,
    given: Windows,
    occurrence: Occurrence | None,
    start: datetime,
    end: datetime,
    standing: WindowState,
) -> WindowRow:
    override = _override(given, occurrence)
    return WindowRow(
        queue=queue,
        window=window.name,
        zone=window.zone.key if window.zone is not None else "",
        scheduled=occurrence.scheduled if occurrence is not None else None,
        start=start,
        end=end,
        standing=standing,
        sets=what_it_sets(window),
        state=window.state,
        policy=window.stop_policy,
        reason=(override.reason if override is not None else "") or window.reason,
        is_changed=override is not None,
        definition=window,
    )
