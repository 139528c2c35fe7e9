"""The table of queues, with the columns of `kubectl get queues`; the layout of every table.

Promises
- The columns are the printer columns of the Queue's definition (`manifests/crds`), the spacing that of
  kubectl (Go's tabwriter: at least 6 wide, 3 apart, nothing after the last one). Rows that come later keep
  the widths of those before.
- After them come, with -o wide, NAMESPACES, where a queue selects some, PARKED, what becomes of pods that
  wait without a gate, where a queue says that, GATED and UNGATED, the pods of a queue itself that it keeps
  waiting, with our gate and without, where it does, RECREATING, those of the latter that are to be created
  again with the gate, where there are some, and LEFT, the pods of a queue itself that its drain has still to
  end, where one drains; then a column for each label of -L; then RESUMES, when a stop ends by itself, where
  one does.
- A name of more than 48 letters is cut in the middle, so that it still differs from the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from kubectl_queue.objects.fields import Object, value_at
from kubectl_queue.views.text import age, first_line, with_time_left
from queues.namespace_selectors import compile_selector

_LEAST, _GAP = 6, 3
#: Letters of a name in a table; what is longer is cut to the first of the sizes that tells it from others.
LONGEST_NAME = 48
_SIZES = (LONGEST_NAME, 96, 192)
_CUT = "..."


class Column(NamedTuple):
    """A heading and where its value is: at a path, or in a label. `wide`: shown with -o wide alone."""

    heading: str
    path: str = ""
    label: str = ""
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
PARKED = Column("PARKED", "spec.parked", wide=True)
GATED = Column("GATED", "status.pods.gated", wide=True)
UNGATED = Column("UNGATED", "status.pods.parked", wide=True)
RECREATING = Column("RECREATING", "status.pods.recreating", wide=True)
#: The columns whose values are names of queues.
_NAMES = frozenset({"NAME", "PARENT"})


class Table:
    """Lines of one table, as long as it goes on. `labels`: keys of labels that have a column each.

    Long names are cut, but with `wide`, and without headings, which is for programs.
    """

    def __init__(self, *, wide: bool = False, headings: bool = True, labels: Sequence[str] = ()) -> None:
        self._wide = wide
        self._headings = headings
        self._columns = [column for column in COLUMNS if wide or not column.wide]
        self._labels = [Column(label.rpartition("/")[2].upper(), label=label) for label in labels]
        self._layout = Layout()
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
            optional = (NAMESPACES, PARKED, GATED, UNGATED, RECREATING, LEFT)
            self._columns += [
                column for column in optional if any(_cell(column, item, now=now) for item in items)
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
        cells = [_cell(column, item, now=now) for column in self._columns]
        shown = [
            names.get(cell, cell) if column.heading in _NAMES and column.path else cell
            for column, cell in zip(self._columns, cells, strict=True)
        ]
        resumes = _resumes(value_at(item, RESUMES.path), now=now)
        return [*shown, resumes] if resumes else shown


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


def _cell(column: Column, item: Object, *, now: datetime) -> str:
    if column.label:
        labels = value_at(item, "metadata.labels")
        return first_line(str(labels.get(column.label, ""))) if isinstance(labels, dict) else ""
    value = value_at(item, column.path)
    if column is NAMESPACES:
        return selector_text(value)
    if column in (GATED, UNGATED):
        return _parked(column, item)
    if column is RECREATING:
        return str(value or "")
    if column.heading == "AGE":
        return age(value, now=now)
    return "" if value is None else first_line(str(value))


def _parked(column: Column, item: Object) -> str:
    """How many pods the queue keeps waiting, with our gate or without; empty where it keeps none."""
    parked, gated = (int(value_at(item, each.path) or 0) for each in (UNGATED, GATED))
    if not parked:
        return ""
    return str(gated if column is GATED else max(0, parked - gated))


def selector_text(selector: Any) -> str:
    """Which namespaces a queue's own selector selects; empty where that is all."""
    read = compile_selector(selector)
    if read is None:
        return ""
    return f"none: {read.unreadable}" if read.unreadable else read.text


def _resumes(value: Any, *, now: datetime) -> str:
    try:
        return with_time_left(datetime.fromisoformat(value), now=now) if value else ""
    except (TypeError, ValueError):
        return "<invalid>"
