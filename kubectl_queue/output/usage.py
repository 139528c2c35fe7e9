"""The table of what queues use (`views.usage`) as lines, with bars where they are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kubectl_queue.output.tables import TableLayout, short_names
from kubectl_queue.views.usage import UsageRow, amount_text
from queues.quota.standing import ResourceUse
from queues.text import printable

WIDTH = 10


class Bars(NamedTuple):
    """The letters of a bar: of what is used, and of what is free."""

    used: str
    free: str


UNICODE, ASCII = Bars("█", "░"), Bars("#", ".")
_FIXED = ("QUEUE", "RESOURCE", "USED", "LIMIT")
_FORCE_DELETED = "DELETED"
_KEPT = "KEPT"
#: What counts beside what is used, by its name in the status.
BESIDE_COLUMNS = {
    "RELEASING": "releasing",
    "UNGATED": "ungated",
    "SET-ASIDE": "setAside",
    "PROMISED": "guaranteedBelow",
    "CLAIMED": "claimed",
}
#: Those that a table has where a row shows something in them.
_OPTIONAL = (_FORCE_DELETED, _KEPT, *BESIDE_COLUMNS, "DESERVED", "GUARANTEE", "LENT", "BORROWED")


def usage_lines(rows: Sequence[UsageRow], *, bars: Bars | None, headings: bool = True) -> list[str]:
    """`bars`: None for a table without them, which is for programs."""
    names = short_names(row.name for row in rows) if headings else {row.name: row.name for row in rows}
    cells = [line for row in rows for line in _row_cells(row, names[row.name], bars)]
    shown = {heading for line in cells for heading, text in line.items() if text}
    columns = [
        *_FIXED,
        *(["FULL"] if bars else []),
        *(heading for heading in _OPTIONAL if heading in shown),
        "WAITING",
    ]
    table = [[line.get(heading, "") for heading in columns] for line in cells]
    return [line.rstrip() for line in TableLayout().lines([columns, *table] if headings else table)]


def _row_cells(row: UsageRow, name: str, bars: Bars | None) -> Iterator[dict[str, str]]:
    """A line for each resource; the queue is named in the first with its bars, and else in each."""
    first = {"QUEUE": "  " * row.depth + name if bars else name}
    waiting = "" if row.waiting is None else str(row.waiting)
    if not row.resources:
        yield {**first, "WAITING": waiting}
    for number, standing in enumerate(row.resources):
        named = {**first, "WAITING": waiting} if number == 0 or bars is None else {}
        yield {**named, **_cells(standing), **({"FULL": bar(standing.part, bars)} if bars else {})}


def _cells(standing: ResourceUse) -> dict[str, str]:
    values = {
        "USED": standing.used,
        "LIMIT": standing.limit,
        _FORCE_DELETED: standing.force_deleted or None,
        _KEPT: standing.kept_for_gangs or None,
        **{heading: standing.beside.get(name) for heading, name in BESIDE_COLUMNS.items()},
        "DESERVED": standing.deserved,
        "GUARANTEE": standing.guarantee,
        "LENT": standing.lent or None,
        "BORROWED": standing.borrowed or None,
    }
    texts = {heading: amount_text(value, standing.resource) for heading, value in values.items()}
    return {"RESOURCE": printable(standing.resource), **texts}


def bar(part: float | None, bars: Bars) -> str:
    """What is begun counts as used, so that only what is full looks full, and nothing else looks empty."""
    if part is None:
        return ""
    filled = min(WIDTH, int(part * WIDTH)) or (1 if part > 0 else 0)
    return f"{bars.used * filled}{bars.free * (WIDTH - filled)} {int(part * 100)}%"
