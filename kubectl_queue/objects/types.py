"""The types of objects that have a queue: how users spell them, and where the API server has them.

Promise: a type is spelt as for kubectl: a resource's plural, singular or short name in any case, alone or
with its group (`jobs.batch`) or its version and group (`jobs.v1.batch`). Alone it is the one that kubectl
would take.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from queues.workload_kinds import KINDS


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


POD = Type("Pod", "pods", "", "v1")
NAMESPACE = Type("Namespace", "namespaces", "", "v1", namespaced=False)
PODGROUP = Type("PodGroup", "podgroups", "scheduling.volcano.sh", "v1beta1")
QUEUE = Type("Queue", "queues", "scheduling.volcano.sh", "v1beta1", namespaced=False)
#: Not one that users ask about.
MUTATING_WEBHOOKS = Type(
    "MutatingWebhookConfiguration",
    "mutatingwebhookconfigurations",
    "admissionregistration.k8s.io",
    "v1",
    namespaced=False,
)
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
    """The type that a word names; None if it names none that has a queue."""
    name, _, group = word.lower().partition(".")
    return next((each for each in TYPES if name in _names(each) and _fits(group, each)), None)


def spellings() -> Mapping[str, str]:
    """By each word for a type, but for short ones, the singular that users write."""
    return {
        name: each.kind.lower() for each in reversed(TYPES) for name in (each.resource, each.kind.lower())
    }


def _names(each: Type) -> tuple[str, ...]:
    return (each.resource, each.kind.lower(), *_SHORT.get(each.full, ()))


def _fits(group: str, each: Type) -> bool:
    return group in {"", each.group, f"{each.version}.{each.group}".rstrip(".")}


def type_of_owner(kind: str, api_version: str) -> Type | None:
    """The type of an owner reference."""
    group, _, _ = api_version.rpartition("/")
    return next((each for each in TYPES if (each.kind, each.group) == (kind, group)), None)
