"""tree: the hierarchy, with the state of each queue and its cause (`views.queue_tree`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kubectl_queue.access.queue_reader import read_queues
from kubectl_queue.cli.flags import Flags, names
from kubectl_queue.cli.suggestions import queue_not_found
from kubectl_queue.commands.redrawing import queues_document, redraw, redrawn_flags
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import UsageError
from kubectl_queue.objects.fields import status_of
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.output.formats import DOCUMENTS
from kubectl_queue.output.tables import TableLayout, short_names
from kubectl_queue.session import Session
from kubectl_queue.views.queue_tree import TreeRow, as_structure, tree_rows


def run_tree(session: Session, flags: Flags) -> int:
    tops = names(flags.names, command="kubectl queue tree")
    if len(tops) > 1:
        raise UsageError("tree takes one NAME at most", see="kubectl queue tree")
    top = "".join(tops)
    if flags.on("watch"):
        return redraw(session, lambda queues: _drawn(session, flags, queues, top=top))
    queues = read_queues(session.api, ())
    session.console.say(_drawn(session, flags, queues, top=top))
    if session.output not in DOCUMENTS and not any(map(status_of, queues.items.values())):
        session.console.warn("no queue has a status; is Sluice's controller running?")
    return 0


def _drawn(session: Session, flags: Flags, queues: QueueObjects, *, top: str) -> str:
    """The tree as it is printed. Raises the error for a `top` that is not there."""
    if top and top not in queues.tree:
        raise queue_not_found(top, among=queues.tree)
    rows = tree_rows(queues, top=top)
    if session.output in DOCUMENTS:
        return queues_document(session, flags, as_structure(rows))
    glyphs = UNICODE if session.console.unicode else ASCII
    return "\n".join(draw(rows, glyphs=glyphs, headings=not flags.on("no-headers")))


class Glyphs(NamedTuple):
    """The lines that connect the queues of a tree."""

    child: str
    last: str
    below: str
    after: str


UNICODE = Glyphs("├── ", "└── ", "│   ", "    ")
ASCII = Glyphs("|-- ", "`-- ", "|   ", "    ")
#: The counts are of branches, those of the list of single queues.
_HEADINGS = ("NAME", "STATE", "STOP", "ALL-PENDING", "ALL-RUNNING", "CAUSE")


def draw(rows: Sequence[TreeRow], *, glyphs: Glyphs = UNICODE, headings: bool = True) -> list[str]:
    shown = short_names(row.name for row in rows) if headings else {}
    table = [
        (stroke + shown.get(row.name, row.name), *_cells(row))
        for stroke, row in zip(_strokes(rows, glyphs), rows, strict=True)
    ]
    return [line.rstrip() for line in TableLayout().lines([_HEADINGS, *table] if headings else table)]


def _cells(row: TreeRow) -> tuple[str, ...]:
    counts = ("" if count is None else str(count) for count in (row.pending, row.running))
    return (row.state.value, row.stop_policy.value, *counts, row.cause)


def _strokes(rows: Sequence[TreeRow], glyphs: Glyphs) -> Iterator[str]:
    """What stands before each name."""
    last = {row.parent: row.name for row in rows}
    indents: dict[str, str] = {}
    for row in rows:
        if not row.parent:
            indents[row.name] = ""
            yield ""
            continue
        is_last = last[row.parent] == row.name
        indents[row.name] = indents[row.parent] + (glyphs.after if is_last else glyphs.below)
        yield indents[row.parent] + (glyphs.last if is_last else glyphs.child)


VERBS = (
    Verb(
        name="tree",
        usage="[NAME]",
        long=(
            "Draw the hierarchy of queues, or what is below one of them. STATE is what follows from the "
            "queues as they are now; ALL-PENDING and ALL-RUNNING count the pods of a queue and of all below "
            "it; CAUSE names the queue to mend, and says where the controller has not written the same yet. "
            "-w draws it again after each change that shows."
        ),
        examples=("kubectl queue tree", "kubectl queue tree research -w", "kubectl queue tree -o json"),
        flags=redrawn_flags("Draw the tree again as queues change."),
        run=run_tree,
    ),
)
