"""Notices, histories and drains, as values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from queues.apimachinery.timestamps import rfc3339
from queues.drain.progress import DrainedReason
from queues.notices.news import DrainNews, Notice
from queues.status.changes import HistoryLine

NOW = datetime(2026, 11, 28, 14, tzinfo=UTC)


def line(
    field: str = "state", *, seconds: float = 0.0, to: str = "Suspended", by: str = "alice"
) -> HistoryLine:
    """One that was written so many seconds after `NOW`."""
    at = rfc3339(NOW + timedelta(seconds=seconds))
    return HistoryLine(by=by, field=field, from_="Open", to=to, reason="storage", at=at)


def drain(reason: str = DrainedReason.BLOCKED, *, since: str = "2026-11-28T13:00:00Z") -> DrainNews:
    return DrainNews(reason=reason, message="a budget", since=since)


def notice(
    id_: str, *, queue: str = "q", seconds: float = 0.0, stands: bool = False, text: str = "changed"
) -> Notice:
    return Notice(id=id_, at=NOW + timedelta(seconds=seconds), queue=queue, text=text, stands=stands)
