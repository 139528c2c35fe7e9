"""The book: the pods whose release has begun, as one text that only the leader writes.

A release is written into the book first, at the version of the book that was read. Then the pod's gates are
taken off, at the version of the pod that the book names. So whoever reads the book knows every pod that a
former leader may still let go, and counts it.

Invariants
- `parse(encode(book)) == book`.
- A book that is new says so, until what was begun before it can happen no more. So the leader that made it
  may crash, or not hear that it was stored: whoever opens it next knows. It also says since when it is new:
  a pod that has changed after that need not be changed again, so each leader goes on where the last one died.
- At most `MAX_INTENTS` are in it: 32 bytes each, beside names that are no UUIDs.
- What is not as this version writes it is a `BadBook`, and the book counts as lost (`controller.quota`). So
  does one from which somebody has removed a line by hand: the last line is a checksum of the others.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Mapping
from functools import lru_cache
from uuid import UUID

import msgspec

FORMAT = "1"
#: Pods of which the release has begun, at most.
MAX_INTENTS = 512
#: Characters of a book that is read: as many intents with names of the longest kind.
MAX_LENGTH = 300_000
#: Behind the term of a book that is new, with the version since when it is, where that is known.
NEW = " new"

_VERSION = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
_NEW = re.compile(f"{NEW}(?: (.*))?$", re.ASCII)
#: So that many terms can follow that of any book that is read.
_TERM = re.compile(r"[1-9][0-9]{0,14}", re.ASCII)
#: Of a UID that is no UUID, as it is.
_PLAIN = re.compile(r"=[0-9A-Za-z._-]{1,253}", re.ASCII)


class BadBook(ValueError):
    """The text is not one that this version writes."""


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """`term`: which leader wrote it; each has a greater one. `intents`: resource versions by pod UID.
    `is_new`: the former book was lost, and what is in nobody's book may still happen. `since`: then, a
    resource version at which the former one was lost already; 0 where that is not written down yet.
    """

    term: int
    intents: Mapping[str, int] = {}
    is_new: bool = False
    since: int = 0


def encode(book: Book) -> str:
    lines = (f"{_short(uid)} {version}" for uid, version in sorted(book.intents.items()))
    since = f" {book.since}" if book.since else ""
    head = f"{FORMAT} {book.term}{NEW + since if book.is_new else ''}"
    return _with_checksum("\n".join((head, *lines)))


def _with_checksum(text: str) -> str:
    return f"{text}\n{zlib.crc32(text.encode()):08x}"


def parse(text: str) -> Book:
    """Raises `BadBook`."""
    if len(text) > MAX_LENGTH:
        raise BadBook(f"it has {len(text)} characters")
    written = text.rpartition("\n")[0]
    head, *lines = written.split("\n")
    form, _, term = head.partition(" ")
    if form != FORMAT:
        raise BadBook("it is of another version")
    if not text.isascii() or text != _with_checksum(written):
        raise BadBook("somebody has changed it")
    if len(lines) > MAX_INTENTS:
        raise BadBook(f"it has {len(lines)} entries")
    intents: dict[str, int] = {}
    for line in lines:
        short, _, version = line.partition(" ")
        intents[_uid(short)] = _number(version)
    if len(intents) < len(lines):
        raise BadBook("it has a pod twice")
    new = _NEW.search(term)
    return Book(
        term=_number(term[: new.start()] if new else term, _TERM),
        intents=intents,
        is_new=new is not None,
        since=_number(new[1]) if new and new[1] is not None else 0,
    )


def _number(text: str, form: re.Pattern[str] = _VERSION) -> int:
    if not form.fullmatch(text):
        raise BadBook("it has a number that is none")
    return int(text)


@lru_cache(maxsize=2 * MAX_INTENTS)
def _short(uid: str) -> str:
    """A UUID in 22 characters. A book is written while most of it is as it was."""
    try:
        value = UUID(uid)
    except ValueError:
        return f"={uid}"
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=") if str(value) == uid else f"={uid}"


def _uid(short: str) -> str:
    if _PLAIN.fullmatch(short):
        return short[1:]
    try:
        value = base64.b64decode(f"{short}==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise BadBook("it has a UID that is none") from None
    if len(value) != 16:
        raise BadBook("it has a UID that is none")
    return str(UUID(bytes=value))
