"""Which drain counts while a window drains: its own, or that of the spec.

| what drains the queue              | the drain                                                             |
|------------------------------------|-----------------------------------------------------------------------|
| its spec                           | `spec.drain`                                                          |
| a window that has `drain`          | that, with `deadlineAfter` counted from the beginning of the window   |
| a window without one               | `spec.drain` without `deadline` and `afterDeadline`: they are of one  |
|                                    | moment, and no window begins under a deadline that has passed         |
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from queues.apimachinery.timestamps import rfc3339
from queues.windows.refusals import WindowError
from queues.windows.stops import WindowOn
from queues.windows.times import parse_duration
from queues.windows.window import WINDOWS

#: In place of `deadline`.
DEADLINE_AFTER = "deadlineAfter"
_DEADLINE, _AFTER = "deadline", "afterDeadline"


def drain_in_force(drain: Any, windows: object, on: WindowOn | None) -> Any:
    """The drain in wire form, as `spec.drain` has it. `windows`: `spec.windows`. `on`: the window that
    drains; None where the spec does."""
    if on is None:
        return drain
    own = _drain_of(windows, on.window.name)
    if own is None:
        return _without(drain, _DEADLINE, _AFTER) if isinstance(drain, Mapping) else drain
    if not isinstance(own, Mapping):
        return own  # which cannot be read, so that nothing is evicted
    after = own.get(DEADLINE_AFTER)
    if not after:
        return _without(own, DEADLINE_AFTER, _DEADLINE, _AFTER)
    try:
        deadline = rfc3339(on.start + parse_duration(after if isinstance(after, str) else ""))
    except WindowError:
        return _without(own, DEADLINE_AFTER, _DEADLINE, _AFTER)
    return {**_without(own, DEADLINE_AFTER), _DEADLINE: deadline}


def _drain_of(windows: object, name: str) -> Any:
    given = windows[:WINDOWS] if isinstance(windows, list) else []
    found = (each for each in given if isinstance(each, Mapping) and each.get("name") == name)
    return next(found, {}).get("drain") or None


def _without(given: Mapping[str, Any], *fields: str) -> dict[str, Any]:
    return {field: value for field, value in given.items() if field not in fields}
