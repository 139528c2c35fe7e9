"""Edits of one queue as command lines: what the page asks for is read by the commands' own flags.

Promise: the operation is that of `kubectl queue VERB NAME`, or of `kubectl queue windows WORD NAME WINDOW`,
with the same flags, and a value that the command line refuses is refused in the same words.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import NamedTuple

from kubectl_queue.cli.flags import Flag, Flags, parse
from kubectl_queue.cli.options import COMMAND
from kubectl_queue.drain.spec_flags import FLAGS as DRAIN_FLAGS
from kubectl_queue.drain.spec_flags import drain_fields
from kubectl_queue.edit.action_operation import ActionOperation
from kubectl_queue.edit.move_operation import MoveOperation
from kubectl_queue.edit.operation import Operation
from kubectl_queue.edit.stop_flags import REASON, STOP_FLAGS, check_one_end, stop_fields
from kubectl_queue.edit.stop_policy_operation import StopPolicyOperation
from kubectl_queue.edit.window_lines import FLAGS as WINDOW_FLAGS
from kubectl_queue.edit.window_lines import WORDS, check_line, window_operation_of
from kubectl_queue.errors import UsageError
from kubectl_queue.objects.queues import QueueObjects
from queues.fields.table import BY_NAME
from queues.states import Action, State, StopPolicy

PARENT = Flag(name="parent", value="NAME", help=BY_NAME["parent"].help)
_ACTIONS: Mapping[str, Action] = MappingProxyType({action.name.lower(): action for action in Action})
#: The flags that say what an edit is, by its verb.
FLAGS: Mapping[str, Sequence[Flag]] = MappingProxyType(
    {
        "suspend": STOP_FLAGS,
        "hold": STOP_FLAGS,
        "drain": (*STOP_FLAGS, *(flag for _, flag in DRAIN_FLAGS)),
        "resume": (),
        "close": (REASON,),
        "open": (),
        "move": (PARENT,),
        **dict.fromkeys(WORDS, WINDOW_FLAGS),
    }
)


class EditLine(NamedTuple):
    """A verb with the values of its flags, as they stand behind `--flag=`.

    `start`, `skip` and `extend` are words behind `windows`; `window`: of which they change an occurrence.
    """

    verb: str
    values: Mapping[str, str]
    window: str = ""

    @property
    def is_of_window(self) -> bool:
        return self.verb in WORDS

    def command(self, name: str) -> str:
        """The command line that does the same, for a shell."""
        flags = (f"--{flag}={value}" for flag, value in self.values.items())
        words = ("windows", self.verb, name, self.window) if self.is_of_window else (self.verb, name)
        return shlex.join([*COMMAND.split(), *words, *flags])


def operation_of(line: EditLine, name: str, queues: QueueObjects, *, simulates: bool = False) -> Operation:
    """The edit of the queue `name`. `simulates`: for a preview, which the server does not see.

    Raises QueueError, and UsageError for what the command line refuses.
    """
    command = f"{COMMAND} {'windows' if line.is_of_window else line.verb}"
    if line.verb not in FLAGS:
        raise UsageError(f"there is no edit {line.verb!r}", see=COMMAND)
    words = [f"--{flag}={value}" for flag, value in line.values.items()]
    flags = parse(words, FLAGS[line.verb], command=command)
    if flags.names:
        raise UsageError(f"unexpected {flags.names[0]!r}", see=command)
    if line.is_of_window:
        check_line(line.verb, line.window, flags)
        return window_operation_of(
            line.verb, line.window, flags, queue=name, queues=queues, simulates=simulates
        )
    check_one_end(flags, command=command)
    return _operation(line.verb, flags, now=queues.now, simulates=simulates)


def _operation(verb: str, flags: Flags, *, now: datetime, simulates: bool) -> Operation:
    command = f"{COMMAND} {verb}"
    if verb == "move":
        parent = flags.text("parent")
        if not parent:
            raise UsageError("--parent is required: the queue that is to be above", see=command)
        return MoveOperation(parent=parent)
    stop = stop_fields(flags, now=now, command=command)
    if verb == "hold":
        return StopPolicyOperation(policy=StopPolicy.HOLD, stop=stop)
    if verb == "drain":
        drain = drain_fields(flags, now=now, command=command)
        return StopPolicyOperation(policy=StopPolicy.HOLD_AND_DRAIN, stop=stop, drain=drain)
    closed = State.CLOSED if verb == "close" else None
    return ActionOperation(action=_ACTIONS[verb], stop=stop, wait_for=closed, simulates=simulates)
