"""open, close, suspend and resume, and the flags that every command which stops or resumes queues has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from kubectl_queue.cli.flag_values import LONGEST, parse_bool, parse_time
from kubectl_queue.cli.flags import Flag, Flags, duration_with_unit_flag
from kubectl_queue.cli.options import (
    ALL,
    COMMAND,
    DRY_RUN,
    OUTPUT,
    SELECTOR,
    TIMEOUT,
)
from kubectl_queue.commands.verbs import Verb, selected
from kubectl_queue.edit.action_operation import ActionOperation
from kubectl_queue.edit.editor import QueueEditor
from kubectl_queue.edit.wait import PollTimer
from kubectl_queue.errors import UsageError
from kubectl_queue.queue_objects import QueueObjects, read_queues
from kubectl_queue.session import Session
from queues.queue import ROOT
from queues.states import Action, State

#: The value of a flag that takes away what it set before.
NONE = "none"
#: The value of --wait that waits for the end of a close.
_CLOSED = "closed"


def run_action(action: Action, session: Session, flags: Flags) -> int:
    """Do the action to every queue that was chosen; 1 if one of them failed."""
    command = f"{COMMAND} {action.name.lower()}"
    names = chosen_names(flags, command=command)
    queues = read_queues(session.api, names)
    operation = ActionOperation(
        action=action,
        reason=given_reason(flags),
        resume_at=given_resume_time(flags, now=queues.now, command=command),
        clear_resume_at=clears_resume_time(flags),
        wait_for=State.CLOSED if flags.text("wait") == _CLOSED else None,
    )
    editor = QueueEditor(session, operation=operation, queues=queues, named=bool(names))
    failed = editor.edit_all(names or selected_names(session, flags, queues))
    return finish(editor, flags, failed=failed)


def chosen_names(flags: Flags, *, command: str) -> tuple[str, ...]:
    """The names given; none where --all or --selector chooses. Raises UsageError."""
    names = selected(flags, command=command)
    if flags.has("for") and flags.has("until"):
        raise UsageError("--for and --until exclude each other", see=command)
    return names


def selected_names(session: Session, flags: Flags, queues: QueueObjects) -> Sequence[str]:
    """What --all or --selector chooses."""
    selector = flags.text("selector")
    items = session.api.list(selector=selector).items if selector else queues.items.values()
    names = [item["metadata"]["name"] for item in items if item["metadata"]["name"] != ROOT or selector]
    if not names:
        session.console.note("No resources found")
    return names


def given_reason(flags: Flags) -> str | None:
    """None where --reason was not given."""
    return flags.text("reason") if flags.has("reason") else None


def given_resume_time(flags: Flags, *, now: datetime, command: str) -> datetime | None:
    """By the API server's clock, which decides when the stop is over. Raises UsageError."""
    at = _resume_time(flags, now=now)
    if at is not None and at <= now:
        raise UsageError(f"the time to resume, {at.isoformat()}, is not in the future", see=command)
    if at is not None and at - now > LONGEST:
        raise UsageError(f"the time to resume, {at.isoformat()}, is more than a century away", see=command)
    return at


def _resume_time(flags: Flags, *, now: datetime) -> datetime | None:
    span = flags.duration("for")
    if span is not None:
        return now + span
    read: Callable[[datetime], datetime | None] | None = flags.value("until")
    return read(now) if read else None


def clears_resume_time(flags: Flags) -> bool:
    """Whether the user gave --until none."""
    return flags.value("until") is _never


def _never(now: datetime) -> None:
    """The time to resume for --until none."""


def _moment_or_none(text: str) -> Callable[[datetime], datetime | None]:
    return _never if text == NONE else parse_time(text)


def finish(editor: QueueEditor, flags: Flags, *, failed: int) -> int:
    """Wait where --wait was given, print what is printed at the end; the exit code."""
    if flags.text("wait") != "false":
        failed += editor.wait_for_all(PollTimer(flags.duration("timeout")))
    editor.reporter.finish()
    return 1 if failed else 0


def wait_flag(help: str, *, value: str = "true|false", read: Callable[[str], str] | None = None) -> Flag:
    return Flag(
        name="wait", default="false", bare="true", read=read or _true_or_false, value=value, help=help
    )


def _true_or_false(text: str) -> str:
    return str(parse_bool(text)).lower()


def _true_false_or_closed(text: str) -> str:
    return _CLOSED if text == _CLOSED else _true_or_false(text)


_REASON = Flag(
    name="reason", help="Why, in your words; shown to those whose work it stops. Empty: takes it away."
)
#: Of each command that stops queues.
STOP_FLAGS = (
    duration_with_unit_flag("for", "Resume after this long, e.g. 30m, 2h or 7d."),
    Flag(
        name="until",
        default=None,
        read=_moment_or_none,
        value="TIME",
        help=(
            "Resume at this time: 18:30 or 2030-01-31T18:30 (both in your zone), or ...T18:30:00Z; "
            f"{NONE}: takes it away."
        ),
    ),
    _REASON,
)
#: Of each command that edits queues.
EDIT_FLAGS = (ALL, SELECTOR, TIMEOUT, DRY_RUN, OUTPUT)
_WAIT = wait_flag(
    "Wait until the controller has acknowledged it, for the specs of the queue and of those above it."
)
_WAIT_CLOSED = wait_flag(
    "Wait until it is acknowledged that nothing new is taken; `closed`: until nothing is left.",
    value="true|false|closed",
    read=_true_false_or_closed,
)

VERBS = (
    Verb(
        name="open",
        usage="NAME...",
        long=(
            "Set spec.state to Open, whatever it was. A stopPolicy stays, and an ancestor that is "
            "stopped goes on stopping the queue: a warning names them."
        ),
        examples=("kubectl queue open research",),
        flags=(_WAIT, *EDIT_FLAGS),
        run=partial(run_action, Action.OPEN),
    ),
    Verb(
        name="close",
        usage="NAME...",
        long=(
            "Set spec.state to Closed. Nothing new is taken from then on, what was taken is still "
            "scheduled, also what waited in a Suspended queue, and the queue is Closed once nothing is live "
            "in it or below it; until then it is Closing. --wait waits until the controller has acknowledged "
            "that nothing new is taken, and says how many pods are left; --wait=closed waits until none is."
        ),
        examples=(
            "kubectl queue close team-a --reason 'moved to team-b'",
            "kubectl queue close team-a --wait=closed",
        ),
        flags=(_REASON, _WAIT_CLOSED, *EDIT_FLAGS),
        run=partial(run_action, Action.CLOSE),
    ),
    Verb(
        name="suspend",
        usage="NAME...",
        long=(
            "Set spec.state to Suspended. What runs goes on, what is submitted waits. With --for or "
            "--until it resumes by itself at that time. A queue that is Suspended already takes a new "
            "reason or time. A Closed queue cannot be suspended."
        ),
        examples=(
            "kubectl queue suspend research --for 30m --reason 'quota change'",
            "kubectl queue suspend research team-a --until 18:30 --wait",
        ),
        flags=(*STOP_FLAGS, _WAIT, *EDIT_FLAGS),
        run=partial(run_action, Action.SUSPEND),
    ),
    Verb(
        name="resume",
        usage="NAME...",
        long=(
            "Set spec.state of a Suspended queue to Open, and spec.stopPolicy to None; the reason and "
            "the time go with them. It does not undo Closed: use open for that."
        ),
        examples=("kubectl queue resume research --wait",),
        flags=(_WAIT, *EDIT_FLAGS),
        run=partial(run_action, Action.RESUME),
    ),
)
