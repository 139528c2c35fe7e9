"""history: who changed a queue, when and why."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from kubectl_queue.cli.flags import Flags, names
from kubectl_queue.cli.options import (
    NO_HEADERS,
    Output,
    formats,
)
from kubectl_queue.cli.suggestions import with_suggestions
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import UsageError
from kubectl_queue.objects.fields import value_at
from kubectl_queue.objects.queues import changes_of, given_back_of
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.output.tables import TableLayout, short_names
from kubectl_queue.session import Session
from kubectl_queue.views.history import PODS, with_given_back
from kubectl_queue.views.text import age
from queues.status.changes import HistoryLine
from queues.text import printable

_COMMAND = "kubectl queue history"
_HEADINGS = ("WHEN", "WHO", "WHAT", "FROM", "TO", "UNTIL", "REASON")
_NONE = "<none>"
#: Characters of a reason in a table that is not wide.
_REASON = 60


def run_history(session: Session, flags: Flags) -> int:
    chosen = names(flags.names, command=_COMMAND)
    if len(chosen) != 1:
        raise UsageError(f"exactly one NAME is required, got {len(chosen)}", see=_COMMAND)
    with with_suggestions(session.api, chosen[0]):
        item = session.api.get(chosen[0])
    changes, given_back = changes_of(item), given_back_of(item)
    if session.output in DOCUMENTS:
        document = {"queue": chosen[0], "changes": [msgspec.to_builtins(change) for change in changes]}
        if given_back:
            document["givenBack"] = [msgspec.to_builtins(line) for line in given_back]
        session.console.say(dump(document, output=session.output))
    elif not (changes or given_back):
        created = value_at(item, "metadata.creationTimestamp")
        session.console.note(f'queue "{chosen[0]}" is as it was made, {created}: nothing of it was changed')
    else:
        lines = table(
            with_given_back(changes, given_back),
            now=session.client.now,
            wide=session.output is Output.WIDE,
            headings=not flags.on("no-headers"),
        )
        session.console.say("\n".join(lines))
    return 0


def table(changes: Sequence[HistoryLine], *, now: datetime, wide: bool, headings: bool) -> list[str]:
    """Long names of queues are cut, but with `wide`, and without headings, which is for programs."""
    of_queues = (change for change in changes if change.field in ("parent", PODS))
    names = {name for change in of_queues for name in (change.from_, change.to)}
    shown = short_names(names) if headings and not wide else {}
    rows = [
        (
            f"{change.at} ({age(change.at, now=now)} ago)" if wide else change.at,
            printable(change.by),
            change.field,
            printable(shown.get(change.from_, change.from_)) or _NONE,
            printable(shown.get(change.to, change.to)) or _NONE,
            printable(change.until) or _NONE,
            printable(change.reason) if wide else printable(change.reason, limit=_REASON),
        )
        for change in changes
    ]
    return [line.rstrip() for line in TableLayout().lines([_HEADINGS, *rows] if headings else rows)]


VERBS = (
    Verb(
        name="history",
        usage="NAME",
        long=(
            "Show who changed what of a queue, from what to what, when and why: what stops it (state, "
            "stopPolicy, parked, resumeAt, windows), where it is and who may use it (parent, "
            "namespaceSelector), and what its pods meet (capability, deserved, guarantee, weight, priority, "
            "schedulerPolicy, dequeueStrategy, affinity). The last 50 changes, newest last. UNTIL is when a "
            "stop that begins with the change ends by itself. Lines of WHAT pods say how many pods of queue "
            "FROM were evicted for pods of queue TO, and by which action of its policy: the last 20, one for "
            "a minute."
        ),
        examples=("kubectl queue history research", "kubectl queue history research -o wide"),
        flags=(formats(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML), NO_HEADERS),
        run=run_history,
    ),
)
