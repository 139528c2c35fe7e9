"""open, close, suspend, resume and hold; and what all verbs share that stop or resume queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from kubectl_queue.access.queue_reader import read_queues
from kubectl_queue.access.volcano import queue_webhook
from kubectl_queue.cli.flag_values import parse_bool
from kubectl_queue.cli.flags import Flag, Flags, bool_flag, selected
from kubectl_queue.cli.options import (
    ALL,
    COMMAND,
    DRY_RUN,
    OUTPUT,
    SELECTOR,
    TIMEOUT,
    DryRun,
)
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.edit.action_operation import ActionOperation
from kubectl_queue.edit.consequences import asked_texts, stop_of_all_text, stop_of_each_text
from kubectl_queue.edit.editor import QueueEditor
from kubectl_queue.edit.operation import Operation, StopFields
from kubectl_queue.edit.stop_flags import REASON, STOP_FLAGS, check_one_end, stop_fields
from kubectl_queue.edit.stop_policy_operation import StopPolicyOperation
from kubectl_queue.edit.wait import PollTimer
from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import name_of
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.session import Session
from kubectl_queue.views.server_status import refused_edits_text
from queues.queue import ROOT
from queues.states import Action, State, StopPolicy

#: The values of --wait of a close: until it ends, as without a value; and until it is acknowledged.
_CLOSED, _ACKNOWLEDGED = "closed", "acknowledged"
#: What leads to states in which Volcano's own webhook refuses each edit.
_INTO_A_TRAP = frozenset({Action.SUSPEND, Action.CLOSE})
_END_STOPS = frozenset({Action.OPEN, Action.RESUME})


def run_action(action: Action, session: Session, flags: Flags) -> int:
    """Do the action to every queue that was chosen; 1 if one of them failed."""
    request = read_request(session, flags, command=f"{COMMAND} {action.name.lower()}")
    if action in _INTO_A_TRAP and (configuration := queue_webhook(session.client)):
        session.console.warn(refused_edits_text(configuration))
    waits_for_closed = action is Action.CLOSE and flags.text("wait") in {_CLOSED, "true"}
    wait_for = State.CLOSED if waits_for_closed else None
    operation = ActionOperation(
        action=action,
        stop=request.stop,
        wait_for=wait_for,
        simulates=session.dry_run is DryRun.CLIENT,
    )
    return _edit(session, flags, request, operation)


def run_hold(verb: str, session: Session, flags: Flags) -> int:
    """`verb`: hold, or one that holds by a flag."""
    request = read_request(session, flags, command=f"{COMMAND} {verb}")
    operation = StopPolicyOperation(policy=StopPolicy.HOLD, stop=request.stop)
    return _edit(session, flags, request, operation)


def _edit(session: Session, flags: Flags, request: EditRequest, operation: Operation) -> int:
    editor = new_editor(session, request, operation)
    ends_a_stop = isinstance(operation, ActionOperation) and operation.action in _END_STOPS
    names = chosen_names(session, flags, request, must_stop=not ends_a_stop)
    if session.dry_run is DryRun.NONE and not flags.on("yes"):
        confirm_losses(session, operation, request.queues, names=names)
    return finish(editor, flags, failed=editor.edit_all(names))


def confirm_losses(
    session: Session, operation: Operation, queues: QueueObjects, *, names: Sequence[str]
) -> None:
    """Raises QueueError unless nothing is lost that the user hardly means, or the user agrees. Whether all
    queues are to be stopped is asked at a terminal alone: a script names root because it means it.
    """
    confirm_stop_of_all(session, operation, queues, names=names)
    texts = list(asked_texts(operation, names, queues))
    if not texts:
        return
    for text in texts:
        session.console.warn(text)
    answer = session.console.ask("Do it all the same?")
    if answer is None:
        raise QueueError("nothing was changed, since this is no terminal to ask at; do it with --yes")
    if not answer:
        raise QueueError("nothing was changed")


def confirm_stop_of_all(
    session: Session, operation: Operation, queues: QueueObjects, *, names: Sequence[str]
) -> None:
    """Raises QueueError where an edit of root, or one with --all, stops all queues, and the user at the
    terminal does not agree.
    """
    text = stop_of_all_text(operation, names, queues)
    if not text and session.flags.on("all"):
        text = stop_of_each_text(operation, names, queues)
    if text and session.console.ask(f"{text} Do it?") is False:
        raise QueueError("nothing was changed")


class EditRequest(NamedTuple):
    """What a command line asks for. `names`: those given; none where --all or --selector chooses."""

    names: Sequence[str]
    queues: QueueObjects
    stop: StopFields


def read_request(session: Session, flags: Flags, *, command: str) -> EditRequest:
    """The request, with the queues as they are now. Raises UsageError."""
    names = selected(flags, command=command)
    check_one_end(flags, command=command)
    queues = read_queues(session.api, names)
    return EditRequest(names, queues, stop_fields(flags, now=queues.now, command=command))


def new_editor(session: Session, request: EditRequest, operation: Operation) -> QueueEditor:
    return QueueEditor(session, operation=operation, queues=request.queues, named=bool(request.names))


def chosen_names(
    session: Session, flags: Flags, request: EditRequest, *, must_stop: bool = False
) -> Sequence[str]:
    """The names given, else those that --all or --selector chooses.

    `must_stop`: what the selector names is to be stopped; raises QueueError where it selects no queue.
    """
    if request.names:
        return request.names
    selector = flags.text("selector")
    items = session.api.list(selector=selector).items if selector else request.queues.items.values()
    names = [name for name in map(name_of, items) if name != ROOT or selector]
    if not names and selector and must_stop:
        raise QueueError("no queue has these labels: nothing was stopped")
    if not names:
        session.console.note("No resources found")
    return names


def finish(editor: QueueEditor, flags: Flags, *, failed: int) -> int:
    """Wait where --wait was given, print what is printed at the end; the exit code.

    It warns where no Sluice is there to act on what was edited.
    """
    editor.warn_if_absent()
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


def _how_far_a_close(text: str) -> str:
    return text if text in {_CLOSED, _ACKNOWLEDGED} else _true_or_false(text)


#: Of each command that edits queues.
EDIT_FLAGS = (ALL, SELECTOR, TIMEOUT, DRY_RUN, OUTPUT)
YES = bool_flag("yes", "Do not ask before something of a stop is lost, or all queues are stopped.", short="y")
_WAIT = wait_flag(
    "Wait until the controller has acknowledged it, for the specs of the queue and of those above it."
)
_WAIT_CLOSED = wait_flag(
    "Wait until nothing is left and it is Closed; `acknowledged`: until nothing new is taken.",
    value="true|false|closed|acknowledged",
    read=_how_far_a_close,
)


def _action_verb(action: Action, *, long: str, examples: Sequence[str], flags: Sequence[Flag]) -> Verb:
    return Verb(
        name=action.name.lower(),
        usage="NAME...",
        long=long,
        examples=examples,
        flags=(*flags, *EDIT_FLAGS),
        run=partial(run_action, action),
    )


VERBS = (
    _action_verb(
        Action.OPEN,
        long=(
            "Set spec.state to Open, whatever it was. A stopPolicy stays, and an ancestor that is "
            "stopped goes on stopping the queue: a warning names them."
        ),
        examples=("kubectl queue open research",),
        flags=(_WAIT,),
    ),
    _action_verb(
        Action.CLOSE,
        long=(
            "Set spec.state to Closed. Nothing new is taken from then on, what was taken is still "
            "scheduled, also what waited in a Suspended queue, and the queue is Closed once nothing is live "
            "in it or below it; until then it is Closing. --wait waits until it is Closed; "
            "--wait=acknowledged until the controller has acknowledged that nothing new is taken, and says "
            "how many pods are left."
        ),
        examples=(
            "kubectl queue close team-a --reason 'moved to team-b'",
            "kubectl queue close team-a --wait --timeout 1h",
        ),
        flags=(REASON, YES, _WAIT_CLOSED),
    ),
    _action_verb(
        Action.SUSPEND,
        long=(
            "Set spec.state to Suspended. What runs goes on, what is submitted waits. With --for or "
            "--until it resumes by itself at that time. A queue that is Suspended already takes a new "
            "reason or time. A Closed queue cannot be suspended."
        ),
        examples=(
            "kubectl queue suspend research --for 30m --reason 'quota change'",
            "kubectl queue suspend research team-a --until 18:30 --wait",
        ),
        flags=(*STOP_FLAGS, YES, _WAIT),
    ),
    _action_verb(
        Action.RESUME,
        long=(
            "Set spec.state of a Suspended queue to Open, and spec.stopPolicy to None; the reason and "
            "the time go with them. It does not undo Closed: use open for that."
        ),
        examples=("kubectl queue resume research --wait",),
        flags=(_WAIT,),
    ),
    Verb(
        name="hold",
        usage="NAME...",
        long=(
            "Set spec.stopPolicy to Hold. Nothing new is scheduled, what runs goes on, what is submitted "
            "waits. A drain of the queue ends at once. With --for or --until it undoes itself at that time."
        ),
        examples=(
            "kubectl queue hold research --reason 'audit' --wait",
            "kubectl queue hold research --for 2h",
        ),
        flags=(
            *STOP_FLAGS,
            YES,
            wait_flag("Wait until the controller has acknowledged that nothing is scheduled."),
            *EDIT_FLAGS,
        ),
        run=partial(run_hold, "hold"),
    ),
)
