"""move: put queues, with all below them, under another parent.

Promises
- A dry run says what the move does to pods: how many wait, will run, or will be evicted.
- Where the new chain drains, pods without a controller are named first, and the user is asked, as by `drain`.
"""

from __future__ import annotations

from kubectl_queue.access.queue_reader import read_queues
from kubectl_queue.cli.flags import Flags, bool_flag, selected
from kubectl_queue.cli.options import COMMAND, DryRun
from kubectl_queue.commands.actions import (
    EDIT_FLAGS,
    EditRequest,
    chosen_names,
    finish,
    new_editor,
    wait_flag,
)
from kubectl_queue.commands.drain import confirm_bare_pods
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.edit.command_lines import PARENT
from kubectl_queue.edit.move_operation import MoveOperation
from kubectl_queue.edit.operation import StopFields
from kubectl_queue.errors import UsageError
from kubectl_queue.session import Session

_COMMAND = f"{COMMAND} move"


def run_move(session: Session, flags: Flags) -> int:
    given = selected(flags, command=_COMMAND)
    parent = flags.text("parent")
    if not parent:
        raise UsageError("--parent is required: the queue that is to be above", see=_COMMAND)
    request = EditRequest(given, read_queues(session.api, (*given, parent) if given else ()), StopFields())
    operation = MoveOperation(parent=parent)
    editor = new_editor(session, request, operation)
    names = chosen_names(session, flags, request)
    if session.dry_run is DryRun.NONE and not flags.on("yes"):
        confirm_bare_pods(session, operation, request.queues, names=names)
    return finish(editor, flags, failed=editor.edit_all(names))


VERBS = (
    Verb(
        name="move",
        usage="NAME...",
        long=(
            "Set spec.parent. The queue and all below it are then stopped, drained or closed as the new "
            "parents say: a warning says which queue does that, and how many pods wait, will run or will be "
            "evicted; --dry-run=client says it without moving anything. Where pods without a controller "
            "would be evicted, they are named first, and you are asked."
        ),
        examples=(
            "kubectl queue move team-a --parent research --dry-run=client",
            "kubectl queue move team-a team-b --parent research --wait",
        ),
        flags=(
            PARENT,
            bool_flag("yes", "Do not ask before pods without a controller are evicted.", short="y"),
            wait_flag("Wait until the controller has acknowledged it, for the specs of the new chain."),
            *EDIT_FLAGS,
        ),
        run=run_move,
    ),
)
