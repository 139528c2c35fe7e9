"""What was told already. It is stored after each message that was taken, so everything is told at least once.

| a notice                       | is new while                                          |
|--------------------------------|-------------------------------------------------------|
| that stands: a blocked drain,  | its id is not in `standing`                           |
| a window that begins soon      |                                                       |
| any other                      | it is later than `since`, and its id is not in `told` |

Promises
- `since` follows the latest moment that was seen, `OVERLAP` behind it, and is never later than that behind
  our own clock. Clocks of replicas differ by less, so that what was written before and is seen later is
  still new. It never goes back.
- What is new stays new until `after_sending` has it; nothing else makes it old. So `since` stays before what
  still waits, when a part was sent.
- The cursor has at most `MOST` ids with their moments: beyond, the oldest go, and `since` with them. Of the
  others it has at most `MOST_STANDING`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from queues.apimachinery.timestamps import EARLIEST, parse_timestamp, rfc3339
from queues.notices.news import Notice

OVERLAP = timedelta(minutes=10)
#: The moments of a history are whole seconds.
_MOMENT = timedelta(seconds=1)
#: Together half of what a ConfigMap may have.
MOST, MOST_STANDING = 5000, 15_000


class BadCursor(Exception):
    """The stored text is not what `encode` writes."""


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """`told`: the moments by id, all later than `since`."""

    since: datetime
    told: Mapping[str, datetime] = {}
    standing: frozenset[str] = frozenset()

    def is_new(self, notice: Notice) -> bool:
        """The table of the module."""
        if notice.stands:
            return notice.id not in self.standing
        return notice.at > self.since and notice.id not in self.told


def after_sending(
    cursor: Cursor,
    sent: Iterable[Notice],
    *,
    waiting: Iterable[Notice] = (),
    latest: datetime,
    now: datetime,
    standing: Collection[str],
) -> Cursor:
    """The cursor once these were taken, or given up.

    `waiting`: what is new and was not sent with them. `latest`: the latest moment of the history that was
    seen when they were put together. `standing`: the ids of what stands still; those of anything else are
    forgotten.
    """
    notices = list(sent)
    since = cursor.since
    if latest != EARLIEST:
        first = min((each.at for each in waiting if not each.stands), default=latest)
        since = max(since, min(min(latest, now) - OVERLAP, first - _MOMENT))
    told = {**cursor.told, **{each.id: each.at for each in notices if not each.stands}}
    newest = sorted(told.items(), key=lambda item: (item[1], item[0]))
    if len(newest) > MOST:
        since = max(since, newest[-MOST - 1][1])
    told_of_standing = cursor.standing | {each.id for each in notices if each.stands}
    return Cursor(
        since=since,
        told={id_: at for id_, at in newest if at > since},
        standing=frozenset(sorted(told_of_standing.intersection(standing))[:MOST_STANDING]),
    )


class _Stored(msgspec.Struct, frozen=True):
    since: str
    told: dict[str, str]
    standing: list[str]


_decoder = msgspec.json.Decoder(_Stored)


def encode(cursor: Cursor) -> str:
    stored = _Stored(
        since=cursor.since.isoformat(),
        told={id_: rfc3339(at) for id_, at in cursor.told.items()},
        standing=sorted(cursor.standing),
    )
    return msgspec.json.encode(stored).decode()


def decode(text: str) -> Cursor:
    """Raises `BadCursor`."""
    try:
        stored = _decoder.decode(text)
    except (msgspec.DecodeError, RecursionError) as exc:
        raise BadCursor(str(exc)) from exc
    since = parse_timestamp(stored.since)
    if since == EARLIEST:
        raise BadCursor("since is no moment")
    told = {id_: parse_timestamp(at) for id_, at in stored.told.items()}
    return Cursor(since=since, told=told, standing=frozenset(stored.standing))
