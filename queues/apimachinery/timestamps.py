"""Moments as the API server writes and takes them: RFC 3339, in UTC and whole seconds.

`strftime` is of no use for that: it writes the year 1 as `1`, which the API server refuses. It takes the year
0000, too, which no `datetime` can hold.
"""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """In UTC; a moment that has none in UTC, at either end of the calendar, in its own zone."""
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        return moment.replace(microsecond=0).isoformat()
    return f"{moment.replace(tzinfo=None, microsecond=0).isoformat()}Z"


#: Before all that a `datetime` can hold.
EARLIEST = datetime.min.replace(tzinfo=UTC)


def parse_timestamp(text: str) -> datetime:
    """The moment that is written; `EARLIEST` where that cannot be read, as the year 0 cannot."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return EARLIEST
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
