"""Durations, and moments as people write them in a window."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from queues.windows.refusals import WindowError, shown
from queues.windows.zones import moment_of

SHORTEST, LONGEST = timedelta(minutes=1), timedelta(days=31)
FIRST_YEAR, LAST_YEAR = 1970, 9000
#: Characters of a duration or a time that are read at all.
LENGTH = 40
_DURATION = re.compile(r"(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,8})s)?", re.ASCII)
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?)(Z|[+-][0-9]{2}:[0-9]{2})?", re.ASCII
)


def parse_duration(text: str) -> timedelta:
    """`2h`, `90m`, `1h30m`: from a minute to 31 days. Raises `WindowError`."""
    found = _DURATION.fullmatch(text) if 0 < len(text) <= LENGTH else None
    if found is None:
        raise WindowError(f"{shown(text)} is no duration; write it as 2h, 90m or 1h30m")
    hours, minutes, seconds = (int(part or 0) for part in found.groups())
    duration = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if not SHORTEST <= duration <= LONGEST:
        raise WindowError(
            f"{shown(text)} is not from 1m to {int(LONGEST.total_seconds()) // 3600}h (31 days)"
        )
    return duration


def parse_moment(text: str, zone: ZoneInfo | None) -> datetime:
    """`2026-12-20T00:00` on the wall clock of `zone`, or with an offset; in UTC. Raises `WindowError`."""
    found = _TIME.fullmatch(text) if len(text) <= LENGTH else None
    if found is None:
        raise WindowError(
            f"{shown(text)} is no time; write it as 2026-12-20T00:00, or with an offset as ...Z"
        )
    written, offset = found.groups()
    try:
        local = datetime.fromisoformat(written)
    except ValueError as exc:
        raise WindowError(f"{shown(text)} is not in the calendar") from exc
    if not FIRST_YEAR <= local.year <= LAST_YEAR:
        raise WindowError(f"{shown(text)} is not from {FIRST_YEAR} to {LAST_YEAR}")
    if offset:
        return _with_offset(text)
    if zone is None:
        raise WindowError(f"{shown(text)} has no offset, and the window has no timeZone")
    return moment_of(local, zone)


def _with_offset(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError as exc:
        raise WindowError(f"{shown(text)} has an offset that there is not") from exc
