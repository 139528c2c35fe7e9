"""Whether an edit of a Queue's windows may be stored, where that takes both fields, and the time.

Each window by itself, and the shape of each override: the checks of the table (`queues.fields.windows`).

| the edit                                               | is refused |
|--------------------------------------------------------|------------|
| has an override that its window cannot be found for    | yes        |
| has an override whose times cannot be read             | yes        |
| has a window that never begins, or never ends in a year| yes        |
| leaves such a one as it is stored                      | no         |
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from queues.fields.windows import faults_text
from queues.windows.reader import read_windows
from queues.windows.recurrence import never_off

WINDOWS, OVERRIDES = "windows", "windowOverrides"
FIELDS = (WINDOWS, OVERRIDES)


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


def _named(spec: Mapping[str, Any], name: object) -> object:
    """The window of this name as it is written."""
    given = spec.get(WINDOWS)
    windows = [each for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
    return next((each for each in windows if each.get("name") == name), None)
