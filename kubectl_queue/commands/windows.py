"""windows: when change windows stop queues; and start, skip and extend one occurrence (`views.windows`).

A queue that is called start, skip or extend is named as queue/start.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kubectl_queue.access.queue_reader import read_queues
from kubectl_queue.cli.flag_values import quoted
from kubectl_queue.cli.flags import (
    Flags,
    int_flag,
    names,
)
from kubectl_queue.cli.options import COMMAND, DRY_RUN, NO_HEADERS, TIMEOUT, DryRun, Output, formats
from kubectl_queue.cli.spelling import close_matches, did_you_mean
from kubectl_queue.cli.suggestions import queue_not_found
from kubectl_queue.commands.actions import EditRequest, finish, new_editor, wait_flag
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.edit.operation import StopFields
from kubectl_queue.edit.window_lines import FLAGS, WORDS, check_line, window_operation_of
from kubectl_queue.errors import UsageError
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.output.tables import TableLayout
from kubectl_queue.session import Session
from kubectl_queue.views.calendar import calendar
from kubectl_queue.views.windows import HEADINGS, WindowTable, as_structure, cells, window_table
from queues.text import printable
from queues.text import quoted as named
from queues.windows.refusals import refusals_text

_COMMAND = f"{COMMAND} windows"
_NEXT, _MOST = 10, 1000
#: Characters of a reason in a table.
_REASON = 60
_OF_EDITS = ("at", "for", "until", "reason", "wait", "dry-run", "timeout")
_OF_TABLES = ("next", "no-headers")
_EDIT_OUTPUTS = (None, Output.JSON, Output.YAML, Output.NAME)
_TABLE_OUTPUTS = (None, Output.TABLE, Output.JSON, Output.YAML, Output.ICS)


def run_windows(session: Session, flags: Flags) -> int:
    word = flags.names[0] if flags.names else ""
    if word in WORDS:
        return _edit(word, session, flags)
    return _show(session, flags)


# What there is


def _show(session: Session, flags: Flags) -> int:
    _refuse(session, flags, _OF_EDITS, _TABLE_OUTPUTS, why=f"is for {_COMMAND} start, skip and extend")
    tops = names(flags.names, command=_COMMAND)
    if len(tops) > 1:
        near = did_you_mean(close_matches(tops[0], WORDS)).rstrip("\n")
        raise UsageError(f"windows takes one NAME at most{near}", see=_COMMAND)
    number = flags.value("next") if flags.has("next") else _NEXT
    if not 1 <= number <= _MOST:
        raise UsageError(f"--next is from 1 to {_MOST}", see=_COMMAND)
    top = "".join(tops)
    queues = read_queues(session.api, tops)
    if top and top not in queues.items:
        raise queue_not_found(top, among=queues.tree)
    table = window_table(queues, top=top, number=number)
    _print(session, flags, table, now=queues.now, top=top)
    for each in table.refused:
        text = refusals_text(list(each.refusals)).replace("\n", "; ")
        session.console.warn(f"queue {named(each.queue)} has windows that cannot be read: {text}")
    return 0


def _print(session: Session, flags: Flags, table: WindowTable, *, now: datetime, top: str) -> None:
    console = session.console
    if session.output is Output.ICS:
        name = f"Change windows of queue {top}" if top else "Change windows of all queues"
        console.write_lines(calendar(table.rows, now=now, name=name).splitlines(), end="\r\n")
    elif session.output in DOCUMENTS:
        console.say(dump({"windows": as_structure(table.rows)}, output=session.output))
    elif table.rows:
        rows = [_shown(cells(row, now=now)) for row in table.rows]
        lines = TableLayout().lines(rows if flags.on("no-headers") else [HEADINGS, *rows])
        console.say("\n".join(line.rstrip() for line in lines))
    else:
        what = f"neither queue {named(top)} nor one above it has" if top else "no queue has"
        console.note(f"{what} a window that is on or comes")


def _shown(row: Sequence[str]) -> tuple[str, ...]:
    *others, reason = row
    return (*map(printable, others), printable(reason, limit=_REASON))


# What people do to one


def _edit(word: str, session: Session, flags: Flags) -> int:
    _refuse(session, flags, _OF_TABLES, _EDIT_OUTPUTS, why="is for the table of windows")
    given = flags.names[1:]
    if len(given) != 2:
        raise UsageError(f"QUEUE and WINDOW are required, got {len(given)} names", see=_COMMAND)
    [queue], window = names(given[:1], command=_COMMAND), given[1]
    check_line(word, window, flags)
    queues = read_queues(session.api, (queue,))
    is_simulated = session.dry_run is DryRun.CLIENT
    operation = window_operation_of(word, window, flags, queue=queue, queues=queues, simulates=is_simulated)
    editor = new_editor(session, EditRequest((queue,), queues, StopFields()), operation)
    return finish(editor, flags, failed=editor.edit_all((queue,)))


def _refuse(
    session: Session, flags: Flags, others: Sequence[str], outputs: Sequence[Output | None], *, why: str
) -> None:
    wrong = [name for name in others if flags.has(name)]
    if wrong:
        raise UsageError(f"--{wrong[0]} {why}", see=_COMMAND)
    if session.output not in outputs:
        allowed = ", ".join(output for output in outputs if output is not None)
        raise UsageError(f"allowed formats are: {allowed}, not {quoted(str(session.output))}", see=_COMMAND)


VERBS = (
    Verb(
        name="windows",
        usage="[NAME] | start NAME WINDOW | skip NAME WINDOW | extend NAME WINDOW",
        long=(
            "Show the change windows that stop queues by the calendar: those that are on, and the next ones, "
            "of all queues or of one and those above it. Times are in the zone of the window. -o ics is a "
            "calendar for other programs. `skip` leaves out the occurrence that is on, which ends, or else "
            "the next one. `start`: if the present occurrence was skipped or resumed, it goes on again. "
            "Otherwise the next occurrence begins now instead of at its own time, with the same length. "
            "`extend` has the one that is on, or else "
            "the next one, end later. They write spec.windowOverrides; --at names another occurrence, by "
            "when it begins by its schedule."
        ),
        examples=(
            "kubectl queue windows",
            "kubectl queue windows research --next 30 -o ics > windows.ics",
            "kubectl queue windows skip research nightly --reason 'release week'",
            "kubectl queue windows extend research nightly --for 30m --dry-run=client",
            "kubectl queue windows start research nightly",
        ),
        flags=(
            int_flag("next", f"How many of those that come; default {_NEXT}, at most {_MOST}."),
            *FLAGS,
            wait_flag("Wait until the controller has acknowledged it."),
            TIMEOUT,
            DRY_RUN,
            formats(Output.TABLE, Output.JSON, Output.YAML, Output.ICS, Output.NAME),
            NO_HEADERS,
        ),
        run=run_windows,
    ),
)
