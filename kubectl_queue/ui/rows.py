"""Frames: the rows of all queues at one moment, and what differs between two. Pure.

Invariants
- A frame that was made from the one before has the same rows as one made anew from the same objects.
- Where only statuses differ, the rows of those queues and of the ones above them are made again alone.
- A time at which a stop ends by itself is passed between two frames only where all rows are made anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.views.problems import Problem, problem_of
from kubectl_queue.views.queue_tree import TreeRow, tree_row, tree_rows
from kubectl_queue.views.text import text_without_times


class Row(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A row of the tree as the page takes it. Times in `cause` are absolute."""

    name: str
    parent: str
    state: str
    stop_policy: str
    pending: int | None
    running: int | None
    cause: str
    drained: str
    stop_pending: bool
    problem: Problem | None


class Frame(msgspec.Struct, frozen=True):
    """`rows`: parents first, as `kubectl queue tree` has them."""

    number: int
    queues: QueueObjects
    rows: Mapping[str, Row]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """What a window that shows the one frame needs to show the other. `gone`: names. `order`: all names; None
    where it is the same.
    """

    rows: Sequence[Row]
    gone: Sequence[str]
    order: Sequence[str] | None


def first_frame(queues: QueueObjects, *, number: int) -> Frame:
    return Frame(number, queues, {row.name: _row(row) for row in tree_rows(queues)})


def next_frame(before: Frame, items: Mapping[str, Object], changed: Iterable[str], *, now: datetime) -> Frame:
    """`changed`: names whose objects differ from those of the frame before, or are new, or gone.

    The same frame where there are none, and no stop has ended by itself.
    """
    number, names = before.number + 1, set(changed)
    has_ended = _ended(before.queues, now=now)
    if not (names or has_ended):
        return before
    queues = None if has_ended else before.queues.with_statuses(items, names)
    if queues is None:
        return first_frame(QueueObjects(items.values(), now=now), number=number)
    above = {each.name for name in names for each in queues.tree.chain(name).queues}
    again = names | above
    rows = {
        name: _row(tree_row(name, row.parent, queues)) if name in again else row
        for name, row in before.rows.items()
    }
    return Frame(number, queues, rows)


def _ended(queues: QueueObjects, *, now: datetime) -> bool:
    times = (queue.resume_time for queue in queues.tree.queues.values())
    return any(queues.now < time <= now for time in times if time is not None)


def difference(before: Frame | None, after: Frame) -> Difference:
    if before is None:
        return Difference(rows=list(after.rows.values()), gone=(), order=list(after.rows))
    rows = [row for name, row in after.rows.items() if before.rows.get(name) != row]
    gone = [name for name in before.rows if name not in after.rows]
    is_same = list(before.rows) == list(after.rows)
    return Difference(rows=rows, gone=gone, order=None if is_same else list(after.rows))


def _row(row: TreeRow) -> Row:
    return Row(
        name=row.name,
        parent=row.parent,
        state=row.state.value,
        stop_policy=row.stop_policy.value,
        pending=row.pending,
        running=row.running,
        cause=text_without_times(row.cause),
        drained=row.drained,
        stop_pending=row.stop_pending,
        problem=problem_of(row),
    )


def encoded(value: Any) -> bytes:
    """One line of a stream."""
    return msgspec.json.encode(value) + b"\n"
