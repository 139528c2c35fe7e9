"""usage: what queues use of their quotas, and how many pods wait for room (`views.usage`)."""

from __future__ import annotations

from kubectl_queue.access.queue_reader import read_queues
from kubectl_queue.cli.flags import Flags, names
from kubectl_queue.cli.suggestions import queue_not_found
from kubectl_queue.commands.redrawing import queues_document, redraw, redrawn_flags
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import UsageError
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.output.formats import DOCUMENTS
from kubectl_queue.output.usage import ASCII, UNICODE, usage_lines
from kubectl_queue.session import Session
from kubectl_queue.views.usage import UsageRow, as_structure, usage_rows
from queues.text import quoted

#: Queues of which it is said that their capability does not hold yet.
_NOTES = 5
_COMMAND = "kubectl queue usage"


def run_usage(session: Session, flags: Flags) -> int:
    tops = names(flags.names, command=_COMMAND)
    if len(tops) > 1:
        raise UsageError("usage takes one NAME at most", see=_COMMAND)
    top = "".join(tops)
    if flags.on("watch"):
        return redraw(session, lambda queues: _drawn(session, flags, _rows(queues, top)))
    rows = _rows(read_queues(session.api, tops, command=_COMMAND), top)
    if rows or session.output in DOCUMENTS:
        session.console.say(_drawn(session, flags, rows))
    else:
        session.console.note(
            f"queue {quoted(top)} has no quota: neither it nor a queue above it or below it has a capability"
            if top
            else "no queue has a quota: none has a capability"
        )
    unknown = [row.name for row in rows if row.waiting is None]
    if unknown and session.output not in DOCUMENTS:
        session.console.warn(
            f"queue {quoted(unknown[0])} has a quota and no status.quota yet; is Sluice's controller running?"
        )
    late = [row.not_enforced for row in rows if row.not_enforced]
    if session.output not in DOCUMENTS:
        for text in late[:_NOTES]:
            session.console.note(text)
    return 0


def _rows(queues: QueueObjects, top: str) -> list[UsageRow]:
    if top and top not in queues.items:
        raise queue_not_found(top, among=queues.tree)
    return usage_rows(queues, top=top)


def _drawn(session: Session, flags: Flags, rows: list[UsageRow]) -> str:
    if session.output in DOCUMENTS:
        return queues_document(session, flags, as_structure(rows))
    bars = (UNICODE if session.console.unicode else ASCII) if session.console.at_terminal else None
    return "\n".join(usage_lines(rows, bars=bars, headings=not flags.on("no-headers")))


VERBS = (
    Verb(
        name="usage",
        usage="[NAME]",
        long=(
            "Show what queues use of their quotas, each with all queues below it, or one of them with those "
            "above that bound it too. LIMIT is the queue's own capability. LENT is what it does not use of "
            "what it deserves, BORROWED what it uses beyond that, and WAITING how many pods wait for room. "
            "DELETED, where there is any, is what of USED is of pods that were deleted by force, and may "
            "still run on their nodes. "
            "At a terminal it draws how full each is. For what one pod waits: kubectl queue why pod/NAME."
        ),
        examples=("kubectl queue usage", "kubectl queue usage research -w", "kubectl queue usage -o json"),
        flags=redrawn_flags("Show it again as it changes."),
        run=run_usage,
    ),
)
