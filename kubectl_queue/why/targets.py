"""The objects that a command line of `why` names: `pod/x`, `pod x`, `jobs.batch/x`, or `research`, a queue.

Promise: a word that is no TYPE/NAME and does not follow a TYPE is a queue's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kubectl_queue.cli.flag_values import quoted
from kubectl_queue.cli.flags import checked_name
from kubectl_queue.errors import UsageError
from kubectl_queue.objects.types import QUEUE, TYPES, Type, type_of

COMMAND = "kubectl queue why"


class Target(NamedTuple):
    """One object of the command line."""

    type: Type
    name: str


def parse_targets(words: Sequence[str]) -> tuple[Target, ...]:
    """The objects of a command line, each once. Raises UsageError."""
    if not words:
        raise UsageError(
            "name what waits: pod/NAME, job/NAME, podgroup/NAME, namespace/NAME or a queue's NAME",
            see=COMMAND,
        )
    leading = type_of(words[0])
    bare = [word for word in words if "/" not in word]
    if len(bare) < len(words) and any(type_of(word) for word in bare):
        raise UsageError("TYPE NAME and TYPE/NAME cannot be mixed", see=COMMAND)
    if leading is None:
        targets = [_target(word) for word in words]
    elif len(words) == 1:
        raise UsageError(_nameless(leading, words[0]), see=COMMAND)
    else:
        targets = [Target(leading, checked_name(word, see=COMMAND)) for word in words[1:]]
    return tuple(dict.fromkeys(targets))


def _target(word: str) -> Target:
    kind, slash, name = word.partition("/")
    if not slash:
        return Target(QUEUE, checked_name(word, see=COMMAND))
    target_type = type_of(kind)
    if target_type is None:
        known = ", ".join(each.kind.lower() for each in TYPES if each.group != "batch.volcano.sh")
        raise UsageError(
            f"{quoted(kind)} is not a type of object that has a queue; the types are: {known}", see=COMMAND
        )
    return Target(target_type, checked_name(name, see=COMMAND))


def _nameless(kind: Type, word: str) -> str:
    """The error for a type without a name; a queue may have the name of a type."""
    return (
        f"which {kind.kind}? give its name: {COMMAND} {word.lower()}/NAME "
        f"(a queue of this name: {COMMAND} queue/{word.lower()})"
    )
