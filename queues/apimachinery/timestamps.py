"""Moments as the API server writes and accepts them: RFC 3339, in UTC and whole seconds.

`strftime` cannot be used: it writes the year 1 as `1`, which the API server refuses. The API server accepts
the year 0000, which no `datetime` can hold.
"""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339(moment: datetime) -> str:
    """In UTC; in its own zone where UTC would be beyond either end of the calendar."""
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        return moment.replace(microsecond=0).isoformat()
    return f"{moment.replace(tzinfo=None, microsecond=0).isoformat()}Z"


#: The first moment that a `datetime` can hold.
EARLIEST = datetime.min.replace(tzinfo=UTC)


def parse_timestamp(text: str) -> datetime:
    """The moment that is written; `EARLIEST` where the text cannot be read, as the year 0 cannot."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return EARLIEST
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
