"""What users are told of windows. Every moment in a text is in the window's own zone, which is named."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from queues.text import printable
from queues.windows.rules import On
from queues.windows.stops import what_it_sets

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def get_text(on: On, *, now: datetime) -> str:
    """In a table of queues: `HoldAndDrain until 04:00 CET, window nightly`."""
    return (
        f"{what_it_sets(on.window)} until {clock(on.until, on.window.zone, now=now)}, window {on.window.name}"
    )


def tree_text(window: str, queue: str) -> str:
    """At a queue below: `window nightly of research`."""
    return f"window {window} of {printable(queue)}"


def author(window: str) -> str:
    """In the history, in the column of who did it: `sluice: window nightly`."""
    return f"sluice: window {window}"


def clock(moment: datetime, zone: ZoneInfo | None, *, now: datetime, with_day: bool = False) -> str:
    """`04:00 CET` on the same day, else `Sun 4 Oct 04:00 CEST`, with the year where that is another."""
    local, today = moment.astimezone(zone or UTC), now.astimezone(zone or UTC)
    name = local.tzname() or ""
    text = f"{local:%H:%M} {'UTC' if name[:1] in ('+', '-') else ''}{name}"
    if local.date() == today.date() and not with_day:
        return text
    year = f" {local.year}" if local.year != today.year else ""
    return f"{_DAYS[local.weekday()]} {local.day} {_MONTHS[local.month - 1]}{year} {text}"


def length(span: timedelta) -> str:
    """`2h`, `1h30m`, `3d4h`; two units at most, and rounded up to minutes."""
    minutes = max(0, -(-span // timedelta(minutes=1)))
    days, hours, minutes = minutes // 1440, minutes % 1440 // 60, minutes % 60
    parts = [f"{days}d" if days else "", f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    return "".join([part for part in parts if part][:2]) or "0m"
