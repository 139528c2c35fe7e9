"""How ages, times and numbers are written.

Promise: ages are written as kubectl writes them (k8s.io/apimachinery/pkg/util/duration.HumanDuration).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from queues.apimachinery.timestamps import rfc3339

#: As `with_time_left` writes it.
_TIME_LEFT = re.compile(r" \((?:in \w+|due|expired)\)")
_LINE_END = re.compile(r"[\f\n\r]")


def first_line(text: str) -> str:
    """The first line, marked where there were more."""
    first, *more = _LINE_END.split(text, maxsplit=1)
    return first + "..." if more else first


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400


def age(created: str, *, now: datetime) -> str:
    """The age of an object that was created at `created` (RFC 3339)."""
    try:
        since = now - datetime.fromisoformat(created)
    except (ValueError, TypeError):
        return "<unknown>"
    return human_duration(since.total_seconds())


def with_time_left(at: datetime, *, now: datetime) -> str:
    """A time and how far away it is: due for a minute, then expired. One without a zone is UTC."""
    there = at if at.tzinfo else at.replace(tzinfo=UTC)
    left = (there - now).total_seconds()
    over = "due" if left > -_MINUTE else "expired"
    return f"{rfc3339(there)} ({f'in {human_duration(left)}' if left > 0 else over})"


def human_duration(span: float) -> str:
    """A duration in seconds in at most two units, coarser the longer it is."""
    seconds = int(span)
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 3 * _HOUR:
        return _two(seconds, _MINUTE, "m", 1, "s", fine=10)
    if seconds < 2 * _DAY:
        return _two(seconds, _HOUR, "h", _MINUTE, "m", fine=8)
    if seconds < 2 * _YEAR:
        return _two(seconds, _DAY, "d", _HOUR, "h", fine=8)
    return _two(seconds, _YEAR, "y", _DAY, "d", fine=8)


def _two(seconds: int, big: int, big_unit: str, small: int, small_unit: str, *, fine: int) -> str:
    """`big` units, and below `fine` of them the rest in `small` units."""
    many, rest = divmod(seconds, big)
    few = rest // small
    return f"{many}{big_unit}" + (f"{few}{small_unit}" if many < fine and few else "")


def text_without_times(text: str) -> str:
    """The text without how far away its times are, which differs from second to second."""
    return _TIME_LEFT.sub("", text)


def plural(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
