"""The notices of a queue, from the fields that the API server stores.

| event                                                         | sent                        |
|---------------------------------------------------------------|-----------------------------|
| a line of its history about a field that stops it (`TOLD`)    | once                        |
| its own drain is blocked, or past its deadline                | once for each drain         |
| its own drain has ended                                       | once                        |
| a window begins soon, is left out or missed                   | once each (`windows`)       |

Promises
- Notices follow from stored fields alone: a new leader finds the same notices, with the same ids.
- Two notices have the same id only if queue (by UID), event and moment are the same.
- A drain gives notices for the queue that has it, and none for the queues that inherit it: there may be a
  thousand.
- Texts of users are cut to one printable line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime

import msgspec

from queues.apimachinery.timestamps import EARLIEST, parse_timestamp
from queues.drain.progress import DrainedReason
from queues.status.changes import HistoryLine, describe_change
from queues.text import printable, quoted

#: Changes of these fields are sent: they stop a queue, or end a stop.
TOLD = frozenset({"state", "stopPolicy", "resumeAt", "inWindow", "windowOverrides"})
#: Characters of a notice, and of the name of its queue.
TEXT_LIMIT, NAME_LIMIT = 400, 80
#: Digits of an id: 64 bits.
ID_LENGTH = 16
_PROBLEMS = {
    DrainedReason.BLOCKED: "drain is blocked",
    DrainedReason.OVERDUE: "drain is past its deadline",
}


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """`stands`: it is of a state, and is sent once however old that is; else only if it is new (`cursor`)."""

    id: str
    at: datetime
    queue: str
    text: str
    stands: bool = False


class DrainNews(msgspec.Struct, frozen=True, kw_only=True):
    """Condition Drained of a queue that has the drain itself. `since`: its last transition."""

    reason: str
    message: str
    since: str


def notices_of_history(queue: str, uid: str, lines: list[HistoryLine]) -> Iterator[Notice]:
    """The newest first: a reader that wants new ones may stop at the first old one."""
    for line in reversed(lines):
        if line.field in TOLD and (at := parse_timestamp(line.at)) != EARLIEST:
            told = (line.at, line.by, line.field, line.from_, line.to, line.reason, line.until)
            text = notice_text(queue, describe_change(line))
            yield Notice(id=notice_id(uid, "history", *told), at=at, queue=queue, text=text)


def notice_of_drain(queue: str, uid: str, drain: DrainNews) -> Notice | None:
    """None while the drain gives no notice."""
    problem = _PROBLEMS.get(DrainedReason(drain.reason)) if drain.reason in set(DrainedReason) else None
    if problem is None and drain.reason != DrainedReason.DRAINED:
        return None
    return Notice(
        id=drainnotice_id(uid, drain.reason, drain.since),
        at=parse_timestamp(drain.since),
        queue=queue,
        text=notice_text(queue, f"{problem}: {drain.message}" if problem else f"is drained: {drain.message}"),
        stands=problem is not None,
    )


def ids_of_drain(uid: str, drain: DrainNews) -> tuple[str, ...]:
    """The ids of all states that this drain may get into. The cursor keeps them until the drain ends, so a
    drain that is blocked again and again gives one notice.
    """
    return tuple(drainnotice_id(uid, reason, drain.since) for reason in _PROBLEMS)


def drainnotice_id(uid: str, reason: str, since: str) -> str:
    return notice_id(uid, "drain", reason, since)


def notice_id(*parts: str) -> str:
    """The same for the same parts, and no other."""
    text = msgspec.json.encode(parts)
    return hashlib.sha256(text).hexdigest()[:ID_LENGTH]


def notice_text(queue: str, what: str) -> str:
    """One printable line, for any text of users."""
    return printable(f"queue {quoted(queue, limit=NAME_LIMIT)}: {what}", limit=TEXT_LIMIT)
