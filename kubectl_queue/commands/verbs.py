"""What a verb is, and `TABLE`: all verbs in the order of the help, with the module that has each.

A module is imported when one of its verbs is used: most of the time that a command takes goes into
imports.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import NamedTuple

from kubectl_queue.cli.flag_values import quoted
from kubectl_queue.cli.flags import Flag, Flags
from kubectl_queue.cli.options import COMMAND
from kubectl_queue.errors import UsageError
from kubectl_queue.session import Session
from queues.membership import valid_name
from queues.messages import NAME_RULE

_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]")


@dataclass(frozen=True, kw_only=True)
class Verb:
    """`usage` follows the name; `run` returns the exit code."""

    name: str
    usage: str
    long: str
    examples: Sequence[str]
    flags: Sequence[Flag]
    run: Callable[[Session, Flags], int]

    @property
    def command(self) -> str:
        return f"{COMMAND} {self.name}"


def selected(flags: Flags, *, command: str) -> tuple[str, ...]:
    """The names given, or none with --all or --selector. Raises UsageError for neither and for both."""
    selects = flags.on("all") or bool(flags.text("selector"))
    if flags.names and selects:
        raise UsageError("name cannot be provided when a selector or --all is specified", see=command)
    if not flags.names and not selects:
        raise UsageError("at least one NAME is required, or --all, or --selector", see=command)
    return names(flags.names, command=command)


def names(given: Sequence[str], *, command: str) -> tuple[str, ...]:
    """Names as given or as `-o name` prints them, each once. Raises UsageError."""
    return tuple(dict.fromkeys(checked(_bare(word), see=command) for word in given))


def checked(name: str, *, see: str) -> str:
    """The name, if an object may have it; else UsageError: the server could only answer "not found"."""
    if not name:
        raise UsageError("resource name may not be empty", see=see)
    if not valid_name(name):
        rule = f"{NAME_RULE}, at most 253 of them"
        raise UsageError(f"invalid resource name {quoted(name)}: {_what_is_wrong(name)}{rule}", see=see)
    return name


def _what_is_wrong(name: str) -> str:
    """The first character that no name has, or the length; empty where it is neither."""
    character = _NOT_IN_NAMES.search(name)
    if character:
        return f"{quoted(character[0])} may not be in it; "
    return f"it has {len(name)} characters; " if len(name) > 253 else ""


def _bare(word: str) -> str:
    kind, slash, name = word.partition("/")
    return name if slash and kind.partition(".")[0] in {"queue", "queues", "q"} else word


class Row(NamedTuple):
    """What a verb is for, and the module whose `VERBS` has it."""

    short: str
    module: str


TABLE: Mapping[str, Row] = {
    "list": Row("Show all queues.", "get"),
    "get": Row("Show some queues, or all.", "get"),
    "tree": Row("Draw the hierarchy, with states and their causes.", "tree"),
    "why": Row("Say what stops a pod, a workload or a queue, who did that, and the way out.", "why"),
    "history": Row("Show who changed a queue, when and why.", "history"),
    "create": Row("Make a queue.", "create"),
    "open": Row("Let queues take and schedule work.", "actions"),
    "close": Row("Let queues take no new work and run out.", "actions"),
    "suspend": Row("Let queues take work and schedule none.", "actions"),
    "hold": Row("Let queues schedule nothing new, by their stop policy.", "actions"),
    "drain": Row("Let queues schedule nothing new, and evict what runs.", "drain"),
    "stop": Row("Drain queues, or hold them with --keep-already-running, as kueuectl does.", "drain"),
    "resume": Row("Undo a suspension and a stop policy.", "actions"),
    "delete": Row("Delete queues.", "delete"),
    "version": Row("Show the versions of the plugin, of the server and of Kubernetes.", "version"),
}


def load(name: str) -> Verb:
    """The verb of a name in the table."""
    module = import_module(f"kubectl_queue.commands.{TABLE[name].module}")
    verbs: dict[str, Verb] = {verb.name: verb for verb in module.VERBS}
    return verbs[name]
