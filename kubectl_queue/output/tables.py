"""The table of queues (`views.queue_table`) as lines; the layout of every table.

Promises
- The spacing is that of kubectl (Go's tabwriter: at least 6 wide, 3 apart, nothing after the last one). Rows
  that come later keep the widths of those before.
- A name of more than 48 letters is cut in the middle, so that it still differs from the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from kubectl_queue.objects.fields import Object, value_at
from kubectl_queue.views.queue_table import COLUMNS, NAMES, OPTIONAL, RESUMES, cell, label_column, resumes

_LEAST, _GAP = 6, 3
#: Letters of a name in a table; what is longer is cut to the first of the sizes that tells it from others.
LONGEST_NAME = 48
_SIZES = (LONGEST_NAME, 96, 192)
_CUT = "..."


class Table:
    """Lines of one table, as long as it goes on. `labels`: keys of labels that have a column each.

    Long names are cut, but with `wide`, and without headings, which is for programs.
    """

    def __init__(self, *, wide: bool = False, headings: bool = True, labels: Sequence[str] = ()) -> None:
        self._wide = wide
        self._headings = headings
        self._columns = [column for column in COLUMNS if wide or not column.wide]
        self._labels = [label_column(label) for label in labels]
        self._layout = TableLayout()
        self._is_begun = False
        self._names: set[str] = set()

    def lines(self, items: Sequence[Object], *, now: datetime) -> list[str]:
        """The rows of these items; above the first ones the headings, where they are wanted."""
        with_headings = self._headings and not self._is_begun
        if not self._is_begun:
            self._begin(items, now=now)
        names = self._short_names(items)
        rows = [self._row(item, names, now=now) for item in items]
        if with_headings:
            headings = [column.heading for column in self._columns]
            has_resumes = any(len(row) > len(headings) for row in rows)
            rows.insert(0, [*headings, RESUMES.heading] if has_resumes else headings)
        return self._layout.lines(rows)

    def _begin(self, items: Sequence[Object], *, now: datetime) -> None:
        if self._wide:
            self._columns += [
                column for column in OPTIONAL if any(cell(column, item, now=now) for item in items)
            ]
        self._columns += self._labels
        self._is_begun = True

    def _short_names(self, items: Sequence[Object]) -> Mapping[str, str]:
        """Those to cut, with what to show instead; each may be told from all that were shown so far."""
        if self._wide or not self._headings:
            return {}
        for item in items:
            self._names.update(
                (str(value_at(item, "metadata.name")), str(value_at(item, "spec.parent") or ""))
            )
        return short_names(self._names)

    def _row(self, item: Object, names: Mapping[str, str], *, now: datetime) -> list[str]:
        cells = [cell(column, item, now=now) for column in self._columns]
        shown = [
            names.get(text, text) if column.heading in NAMES and column.path else text
            for column, text in zip(self._columns, cells, strict=True)
        ]
        end = resumes(item, now=now)
        return [*shown, end] if end else shown


class TableLayout:
    """Widths of columns, which only grow."""

    def __init__(self) -> None:
        self._widths: list[int] = []

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        for row in rows:
            self._widths += [_LEAST] * (len(row) - len(self._widths))
            needed = [len(cell) + _GAP for cell in row]
            self._widths = list(map(max, self._widths, needed))
        return ["".join(map(str.ljust, row[:-1], self._widths)) + row[-1] for row in rows]


def short_names(names: Iterable[str]) -> dict[str, str]:
    """Each name as tables show it: a long one by its beginning and its end, so much that it is no other's.

    `...` is in no name of a queue, so that a cut one cannot be taken for a whole one.
    """
    every = set(names)
    shown = {name: name for name in every}
    long = [name for name in every if len(name) > LONGEST_NAME]
    for size in _SIZES:
        tail = (size - len(_CUT)) // 2
        head = size - len(_CUT) - tail
        ends = Counter((name[:head], name[-tail:]) for name in every if len(name) >= head + tail)
        for name in long:
            if len(name) > size and ends[name[:head], name[-tail:]] == 1:
                shown[name] = f"{name[:head]}{_CUT}{name[-tail:]}"
        long = [name for name in long if shown[name] == name]
    return shown
