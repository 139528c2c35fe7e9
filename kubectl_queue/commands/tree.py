"""tree: the hierarchy, with the state of each queue and its cause.

Promises
- Every queue is drawn once: below its parent, or at the left edge if its chain is broken. The structure
  that -o json and yaml print has the same queues in the same order.
- The state is the verdict of the rules on what was read. Where the controller has written another one, or
  none, or has not acknowledged the stop, the row says so.
- The pods of a queue are its own and those of all below it, as far as they are counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

from kubectl_queue.access.queue_reader import read_queues
from kubectl_queue.cli.flags import Flags, names
from kubectl_queue.cli.options import NO_HEADERS, Output, formats
from kubectl_queue.cli.suggestions import queue_not_found
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import UsageError
from kubectl_queue.objects.fields import status_of
from kubectl_queue.objects.queues import QueueObjects, may_be_live, stop_acknowledgement
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.output.tables import Layout, short_names
from kubectl_queue.session import Session
from kubectl_queue.views import drain_status as drains
from kubectl_queue.views.text import first_line, with_time_left
from queues.causes import Cause, CauseKind
from queues.queue import ROOT, Queue
from queues.states import State
from queues.status.stop_status import Acknowledgement, waiting_for
from queues.text import printable
from queues.tree import Tree
from queues.verdict import Verdict


def run_tree(session: Session, flags: Flags) -> int:
    tops = names(flags.names, command="kubectl queue tree")
    if len(tops) > 1:
        raise UsageError("tree takes one NAME at most", see="kubectl queue tree")
    queues = read_queues(session.api, ())
    top = "".join(tops)
    if top and top not in queues.tree:
        raise queue_not_found(top, among=queues.tree)
    if session.output in DOCUMENTS:
        session.console.say(dump({"queues": as_structure(queues, top=top)}, output=session.output))
        return 0
    glyphs = UNICODE if session.console.unicode else ASCII
    lines = draw(queues, top=top, glyphs=glyphs, headings=not flags.on("no-headers"))
    session.console.say("\n".join(lines))
    if not any(map(status_of, queues.items.values())):
        session.console.warn("no queue has a status; is Sluice's controller running?")
    return 0


class Glyphs(NamedTuple):
    """The lines that connect the queues of a tree."""

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
    drawn = [pair for start in tops for pair in _walk(start, snapshot.tree, glyphs)]
    shown = short_names(name for _, name in drawn) if headings else {}
    rows = [(stroke + shown.get(name, name), *_row(name, snapshot)) for stroke, name in drawn]
    lines = Layout().lines([_HEADINGS, *rows] if headings else rows)
    return [line.rstrip() for line in lines]


def as_structure(snapshot: QueueObjects, *, top: str = "") -> list[dict[str, Any]]:
    """The same as a structure: each queue with those below it as its `children`."""
    tops = [top] if top else _tops(snapshot.tree)
    queues: dict[str, dict[str, Any]] = {}
    roots: list[dict[str, Any]] = []
    for start in tops:
        for name, parent in _with_parents(start, snapshot.tree):
            queues[name] = _document(name, snapshot)
            (queues[parent]["children"] if parent else roots).append(queues[name])
    return roots


def _with_parents(top: str, tree: Tree) -> Iterator[tuple[str, str]]:
    """Each queue with the one that it is drawn below, parents first; the top has none."""
    seen = {top}
    waiting = [(top, "")]
    while waiting:
        name, parent = waiting.pop()
        yield name, parent
        children = [child for child in tree.children(name) if child not in seen]
        seen.update(children)
        waiting += [(child, name) for child in reversed(children)]


def _document(name: str, snapshot: QueueObjects) -> dict[str, Any]:
    """The row of a queue as a structure; a count that is not known is not there."""
    state, stop, pending, running, cause = _row(name, snapshot)
    counts = {"pending": pending, "running": running}
    return {
        "name": name,
        "state": state,
        "stopPolicy": stop,
        "pods": {key: int(count) for key, count in counts.items() if count},
        "cause": cause,
        "children": [],
    }


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
    children: dict[str, list[str]] = {}
    parents = dict(_with_parents(top, tree))
    for name, parent in parents.items():
        children.setdefault(parent, []).append(name)
    indents: dict[str, str] = {}
    for name, parent in parents.items():
        if not parent:
            indents[name] = ""
            yield "", name
            continue
        is_last = name == children[parent][-1]
        indents[name] = indents[parent] + (glyphs.after if is_last else glyphs.below)
        yield indents[parent] + (glyphs.last if is_last else glyphs.child), name


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
        *_differing_status(verdict, str(status_of(item).get("state") or "")),
        *_acknowledgement(name, verdict, snapshot),
    ]
    return (
        verdict.state.value,
        queue.stop_policy.value,
        *(_counted(name, key, snapshot) for key in ("pending", "running")),
        first_line("; ".join(notes)),
    )


def _counted(name: str, key: str, snapshot: QueueObjects) -> str:
    """The pods of the branch; blank where none are counted yet."""
    counts = [status_of(item).get("pods") or {} for item in snapshot.branch(name)]
    numbers = [int(count[key] or 0) for count in counts if key in count]
    return str(sum(numbers)) if numbers else ""


def _end(queue: Queue, *, now: datetime) -> Iterator[str]:
    """When the queue's own stop ends by itself."""
    if queue.is_suspended_or_held and queue.resume_time is not None:
        yield f"resumes at {with_time_left(queue.resume_time, now=now)}"


def _namespaces(queue: Queue) -> Iterator[str]:
    """Which namespaces its own selector selects, where that is not all."""
    if queue.namespace_selector is not None:
        yield f"for namespaces with {queue.namespace_selector.text}"


def _drain(name: str, verdict: Verdict, snapshot: QueueObjects) -> Iterator[str]:
    """How far the drain of the branch is."""
    if verdict.drains:
        text = drains.short_text(snapshot.from_top(name))
        yield from [text] if text else []


def _causes(verdict: Verdict) -> Iterator[str]:
    if verdict.broken:
        yield str(verdict.broken)
        return
    for cause in (verdict.stop, verdict.refusal):
        if cause is not None:
            yield _cause(cause)


def _cause(cause: Cause) -> str:
    is_policy = cause.kind is CauseKind.STOPPED
    what = f"stopPolicy {cause.policy}" if is_policy else cause.kind.value.lower()
    by = "" if cause.by == cause.queue else f" {'of' if is_policy else 'by'} {cause.by}"
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


def _differing_status(verdict: Verdict, written: str) -> Iterator[str]:
    if written != verdict.state:
        yield f"status still says {written}" if written else "no status yet"


VERBS = (
    Verb(
        name="tree",
        usage="[NAME]",
        long=(
            "Draw the hierarchy of queues, or what is below one of them. STATE is what follows from the "
            "queues as they are now; PENDING and RUNNING count the pods of a queue and of all below it; "
            "CAUSE names the queue to mend, and says where the controller has not written the same yet."
        ),
        examples=("kubectl queue tree", "kubectl queue tree research", "kubectl queue tree -o json"),
        flags=(formats(Output.TABLE, Output.JSON, Output.YAML), NO_HEADERS),
        run=run_tree,
    ),
)
