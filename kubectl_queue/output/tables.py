"""The table of queues, column for column that of `kubectl get queues`; after those RESUMES, where a stop
ends by itself, and with -o wide NAMESPACES, where a queue selects some, and LEFT, where a queue drains.

Promises: the columns are the printer columns of the Queue's definition (`manifests/crds`), the
spacing that of kubectl (Go's tabwriter: at least 6 wide, 3 apart, nothing after the last one);
rows that come later keep the widths of those before. RESUMES is what a definition cannot tell, when a stop
ends by itself and how long that is; NAMESPACES is the queue's own selector; LEFT is how many pods of the
queue itself are still to go. They are there only with queues of which that is true, the last two with such
among the first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from kubectl_queue.access.responses import Object
from kubectl_queue.output.ages import age, moment
from queues.namespace_selectors import compile_selector

_LEAST, _GAP = 6, 3
_LINE_END = re.compile(r"[\f\n\r]")


class Column(NamedTuple):
    """A heading and where its value is; `wide`: shown with -o wide alone."""

    heading: str
    path: str
    wide: bool = False


COLUMNS = (
    Column("NAME", "metadata.name"),
    Column("STATE", "status.state"),
    Column("STOP", "spec.stopPolicy"),
    Column("PARENT", "spec.parent"),
    Column("PENDING", "status.pods.pending"),
    Column("RUNNING", "status.pods.running"),
    Column("AGE", "metadata.creationTimestamp"),
    Column("REASON", "spec.reason", wide=True),
    Column("POLICY", "spec.schedulerPolicy", wide=True),
)
RESUMES = Column("RESUMES", "spec.resumeAt")
LEFT = Column("LEFT", "status.drain.left", wide=True)
NAMESPACES = Column("NAMESPACES", "spec.namespaceSelector", wide=True)


class Table:
    """Lines of one table, as long as it goes on."""

    def __init__(self, *, wide: bool = False) -> None:
        self._wide = wide
        self._columns = [column for column in COLUMNS if wide or not column.wide]
        self._layout = Layout()
        self._begun = False

    def lines(self, items: Sequence[Object], *, now: datetime, headings: bool) -> list[str]:
        if self._wide and not self._begun:
            self._columns += [
                one for one in (NAMESPACES, LEFT) if any(_cell(one, it, now=now) for it in items)
            ]
        self._begun = True
        rows = [self._row(item, now=now) for item in items]
        known = [column.heading for column in self._columns]
        timed = any(len(row) > len(known) for row in rows)
        head = [*known, RESUMES.heading] if timed else known
        return self._layout.lines([head, *rows] if headings else rows)

    def _row(self, item: Object, *, now: datetime) -> list[str]:
        resumes = _resumes(at(item, RESUMES.path), now=now)
        return [*(_cell(column, item, now=now) for column in self._columns), *([resumes] if resumes else [])]


class Layout:
    """Widths of columns, which only grow."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        for row in rows:
            self._widths += [_LEAST] * (len(row) - len(self._widths))
            needed = [len(cell) + _GAP for cell in row]
            self._widths = list(map(max, self._widths, needed))
        return ["".join(map(str.ljust, row[:-1], self._widths)) + row[-1] for row in rows]


def at(item: Object, path: str) -> Any:
    """The value at a dotted path, None where there is none."""
    found: Any = item
    for key in path.split("."):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _cell(column: Column, item: Object, *, now: datetime) -> str:
    value = at(item, column.path)
    if column is NAMESPACES:
        return selected(value)
    if column.heading == "AGE":
        return age(value, now=now)
    return "" if value is None else one_line(str(value))


def selected(selector: Any) -> str:
    """Which namespaces a queue's own selector selects; empty where that is all."""
    read = compile_selector(selector)
    if read is None:
        return ""
    return f"none: {read.unreadable}" if read.unreadable else read.text


def _resumes(value: Any, *, now: datetime) -> str:
    try:
        return moment(datetime.fromisoformat(value), now=now) if value else ""
    except (TypeError, ValueError):
        return "<invalid>"


def one_line(text: str) -> str:
    """The first line, marked where there were more."""
    first, *more = _LINE_END.split(text, maxsplit=1)
    return first + "..." if more else first
