"""What is wrong with a field of a window, and where it stands."""

from __future__ import annotations

import msgspec

from queues.text import printable, quoted, truncated

#: Characters of a refusal, and of a user's text in it.
LIMIT, TEXT_LIMIT = 300, 60
#: Refusals that are listed.
LISTED = 10


class WindowError(Exception):
    """A value cannot be read; the message says what is wrong with it, without naming the field."""


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """`path`: the field, as `spec.windows[1].schedule`. `name`: the window's, "" where it has none."""

    path: str
    name: str
    problem: str

    def __str__(self) -> str:
        name = f" of window {quoted(self.name, limit=TEXT_LIMIT)}" if self.name else ""
        return truncated(f"{self.path}{name}: {self.problem}", limit=LIMIT)


def refusals_text(refusals: list[Refusal]) -> str:
    """A line for each, and how many more there are."""
    lines = [str(refusal) for refusal in refusals[:LISTED]]
    more = len(refusals) - len(lines)
    return "\n".join([*lines, *([f"and {more} more"] if more else [])])


def shown(value: object) -> str:
    """A user's value in a refusal."""
    return (
        quoted(value, limit=TEXT_LIMIT)
        if isinstance(value, str)
        else printable(repr(value), limit=TEXT_LIMIT)
    )
