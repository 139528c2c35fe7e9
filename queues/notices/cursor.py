"""The cursor of notices: which ones were sent. It is stored after each accepted message, so each notice is
sent at least once.

| a notice                              | is new while                                          |
|---------------------------------------|-------------------------------------------------------|
| of a state: a blocked drain, a window | its id is not in `standing`                           |
| that begins soon                      |                                                       |
| of a moment: any other                | it is later than `since`, and its id is not in `told` |

Promises
- `since` is `OVERLAP` before the latest moment that was seen, and at least `OVERLAP` before our own clock.
  The clocks of replicas differ by less, so a line that another replica wrote earlier and that is seen later
  is still new. `since` never goes back.
- A new notice stays new until `after_sending` gets it. So if a part of the notices was sent, `since` stays
  before those that wait.
- The cursor holds at most `MOST` ids of moments: beyond that it drops the oldest, and `since` moves past
  them. It holds at most `MOST_STANDING` ids of states.
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
    """`told`: the moments of sent notices, by id; all are later than `since`."""

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
    """The cursor after the receiver accepted these notices, or the sender gave them up.

    `waiting`: new notices that were not sent with them. `latest`: the latest moment of the histories when the
    message was made. `standing`: the ids of states that last; the cursor forgets all other states.
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
