"""What the store has to tell.

Invariants
- A queue that has not changed since the last look is not read again, for nothing becomes new by itself.
- Nothing is kept of it but what is new and not told yet: the queues themselves are the backlog.

Threads: the sender's alone; it reads the store, and takes no lock of it.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from cluster.cache.store import Store
from cluster.objects import QueueObject
from queues import well_known
from queues.apimachinery.timestamps import EARLIEST
from queues.drain.progress import DRAINED
from queues.notices.cursor import Cursor
from queues.notices.news import Drain, Notice, ids_of_drain, notice_of_drain, notices_of_history
from queues.status.changes import parse_history


class News(msgspec.Struct, frozen=True, kw_only=True):
    """`drains`: the ids that drains have which there are. `latest`: the latest moment of any history."""

    new: tuple[Notice, ...]
    drains: frozenset[str]
    latest: datetime


class _Known(msgspec.Struct, frozen=True):
    obj: QueueObject
    new: tuple[Notice, ...]
    drains: tuple[str, ...]


class NewsReader:
    """Owner: the sender."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, _Known] = {}
        self._latest = EARLIEST

    def forget(self) -> None:
        """The cursor may be another one."""
        self._known.clear()
        self._latest = EARLIEST

    def read(self, cursor: Cursor) -> News:
        objects = dict(self._store.queues)
        for name in self._known.keys() - objects.keys():
            del self._known[name]
        for name, obj in objects.items():
            known = self._known.get(name)
            if known is None or known.obj is not obj:
                self._known[name] = self._look_at(obj, cursor)
            elif known.new:
                new = tuple(filter(cursor.is_new, known.new))
                self._known[name] = _Known(obj, new, known.drains)
        known_queues = self._known.values()
        return News(
            new=tuple(notice for known in known_queues for notice in known.new),
            drains=frozenset(id_ for known in known_queues for id_ in known.drains),
            latest=self._latest,
        )

    def _look_at(self, obj: QueueObject, cursor: Cursor) -> _Known:
        name, uid = obj.metadata.name, obj.metadata.uid
        new: list[Notice] = []
        for notice in notices_of_history(
            name, uid, parse_history(obj.metadata.annotation(well_known.CHANGES))
        ):
            self._latest = max(self._latest, notice.at)
            if notice.at <= cursor.since:
                break
            new.append(notice)
        drain = self._own_drain(obj)
        drains: tuple[str, ...] = ()
        if drain is not None:
            told = notice_of_drain(name, uid, drain)
            new += [told] if told is not None else []
            drains = ids_of_drain(uid, drain)
        return _Known(obj, tuple(filter(cursor.is_new, new)), drains)

    def _own_drain(self, obj: QueueObject) -> Drain | None:
        """None for a drain that the queue inherits, too."""
        condition, snapshot = obj.status.condition(DRAINED), self._store.snapshot
        name = obj.metadata.name
        if condition is None or name not in snapshot.tree or snapshot.decision(name).policy_by != name:
            return None
        return Drain(
            reason=condition.reason, message=condition.message, since=condition.last_transition_time or ""
        )
