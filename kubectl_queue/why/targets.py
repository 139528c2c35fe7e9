"""The objects that `why` explains, spelt as for kubectl: `pod/x`, `pod x`, `jobs.batch/x`, `research`.

Promises
- TYPE is a resource's plural, singular or short name in any case, alone or with its group (`jobs.batch`)
  or its version and group (`jobs.v1.batch`). Alone it is the one that kubectl would take.
- A word that is no TYPE/NAME and does not follow a TYPE is a queue's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kubectl_queue.cli.flag_values import quoted
from kubectl_queue.commands.command import checked
from kubectl_queue.errors import UsageError
from queues.workload_kinds import KINDS

COMMAND = "kubectl queue why"


class Type(NamedTuple):
    """A kind of object and where the API server has it."""

    kind: str
    resource: str
    group: str
    version: str
    namespaced: bool = True

    @property
    def base(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def full(self) -> str:
        """RESOURCE.GROUP"""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def workload(self) -> bool:
        return self.full not in _OTHERS


class Target(NamedTuple):
    """One object of the command line."""

    type: Type
    name: str


POD = Type("Pod", "pods", "", "v1")
NAMESPACE = Type("Namespace", "namespaces", "", "v1", namespaced=False)
PODGROUP = Type("PodGroup", "podgroups", "scheduling.volcano.sh", "v1beta1")
QUEUE = Type("Queue", "queues", "scheduling.volcano.sh", "v1beta1", namespaced=False)
_OTHERS = frozenset(each.full for each in (POD, NAMESPACE, PODGROUP, QUEUE))
#: In kubectl's order: where two kinds have one name, the first is meant.
TYPES = (
    POD,
    *(Type(row.kind, row.resource, row.group, row.version) for row in KINDS.values()),
    PODGROUP,
    QUEUE,
    NAMESPACE,
)
_SHORT: Mapping[str, Sequence[str]] = MappingProxyType(
    {
        "pods": ("po",),
        "namespaces": ("ns",),
        **{f"{row.resource}.{row.group}": row.short_names for row in KINDS.values()},
        "podgroups.scheduling.volcano.sh": ("pg",),
        "queues.scheduling.volcano.sh": ("q",),
    }
)


def type_of(word: str) -> Type | None:
    """The type that a word names; None if it names none of ours."""
    name, _, group = word.lower().partition(".")
    return next((each for each in TYPES if name in _names(each) and _fits(group, each)), None)


def _names(each: Type) -> tuple[str, ...]:
    return (each.resource, each.kind.lower(), *_SHORT.get(each.full, ()))


def _fits(group: str, each: Type) -> bool:
    return group in {"", each.group, f"{each.version}.{each.group}".rstrip(".")}


def type_of_owner(kind: str, api_version: str) -> Type | None:
    """The type of an owner reference."""
    group, _, _ = api_version.rpartition("/")
    return next((each for each in TYPES if (each.kind, each.group) == (kind, group)), None)


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
        targets = [Target(leading, checked(word, see=COMMAND)) for word in words[1:]]
    return tuple(dict.fromkeys(targets))


def _target(word: str) -> Target:
    kind, slash, name = word.partition("/")
    if not slash:
        return Target(QUEUE, checked(word, see=COMMAND))
    target_type = type_of(kind)
    if target_type is None:
        known = ", ".join(each.kind.lower() for each in TYPES if each.group != "batch.volcano.sh")
        raise UsageError(
            f"{quoted(kind)} is not a type of object that has a queue; the types are: {known}", see=COMMAND
        )
    return Target(target_type, checked(name, see=COMMAND))


def _nameless(kind: Type, word: str) -> str:
    """For a type alone; a queue may be called like one."""
    return (
        f"which {kind.kind}? give its name: {COMMAND} {word.lower()}/NAME "
        f"(a queue of this name: {COMMAND} queue/{word.lower()})"
    )
