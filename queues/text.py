"""Texts that others wrote, made fit to be shown: one line, printable, of bounded length."""

from __future__ import annotations

from collections.abc import Sequence

#: Characters of a user's reason that are shown.
REASON_LIMIT = 160
#: Characters of a name: as many as an object of the API server may have.
NAME_LIMIT = 253


def printable(text: str, *, limit: int = REASON_LIMIT) -> str:
    """A user's text on one line, printable, at most `limit` characters."""
    if len(text) <= limit and text.isprintable() and " " not in text:  # as names are
        return text
    part = text[: 4 * limit]
    if not part.isprintable():  # seldom, and a look at each character takes long
        part = "".join(c if c.isprintable() else " " for c in part)
    line = " ".join(part.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def quoted(name: str, *, limit: int = NAME_LIMIT) -> str:
    """A name as it stands in a sentence, on one line, at most `limit` characters."""
    return f'"{printable(name, limit=limit)}"'


def show_character(character: str) -> str:
    """One character, so that it can be recognised: as it is, or its code point where it cannot be seen."""
    return f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"


def join_limited(names: Sequence[str], *, limit: int, joined: str = ", ") -> str:
    """The first `limit` names, and how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return joined.join(names[:limit]) + more


def any_of(words: Sequence[str]) -> str:
    """The words as a sentence has them: `a, b or c`."""
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last


def all_of(words: Sequence[str]) -> str:
    """The words as a sentence has them: `a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def truncated(text: str, *, limit: int) -> str:
    """A text of our own, cut to `limit` characters, whatever names are in it."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
