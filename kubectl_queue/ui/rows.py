"""Frames: the rows of all queues at one moment, and what differs between two. Pure.

Invariants
- A frame that was made from the one before has the same rows as one made anew from the same objects.
- What a change costs is what it concerns: the rows that may differ (`views.changed_rows`) are made again, and
  no others. So it is with a time at which a stop ends by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.views.changed_rows import changed_by_time, concerned_rows
from kubectl_queue.views.problems import Problem, problem_of
from kubectl_queue.views.queue_tree import TreeRow, tree_order, tree_row, tree_rows
from kubectl_queue.views.text import text_without_times
from queues.tree import Tree


class QueueRow(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A row of the tree as the page takes it. Times in `cause` are absolute."""

    name: str
    parent: str
    state: str
    stop_policy: str
    pending: int | None
    running: int | None
    quota: str
    cause: str
    drained: str
    stop_pending: bool
    problem: Problem | None


class Frame(msgspec.Struct, frozen=True):
    """`rows`: parents first, as `kubectl queue tree` has them."""

    number: int
    queues: QueueObjects
    rows: Mapping[str, QueueRow]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What a window that shows the one frame needs to show the other. `gone`: names. `order`: all names; None
    where it is the same.
    """

    rows: Sequence[QueueRow]
    gone: Sequence[str]
    order: Sequence[str] | None


def first_frame(queues: QueueObjects, *, number: int) -> Frame:
    return Frame(number, queues, {row.name: _row(row) for row in tree_rows(queues)})


def next_frame(
    before: Frame, items: Mapping[str, Object], changed: Collection[str], *, now: datetime
) -> Frame:
    """`changed`: names whose objects differ from those of the frame before, or are new, or gone.

    The same frame where there are none, and time has changed nothing either.
    """
    aged = changed_by_time(before.queues, now=now)
    if not (changed or aged):
        return before
    queues = before.queues.with_changes(items, changed, now=now)
    again = concerned_rows(before.queues, queues, changed, aged=aged)
    order = _order(before, queues, changed)
    rows = {name: _next_row(name, parent, before, queues, again) for name, parent in order}
    return Frame(before.number + 1, queues, rows)


def _order(before: Frame, queues: QueueObjects, changed: Collection[str]) -> Iterable[tuple[str, str]]:
    """As `tree_order`, which is as before where no queue has come, gone or moved."""
    old, new = before.queues.tree, queues.tree
    if all(_place(name, old) == _place(name, new) for name in changed):
        return [(name, row.parent) for name, row in before.rows.items()]
    return tree_order(new)


def _place(name: str, tree: Tree) -> tuple[bool, str | None]:
    queue = tree.get(name)
    return queue is not None, queue.parent if queue is not None else None


def _next_row(name: str, parent: str, before: Frame, queues: QueueObjects, again: Container[str]) -> QueueRow:
    row = before.rows.get(name)
    is_kept = row is not None and name not in again and row.parent == parent
    return row if row is not None and is_kept else _row(tree_row(name, parent, queues))


def difference(before: Frame | None, after: Frame) -> Difference:
    if before is None:
        return Difference(rows=list(after.rows.values()), gone=(), order=list(after.rows))
    rows = [row for name, row in after.rows.items() if before.rows.get(name) != row]
    gone = [name for name in before.rows if name not in after.rows]
    is_same = list(before.rows) == list(after.rows)
    return Difference(rows=rows, gone=gone, order=None if is_same else list(after.rows))


def _row(row: TreeRow) -> QueueRow:
    return QueueRow(
        name=row.name,
        parent=row.parent,
        state=row.state.value,
        stop_policy=row.stop_policy.value,
        pending=row.pending,
        running=row.running,
        quota=row.quota,
        cause=text_without_times(row.cause),
        drained=row.drained,
        stop_pending=row.stop_pending,
        problem=problem_of(row),
    )


def encoded(value: Any) -> bytes:
    """One line of a stream."""
    return msgspec.json.encode(value) + b"\n"
