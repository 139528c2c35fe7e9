"""The history that a queue carries: `status.changes`, or where that lags what admission wrote down.

Promises
- Oldest first, as they are stored.
- What cannot be read is left out: the history is for people, and says nothing that others rely on.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from kubectl_queue.access.responses import Object
from kubectl_queue.output.tables import at
from kubectl_queue.snapshot import observed, status
from queues import labels as names
from queues.apimachinery.conversion import Converter
from queues.status.changes import Change

_line = Converter[Change](Change)


def changes(item: Object) -> tuple[Change, ...]:
    """The annotation is written with the edit itself, the status by the controller afterwards."""
    told = _read(status(item).get("changes"))
    if told and observed(item):
        return told
    return _read(_annotated(item)) or told


def _annotated(item: Object) -> Any:
    text = (at(item, "metadata.annotations") or {}).get(names.CHANGES)
    try:
        return json.loads(text) if text else []
    except ValueError:
        return []


def _read(lines: Any) -> tuple[Change, ...]:
    held = lines if isinstance(lines, list) else []
    return tuple(change for line in held for change in _change(line))


def _change(line: Any) -> tuple[Change, ...]:
    try:
        return (_line(line),)
    except msgspec.ValidationError:
        return ()
