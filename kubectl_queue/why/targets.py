"""The objects that a command line of `why` names: `pod/x`, `pod x`, `jobs.batch/x`, or `research`, a queue.

Promises
- A word that is no TYPE/NAME and does not follow a TYPE is a queue's name.
- A TYPE that is not known may be that of an owner of pods (`owned_pods`): it is taken as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from kubectl_queue.cli.flag_values import quoted
from kubectl_queue.cli.flags import checked_name
from kubectl_queue.cli.suggestions import similar_kinds
from kubectl_queue.errors import UsageError
from kubectl_queue.objects.types import QUEUE, TYPES, Type, type_of
from queues.membership import valid_name

COMMAND = "kubectl queue why"
#: Of a kind that is not known: its pods are looked for by their owners.
OWNER = Type("", "", "", "")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9.-]{2,200}", re.ASCII)


class ExplainedObject(NamedTuple):
    """One object of the command line. `word`: the type as it is written, where it is not known."""

    type: Type
    name: str
    word: str = ""


def parse_targets(words: Sequence[str]) -> tuple[ExplainedObject, ...]:
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
        targets = [ExplainedObject(leading, checked_name(word, see=COMMAND)) for word in words[1:]]
    return tuple(dict.fromkeys(targets))


def _target(word: str) -> ExplainedObject:
    kind, slash, name = word.partition("/")
    if not slash:
        return ExplainedObject(QUEUE, checked_name(word, see=COMMAND))
    target_type = type_of(kind)
    if target_type is None:
        if not _WORD.fullmatch(kind):
            raise unknown_type(kind, name)
        return ExplainedObject(OWNER, checked_name(name, see=COMMAND), kind)
    return ExplainedObject(target_type, checked_name(name, see=COMMAND))


def unknown_type(word: str, name: str, *, found: str = "") -> UsageError:
    """Of the object NAME. `found`: what was looked for by it, in vain."""
    known = ", ".join(each.kind.lower() for each in TYPES if each.group != "batch.volcano.sh")
    error = UsageError(
        f"{found}{quoted(word)} is not a type of object that has a queue; the types are: {known}", see=COMMAND
    )
    if valid_name(name):
        error.add_note(similar_kinds(word, name))
    return error


def _nameless(kind: Type, word: str) -> str:
    """The error for a type without a name; a queue may have the name of a type."""
    return (
        f"which {kind.kind}? give its name: {COMMAND} {word.lower()}/NAME "
        f"(a queue of this name: {COMMAND} queue/{word.lower()})"
    )
