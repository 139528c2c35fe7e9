"""An entry of `spec.inWindow`: a window that is on, as the server writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from queues.apimachinery.timestamps import EARLIEST, parse_timestamp, rfc3339
from queues.windows.window import WINDOWS

#: Characters of a time that are read at all.
_LENGTH = 40


class CurrentWindow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A window that is on, as it is written."""

    name: str
    start: datetime
    until: datetime


def to_wire(entries: Sequence[CurrentWindow]) -> list[dict[str, str]]:
    return [
        {"name": each.name, "start": rfc3339(each.start), "until": rfc3339(each.until)} for each in entries
    ]


def read_entries(given: object) -> tuple[CurrentWindow, ...]:
    """`spec.inWindow` in wire form. What cannot be read is left out: it is written anew."""
    if not isinstance(given, list):
        return ()
    entries = (_read_entry(each) for each in given[:WINDOWS] if isinstance(each, Mapping))
    return tuple(entry for entry in entries if entry is not None)


def _read_entry(given: Mapping[str, Any]) -> CurrentWindow | None:
    name, start, until = (given.get(field) for field in ("name", "start", "until"))
    if not (isinstance(name, str) and isinstance(start, str) and isinstance(until, str)):
        return None
    if max(len(start), len(until)) > _LENGTH:
        return None
    entry = CurrentWindow(name=name, start=parse_timestamp(start), until=parse_timestamp(until))
    return entry if EARLIEST not in (entry.start, entry.until) else None
