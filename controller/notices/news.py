"""Reads notices from the store.

Invariants
- A queue that has not changed since the last look is read again only when one of its windows gives a notice.
- Only notices that are new and not sent yet are kept: the queues themselves are the backlog.

Threads: the sender's alone; it reads the store without a lock.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from cluster.cache.store import Store
from cluster.objects import QueueObject
from controller.stops.windows import windows_in_wire_form
from queues import well_known
from queues.apimachinery.timestamps import EARLIEST
from queues.drain.progress import DRAINED
from queues.notices.cursor import Cursor
from queues.notices.news import DrainNews, Notice, ids_of_drain, notice_of_drain, notices_of_history
from queues.notices.windows import QueueWindows, news_of_windows
from queues.status.changes import parse_history
from queues.windows.edges import read_calendar
from queues.windows.entries import read_entries
from queues.windows.stops import read_stops


class News(msgspec.Struct, frozen=True, kw_only=True):
    """`standing`: the ids of all states that last. `latest`: the latest moment of any history."""

    new: tuple[Notice, ...]
    standing: frozenset[str]
    latest: datetime


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it was read. `look_again`: when it is read again though it has not changed."""

    obj: QueueObject
    new: tuple[Notice, ...]
    standing: tuple[str, ...]
    windows: QueueWindows | None
    look_again: datetime | None


class NewsReader:
    """Owner: the sender. `window_soon`: how long before its beginning a window gives a notice; 0: never."""

    def __init__(self, store: Store, *, window_soon: timedelta) -> None:
        self._store = store
        self._window_soon = window_soon
        self._known: dict[str, _Known] = {}
        self._latest = EARLIEST

    def forget(self) -> None:
        """Start anew: the cursor may be another one."""
        self._known.clear()
        self._latest = EARLIEST

    def read(self, cursor: Cursor) -> News:
        objects, now = dict(self._store.queues), self._store.clock.now()
        for name in self._known.keys() - objects.keys():
            del self._known[name]
        for name, obj in objects.items():
            known = self._known.get(name)
            if known is None or known.obj is not obj or _is_due(known, now):
                self._known[name] = self._look_at(obj, known, cursor, now)
            elif known.new:
                new = tuple(filter(cursor.is_new, known.new))
                self._known[name] = msgspec.structs.replace(known, new=new)
        known_queues = self._known.values()
        return News(
            new=tuple(notice for known in known_queues for notice in known.new),
            standing=frozenset(id_ for known in known_queues for id_ in known.standing),
            latest=self._latest,
        )

    def _look_at(self, obj: QueueObject, before: _Known | None, cursor: Cursor, now: datetime) -> _Known:
        name, uid = obj.metadata.name, obj.metadata.uid
        new: list[Notice] = []
        for notice in notices_of_history(
            name, uid, parse_history(obj.metadata.annotation(well_known.CHANGES))
        ):
            self._latest = max(self._latest, notice.at)
            if notice.at <= cursor.since:
                break
            new.append(notice)
        standing: list[str] = []
        drain = self._own_drain(obj)
        if drain is not None:
            told = notice_of_drain(name, uid, drain)
            new += [told] if told is not None else []
            standing += ids_of_drain(uid, drain)
        windows, look_again = _windows_of(obj, before), None
        if windows is not None:
            found = news_of_windows(windows, now=now, since=cursor.since, within=self._window_soon)
            new += found.notices
            standing += (notice.id for notice in found.notices if notice.stands)
            look_again = found.look_again
        return _Known(
            obj=obj,
            new=tuple(filter(cursor.is_new, new)),
            standing=tuple(standing),
            windows=windows,
            look_again=look_again,
        )

    def _own_drain(self, obj: QueueObject) -> DrainNews | None:
        """None for a drain that the queue inherits, too."""
        condition, snapshot = obj.status.condition(DRAINED), self._store.snapshot
        name = obj.metadata.name
        if condition is None or name not in snapshot.tree or snapshot.decision(name).policy_by != name:
            return None
        return DrainNews(
            reason=condition.reason, message=condition.message, since=condition.last_transition_time or ""
        )


def _is_due(known: _Known, now: datetime) -> bool:
    return known.look_again is not None and known.look_again <= now


def _windows_of(obj: QueueObject, before: _Known | None) -> QueueWindows | None:
    """None without windows. They are read once for each spec, since statuses change often."""
    if not (obj.spec.windows or obj.spec.in_window):
        return None
    if before is not None and before.windows is not None and _spec_of(before.obj) == _spec_of(obj):
        return before.windows
    return QueueWindows(
        queue=obj.metadata.name,
        uid=obj.metadata.uid,
        calendar=read_calendar(windows_in_wire_form(obj.spec)),
        written=read_entries(obj.spec.in_window),
        stops={stop.name: stop for stop in read_stops(obj.spec.windows)},
    )


def _spec_of(obj: QueueObject) -> tuple[str, int]:
    return obj.metadata.uid, obj.metadata.generation
