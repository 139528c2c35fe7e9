"""Windows as a calendar that other programs read: RFC 5545.

Promises
- Each occurrence is an event of its own, in UTC. There is no rule of recurrence and no VTIMEZONE: a schedule
  in the language of cron has no equal as an RRULE, and so no program can read a zone otherwise than we do.
- The same occurrence has the same UID, so that a program that reads the calendar again moves the event.
- One that is left out is there as CANCELLED.
- Whatever users wrote stays inside its property: texts are escaped, characters that may not be in one are
  left out, and lines are folded at `LINE` bytes, between characters.
- No event makes a person busy (TRANSPARENT).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from kubectl_queue.views.windows import WindowRow, WindowState
from queues.text import printable, quoted

#: Bytes of a line without its end (RFC 5545, 3.1).
LINE = 75
END = "\r\n"
#: Characters of a reason, and of a name.
_REASON, _NAME = 1024, 253
_ESCAPES = str.maketrans({"\\": "\\\\", ";": "\\;", ",": "\\,", "\n": "\\n"})


def calendar(rows: Iterable[WindowRow], *, now: datetime, name: str = "Change windows") -> str:
    """The whole file, each line with its end."""
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//Sluice//kubectl queue windows//EN",
        "METHOD:PUBLISH",
        _text("X-WR-CALNAME", printable(name, limit=_NAME)),
    ]
    for row in rows:
        lines += _event(row, now=now)
    lines.append("END:VCALENDAR")
    return "".join(part + END for line in lines for part in folded(line))


def _event(row: WindowRow, *, now: datetime) -> Iterator[str]:
    window, queue = printable(row.window, limit=_NAME), printable(row.queue, limit=_NAME)
    status = "CANCELLED" if row.standing is WindowState.SKIPPED else "CONFIRMED"
    what = row.sets or "stopped"
    reason = [printable(row.reason, limit=_REASON)] if row.reason else []
    description = [*reason, f"window {window} of queue {quoted(row.queue)}: kubectl queue windows {queue}"]
    yield "BEGIN:VEVENT"
    yield f"UID:{uid(row)}"
    yield f"DTSTAMP:{_moment(now)}"
    yield f"DTSTART:{_moment(row.start)}"
    yield f"DTEND:{_moment(row.end)}"
    yield _text("SUMMARY", f"{queue}: {what} ({window})")
    yield _text("DESCRIPTION", "\n".join(description))
    yield _text("CATEGORIES", queue)
    yield f"STATUS:{status}"
    yield "TRANSP:TRANSPARENT"
    yield "END:VEVENT"


def uid(row: WindowRow) -> str:
    """Of the occurrence: by its queue, its window and when it begins by its schedule."""
    moment = row.scheduled if row.scheduled is not None else row.start
    text = "\0".join((row.queue, row.window, _moment(moment)))
    return f"{hashlib.sha256(text.encode()).hexdigest()[:32]}@sluice.dev"


def _moment(moment: datetime) -> str:
    return f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}"


def _text(name: str, value: str) -> str:
    return f"{name}:{value.translate(_ESCAPES)}"


def folded(line: str) -> Iterator[str]:
    """Lines of `LINE` bytes at most; from the second on they begin with a space."""
    part, size = "", 0
    for character in line:
        width = len(character.encode("utf-8", "replace"))
        if size + width > LINE:
            yield part
            part, size = " ", 1
        part, size = part + character, size + width
    yield part
