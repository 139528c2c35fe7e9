"""What a verb is: its words in the help, its flags, and a function that does it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
