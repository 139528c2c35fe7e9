"""The history of a queue, `status.changes`: what changed between two specs, and the lines as stored."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from queues.apimachinery.timestamps import rfc3339
from queues.fields.table import FIELDS
from queues.queue import Queue
from queues.states import Desired, StopPolicy
from queues.text import NAME_LIMIT, REASON_LIMIT, truncated

#: Lines kept on a queue; the oldest go first.
HISTORY_LIMIT = 50
#: The fields by which a stop begins and ends, and their values that stop.
_STOPS = frozenset({"state", "stopPolicy"})
_STOPPED = frozenset({Desired.SUSPENDED.value, StopPolicy.HOLD.value, StopPolicy.HOLD_AND_DRAIN.value})
#: Fields that say what pods meet, and belong to no stop. Their lines take at most half of a full history: who
#: writes them all the time leaves room for who stopped the queue.
SETTINGS = frozenset(
    {
        *("schedulerPolicy", "priority", "deserved", "guarantee", "guaranteeWhileStopped", "capability"),
        *("weight", "dequeueStrategy", "affinity"),
    }
)
SETTINGS_LIMIT = HISTORY_LIMIT // 2
#: The fields whose changes are recorded, and their texts.
_RECORDED = tuple((row.name, row.history) for row in FIELDS if row.history)


class HistoryLine(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Who changed which field, from what to what, why and when (RFC 3339).

    `until`: of a stop that begins, when it ends by itself; so it takes one line.
    """

    by: str
    field: str
    from_: str = msgspec.field(default="", name="from")
    to: str = ""
    reason: str = ""
    at: str = ""
    until: str = ""


def changes_between(before: Queue, after: Queue, *, by: str, reason: str, at: datetime) -> list[HistoryLine]:
    """One line for each recorded field that differs; none for a `resumeAt` that comes or goes with a stop.

    `reason`: of the stop; lines of `SETTINGS` have none.

    The lines are stored in an annotation; all annotations together may have 256 KiB. So names and reasons are
    cut.
    """
    by, reason = truncated(by, limit=NAME_LIMIT), truncated(reason, limit=REASON_LIMIT)
    time = rfc3339(at)
    until = rfc3339(after.resume_time) if after.resume_time is not None else ""
    lines = [
        HistoryLine(
            by=by,
            field=field,
            from_=text(before),
            to=text(after),
            reason="" if field in SETTINGS else reason,
            at=time,
            until=until if field in _STOPS and text(after) in _STOPPED else "",
        )
        for field, text in _RECORDED
        if text(before) != text(after)
    ]
    is_said = any(line.until for line in lines) or (
        any(line.field in _STOPS for line in lines) and not (until or after.is_suspended_or_held)
    )
    return [line for line in lines if not (is_said and line.field == "resumeAt")]


_history = msgspec.json.Decoder(list[HistoryLine])
_encoder = msgspec.json.Encoder()


def history_text(lines: Sequence[HistoryLine]) -> str | None:
    """As it is stored: the last `HISTORY_LIMIT` lines; None for none.

    Of lines of `SETTINGS` the last `SETTINGS_LIMIT`, where there are more lines than that.
    """
    if len(lines) <= HISTORY_LIMIT:
        return _encoder.encode(lines).decode() if lines else None
    surplus = sum(line.field in SETTINGS for line in lines) - SETTINGS_LIMIT
    kept = []
    for line in lines:
        if line.field in SETTINGS and surplus > 0:
            surplus -= 1
        else:
            kept.append(line)
    return _encoder.encode(kept[-HISTORY_LIMIT:]).decode()


def parse_history(text: str) -> list[HistoryLine]:
    """The stored lines, the oldest first; none where the text is not what admission writes."""
    try:
        return _history.decode(text) if text else []
    except (msgspec.DecodeError, RecursionError):
        return []


def new_changes(before: Sequence[HistoryLine], after: Sequence[HistoryLine]) -> list[HistoryLine]:
    """The lines of the later history that the earlier one does not have."""
    known = set(before)
    return [line for line in after if line not in known]


def describe_change(line: HistoryLine) -> str:
    """One line in words: who changed what, and why."""
    why = f" ({line.reason})" if line.reason else ""
    until = f" until {line.until}" if line.until else ""
    return f"spec.{line.field} by {line.by}{why}: {line.to or 'none'}{until}, it was {line.from_ or 'none'}"
