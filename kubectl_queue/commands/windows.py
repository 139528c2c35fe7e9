"""windows: when change windows stop queues; and start, skip and extend one occurrence (`views.windows`).

A queue that is called start, skip or extend is named as queue/start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from kubectl_queue.access.queue_reader import read_queues
from kubectl_queue.cli.flag_values import future_fault, parse_time, quoted
from kubectl_queue.cli.flags import (
    Flag,
    Flags,
    checked_name,
    duration_with_unit_flag,
    int_flag,
    names,
)
from kubectl_queue.cli.options import COMMAND, DRY_RUN, NO_HEADERS, TIMEOUT, DryRun, Output, formats
from kubectl_queue.cli.suggestions import queue_not_found
from kubectl_queue.commands.actions import EditRequest, finish, new_editor, wait_flag
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.edit.operation import StopFields
from kubectl_queue.edit.window_operation import Change, WindowOperation
from kubectl_queue.errors import QueueError, UsageError
from kubectl_queue.objects.fields import spec_of
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.output.tables import Layout
from kubectl_queue.session import Session
from kubectl_queue.views.calendar import calendar
from kubectl_queue.views.windows import HEADINGS, WindowTable, as_structure, cells, window_table
from queues.text import printable
from queues.text import quoted as named
from queues.windows import overriding
from queues.windows.overriding import Chosen, Overridden, choose
from queues.windows.reader import read_windows
from queues.windows.refusals import WindowError, refusals_text

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
    if word in EDITS:
        return _edit(word, session, flags)
    return _show(session, flags)


# What there is


def _show(session: Session, flags: Flags) -> int:
    _refuse(session, flags, _OF_EDITS, _TABLE_OUTPUTS, why=f"is for {_COMMAND} start, skip and extend")
    tops = names(flags.names, command=_COMMAND)
    if len(tops) > 1:
        raise UsageError("windows takes one NAME at most", see=_COMMAND)
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
        lines = Layout().lines(rows if flags.on("no-headers") else [HEADINGS, *rows])
        console.say("\n".join(line.rstrip() for line in lines))
    else:
        what = f"neither queue {named(top)} nor one above it has" if top else "no queue has"
        console.note(f"{what} a window that is on or comes")


def _shown(row: Sequence[str]) -> tuple[str, ...]:
    *others, reason = row
    return (*map(printable, others), printable(reason, limit=_REASON))


# What people do to one


def _edit(word: str, session: Session, flags: Flags) -> int:
    command = f"{_COMMAND} {word}"
    _refuse(session, flags, _OF_TABLES, _EDIT_OUTPUTS, why="is for the table of windows")
    given = flags.names[1:]
    if len(given) != 2:
        raise UsageError(f"QUEUE and WINDOW are required, got {len(given)} names", see=_COMMAND)
    if flags.has("for") and flags.has("until"):
        raise UsageError("--for and --until exclude each other", see=_COMMAND)
    if word == "skip" and (flags.has("for") or flags.has("until")):
        raise UsageError(
            "skip leaves out all of it: --for and --until are for start and extend", see=_COMMAND
        )
    if word == "extend" and not (flags.has("for") or flags.has("until")):
        raise UsageError("say until when, by --until or --for", see=command)
    [queue], window = names(given[:1], command=_COMMAND), given[1]
    checked_name(window, see=_COMMAND)
    queues = read_queues(session.api, (queue,))
    now = queues.now
    read_at: Callable[[datetime], datetime] | None = flags.value("at")
    at = read_at(now) if read_at is not None else None
    until = _until(flags, now=now)
    if word == "extend" and until is None:
        until = _later_end(queue, window, flags, queues, at=at)
    operation = WindowOperation(
        window=window,
        change=EDITS[word](until, flags.text("reason"), now, at is not None),
        now=now,
        at=at,
        simulates=session.dry_run is DryRun.CLIENT,
    )
    editor = new_editor(session, EditRequest((queue,), queues, StopFields()), operation)
    return finish(editor, flags, failed=editor.edit_all((queue,)))


def _until(flags: Flags, *, now: datetime) -> datetime | None:
    """By --until, or for a start by --for."""
    read: Callable[[datetime], datetime] | None = flags.value("until")
    span = flags.duration("for")
    starts = flags.names[0] == "start"
    if read is None and not (starts and span is not None):
        return None
    at = read(now) if read is not None else now + (span or now - now)
    fault = future_fault(at, now=now)
    if fault:
        raise UsageError(f"the end, {at.isoformat()}, {fault}", see=_COMMAND)
    return at.replace(microsecond=0)


def _later_end(
    queue: str, window: str, flags: Flags, queues: QueueObjects, *, at: datetime | None
) -> datetime:
    """By --for, from the end that it has now: once, so that a second attempt adds nothing."""
    span = flags.duration("for")
    if queue not in queues.items:
        raise queue_not_found(queue, among=queues.tree)
    try:
        chosen = choose(read_windows(spec_of(queues.items[queue])), window, now=queues.now, at=at)
    except WindowError as exc:
        raise QueueError(f"queue {named(queue)}: {exc}") from exc
    return chosen.occurrence.end + (span or queues.now - queues.now)


def _start(until: datetime | None, reason: str, now: datetime, is_named: bool) -> Change:
    def change(raw: Sequence[Any], chosen: Chosen) -> Overridden:
        return overriding.start(raw, chosen, until=until, reason=reason, now=now, is_named=is_named)

    return change


def _skip(_until: datetime | None, reason: str, now: datetime, _is_named: bool) -> Change:
    def change(raw: Sequence[Any], chosen: Chosen) -> Overridden:
        return overriding.skip(raw, chosen, reason=reason, now=now)

    return change


def _extend(until: datetime | None, reason: str, now: datetime, _is_named: bool) -> Change:
    def change(raw: Sequence[Any], chosen: Chosen) -> Overridden:
        return overriding.extend(raw, chosen, until=until or now, reason=reason, now=now)

    return change


#: By the word after `windows`.
EDITS: Mapping[str, Callable[[datetime | None, str, datetime, bool], Change]] = {
    "start": _start,
    "skip": _skip,
    "extend": _extend,
}


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
            "the next one. `start` undoes that while it would be on, as after a resume; else the next one "
            "begins now in place of its time, and lasts as long. `extend` has the one that is on, or else "
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
            Flag(
                name="at",
                default=None,
                read=parse_time,
                value="TIME",
                help="The occurrence that begins then by its schedule: 2030-01-31T02:00 (your zone) or ...Z.",
            ),
            duration_with_unit_flag("for", "How long a start lasts, or how much longer it lasts, e.g. 30m."),
            Flag(
                name="until",
                default=None,
                read=parse_time,
                value="TIME",
                help="When it ends: 18:30 or 2030-01-31T18:30 (both in your zone), or ...T18:30:00Z.",
            ),
            Flag(name="reason", help="Why, in your words; shown with the occurrence."),
            wait_flag("Wait until the controller has acknowledged it."),
            TIMEOUT,
            DRY_RUN,
            formats(Output.TABLE, Output.JSON, Output.YAML, Output.ICS, Output.NAME),
            NO_HEADERS,
        ),
        run=run_windows,
    ),
)
