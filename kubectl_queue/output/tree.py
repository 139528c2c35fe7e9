"""The hierarchy of queues, with the state of each and what causes it.

Promises
- Every queue is drawn once: below its parent, or at the left edge if its chain is broken.
- The state is the verdict of the rules on what was read; where the controller has written
  another one, or none, or has not acknowledged the stop, the row says so.
- The pods of a queue are its own and those of all below it, as far as they are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from kubectl_queue.drain import progress as drains
from kubectl_queue.output.ages import moment
from kubectl_queue.output.tables import Layout, one_line
from kubectl_queue.queue_objects import (
    QueueObjects,
    may_be_live,
    status_of,
    stop_acknowledgement,
)
from queues.queue import ROOT, Queue
from queues.states import State
from queues.status.stop_status import Acknowledgement, waiting_for
from queues.text import printable
from queues.tree import Tree
from queues.verdict import Cause, CauseKind, Verdict


class Glyphs(NamedTuple):
    """The strokes of the drawing."""

    child: str
    last: str
    below: str
    after: str


UNICODE = Glyphs("├── ", "└── ", "│   ", "    ")
ASCII = Glyphs("|-- ", "`-- ", "|   ", "    ")
_HEADINGS = ("NAME", "STATE", "STOP", "PENDING", "RUNNING", "CAUSE")


def draw(
    snapshot: QueueObjects, *, top: str = "", glyphs: Glyphs = UNICODE, headings: bool = True
) -> list[str]:
    """The lines of the tree below `top`, or of all of it."""
    tops = [top] if top else _tops(snapshot.tree)
    drawn = (pair for start in tops for pair in _walk(start, snapshot.tree, glyphs))
    rows = [(stroke + name, *_row(name, snapshot)) for stroke, name in drawn]
    lines = Layout().lines([_HEADINGS, *rows] if headings else rows)
    return [line.rstrip() for line in lines]


def _tops(tree: Tree) -> list[str]:
    """`root`, then each queue whose parent is missing, then one queue of each cycle."""
    reached = set(tree.subtree(ROOT))
    tops = [ROOT]
    orphans = sorted(name for name in tree if name != ROOT and (tree.queues[name].parent or ROOT) not in tree)
    for name in (*orphans, *sorted(tree)):
        if name not in reached:
            tops.append(name)
            reached |= tree.subtree(name)
    return tops


def _walk(top: str, tree: Tree, glyphs: Glyphs) -> Iterator[tuple[str, str]]:
    """Each queue with the strokes before its name, parents first."""
    seen = {top}
    waiting = [("", "", top)]
    while waiting:
        stroke, indent, name = waiting.pop()
        yield stroke, name
        children = [child for child in tree.children(name) if child not in seen]
        seen.update(children)
        waiting += reversed(list(_strokes(children, indent=indent, glyphs=glyphs)))


def _strokes(children: Sequence[str], *, indent: str, glyphs: Glyphs) -> Iterator[tuple[str, str, str]]:
    for child in children:
        last = child == children[-1]
        yield (
            indent + (glyphs.last if last else glyphs.child),
            indent + (glyphs.after if last else glyphs.below),
            child,
        )


def _row(name: str, snapshot: QueueObjects) -> tuple[str, ...]:
    item = snapshot.items.get(name)
    if item is None:
        return (State.OPEN.value, "None", "", "", "not there yet")
    verdict = snapshot.decisions.verdict(name, live=may_be_live(item))
    queue = snapshot.tree.queues[name]
    notes = [
        *_causes(verdict),
        *_end(queue, now=snapshot.now),
        *_namespaces(queue),
        *_drain(name, verdict, snapshot),
        *_doubts(verdict, str(status_of(item).get("state") or "")),
        *_acknowledgement(name, verdict, snapshot),
    ]
    return (
        verdict.state.value,
        queue.stop_policy.value,
        *(_counted(name, key, snapshot) for key in ("pending", "running")),
        one_line("; ".join(notes)),
    )


def _counted(name: str, key: str, snapshot: QueueObjects) -> str:
    """The pods of the branch; blank where none are counted yet."""
    counts = [status_of(item).get("pods") or {} for item in snapshot.branch(name)]
    held = [int(count[key] or 0) for count in counts if key in count]
    return str(sum(held)) if held else ""


def _end(queue: Queue, *, now: datetime) -> Iterator[str]:
    """When the queue's own stop ends by itself."""
    if queue.is_suspended_or_held and queue.resume_time is not None:
        yield f"resumes at {moment(queue.resume_time, now=now)}"


def _namespaces(queue: Queue) -> Iterator[str]:
    """Which namespaces its own selector selects, where that is not all."""
    if queue.namespace_selector is not None:
        yield f"for namespaces with {queue.namespace_selector.text}"


def _drain(name: str, verdict: Verdict, snapshot: QueueObjects) -> Iterator[str]:
    """How far the drain of the branch is."""
    if verdict.drains:
        told = drains.short_text(snapshot.from_top(name))
        yield from [told] if told else []


def _causes(verdict: Verdict) -> Iterator[str]:
    if verdict.broken:
        yield str(verdict.broken)
        return
    for cause in (verdict.stop, verdict.refusal):
        if cause is not None:
            yield _cause(cause)


def _cause(cause: Cause) -> str:
    held = cause.kind is CauseKind.STOPPED
    what = f"stopPolicy {cause.policy}" if held else cause.kind.value.lower()
    by = "" if cause.by == cause.queue else f" {'of' if held else 'by'} {cause.by}"
    reason = printable(cause.reason)
    return what + by + (f" ({reason})" if reason else "")


def _acknowledgement(name: str, verdict: Verdict, snapshot: QueueObjects) -> Iterator[str]:
    """That a stop is not acknowledged, where the server says for which specs it is."""
    item = snapshot.items[name]
    stop = status_of(item).get("stop")
    if verdict.schedules or stop is None:
        return
    if stop_acknowledgement(item, chain=snapshot.chain(name)) is not Acknowledgement.ACKNOWLEDGED:
        text = waiting_for(stop)
        yield f"not acknowledged yet{f' ({text})' if text else ''}"


def _doubts(verdict: Verdict, written: str) -> Iterator[str]:
    if written != verdict.state:
        yield f"status still says {written}" if written else "no status yet"
