"""What keeps a queue from Closed, `status.closing`: as the controller writes it, as it is read, and in words.

It is there from when the queue takes no new work until it is Closed. A controller of an older version does
not write it: then nothing is known.
"""

from __future__ import annotations

from typing import Any

import msgspec

from queues.apimachinery.conversion import Converter
from queues.text import NAME_LIMIT, printable

#: Characters of what cannot be read of an object.
UNREADABLE_LIMIT = 1000


class ClosingStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """`kind`, `namespace`, `name`: a live member, rather one that a user made than what that made; "" where
    none is known. `queue`: which it is in: the queue itself, or one below it. `others`: how many more live
    members that queue has. `unreadable`: what of the object cannot be read, which may be why it counts as
    live.
    """

    kind: str = ""
    namespace: str = ""
    name: str = ""
    queue: str = ""
    others: int = 0
    unreadable: str = ""


_closing = Converter[ClosingStatus](ClosingStatus)


def closing_text(closing: ClosingStatus) -> str:
    if not closing.name:
        return "what was admitted before may still come"
    member = f"{_shown(closing.kind).lower()} {_shown(closing.namespace)}/{_shown(closing.name)}"
    fault = printable(closing.unreadable, limit=UNREADABLE_LIMIT)
    in_part = f" (it cannot be read in full: {fault})" if fault else ""
    others = " and others" if closing.others else ""
    return f"kept from Closed by {member}{in_part}{others} of queue {_shown(closing.queue)}"


def closing_fields(closing: ClosingStatus) -> dict[str, Any]:
    """`status.closing` in wire form; empty texts are left out."""
    return {key: value for key, value in msgspec.to_builtins(closing).items() if value != ""}


def read_closing(closing: object) -> ClosingStatus | None:
    """None where it is not there, or not what the controller writes."""
    try:
        return None if closing is None else _closing(closing)
    except (msgspec.ValidationError, UnicodeEncodeError):
        return None


def _shown(name: str) -> str:
    return printable(name, limit=NAME_LIMIT)
