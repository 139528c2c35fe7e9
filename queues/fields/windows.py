"""The checks of `spec.windows` and `spec.windowOverrides`. `queues.windows.reader` reads them.

What an override needs of its window, and a window that is never off, are for `queues.admission.window_edits`:
they take both fields, and the time.
"""

from __future__ import annotations

from typing import Any

from queues.fields.checks import (
    BadField,
    FieldCheck,
    at_most,
    each_of,
    object_of,
    text,
)
from queues.fields.drain import DRAIN_FIELDS
from queues.text import truncated
from queues.windows.drains import DEADLINE_AFTER
from queues.windows.reader import read_windows
from queues.windows.refusals import Refusal
from queues.windows.window import EXCEPTS, OVERRIDES, WINDOWS

#: Characters of a refusal; of a reason; of another text.
_LENGTH, REASON_LENGTH, _TEXT = 390, 1024, 300
_text, _reason = text(_TEXT), text(REASON_LENGTH)

_drain = object_of({row.name: row.check for row in DRAIN_FIELDS if row.name != "deadline"})


def _window_drain(place: str, value: Any, before: Any) -> None:
    _drain(place, value, before)
    end = value.get("afterDeadline")
    if end in {"Scale", "Delete"} and not value.get(DEADLINE_AFTER):
        raise BadField(
            f"{place}.{DEADLINE_AFTER}: is missing, and afterDeadline is {end}; "
            f"set when to {end.lower()}, as 30m"
        )


_several: FieldCheck = at_most(
    WINDOWS,
    "windows",
    each_of(
        object_of(
            {
                "reason": _reason,
                "drain": _window_drain,
                "except": at_most(EXCEPTS, "spans", each_of(object_of({"reason": _reason}))),
            }
        )
    ),
)
_times = dict.fromkeys(("start", "from", "until"), _text)
overrides: FieldCheck = at_most(
    OVERRIDES,
    "overrides",
    each_of(object_of({"window": _text, **_times, "reason": _reason}, required=("window", "start"))),
)
entries: FieldCheck = at_most(
    WINDOWS,
    "windows",
    each_of(object_of({"name": _text, **_times}, required=("name", "start", "until"))),
)


def windows(place: str, value: Any, before: Any) -> None:
    """Each window that changes. The first fault is explained, the places of others are named."""
    _several(place, value, before)
    was = before if isinstance(before, list) else []
    stays = {f"{place}[{number}]" for number, each in enumerate(value) if each in was}
    faults = [each for each in read_windows({"windows": value}).refusals if _window_of(each) not in stays]
    if faults:
        raise BadField(faults_text(faults))


def _window_of(refusal: Refusal) -> str:
    """`spec.windows[1]`."""
    head, bracket, _ = refusal.path.partition("]")
    return head + bracket


def faults_text(faults: list[Refusal]) -> str:
    """On one line."""
    more = ", ".join(dict.fromkeys(each.path for each in faults[1:]))
    return truncated(f"{faults[0]}{f'; wrong too: {more}' if more else ''}", limit=_LENGTH)
