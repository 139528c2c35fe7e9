"""Reads what PodGroups ask for, with the values of the PriorityClasses that they name: so gangs stand in line
as the leader has them there (`cluster.cache.podgroups`).

Promise: what may not be listed is said (`ReadPodGroups.unread`), and not guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import name_of
from kubectl_queue.objects.types import PODGROUP
from queues.policies.preemptable import preemptable_in
from queues.quota.gangs import Gang
from queues.world.listed import ListedPodGroups
from queues.world.objects import PodGroup
from queues.world.podgroups import gang_of_podgroup
from queues.world.reading import as_podgroup

#: Kinds that may not be listed, as they are told.
PODGROUPS, CLASSES = "PodGroups", "PriorityClasses"
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


class ReadPodGroup(NamedTuple):
    """`gang`: as the rules take it, also where its pods go by themselves. `preemptable`: whether it says that
    its pods may be evicted for others; None where it says nothing.
    """

    gang: Gang
    phase: str = ""
    preemptable: bool | None = None


class ReadPodGroups(NamedTuple):
    """`groups`: by NAMESPACE/NAME; None where they may not be listed. `unread`: the kind that may not be, or
    "". `listed`: the same as a world has them.
    """

    groups: Mapping[str, ReadPodGroup] | None
    unread: str = ""
    listed: ListedPodGroups = ListedPodGroups(None)


def read_podgroups(client: ApiClient, *, namespace: str = "") -> ReadPodGroups:
    """Those of the namespace, or of all."""
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    path = f"{PODGROUP.base}{place}/{PODGROUP.resource}"
    try:
        listed = [as_podgroup(each) for each in client.list(path, query={}, kind=PODGROUP.full).items]
    except ForbiddenError:
        return ReadPodGroups(None, PODGROUPS)
    values, unread = _read_values(client, listed)
    return ReadPodGroups(
        {group_key(group): read_podgroup(group, values) for group in listed},
        unread,
        ListedPodGroups(listed, value_of=values.get),
    )


def _read_values(client: ApiClient, groups: list[PodGroup]) -> tuple[Mapping[str, int], str]:
    """The values of PriorityClasses by name, if a gang names one; and the kind that may not be listed."""
    if not any(each.spec.priority_class_name and not gang_of_podgroup(each).is_single for each in groups):
        return {}, ""
    try:
        listed = client.list(_CLASSES, query={}, kind="priorityclasses.scheduling.k8s.io").items
    except ForbiddenError:
        return {}, CLASSES
    return {name_of(each): int(each.get("value") or 0) for each in listed}, ""


def read_podgroup(group: PodGroup, values: Mapping[str, int] | None = None) -> ReadPodGroup:
    """`values`: of PriorityClasses."""
    gang = gang_of_podgroup(group, value_of=(values or {}).get)
    said = preemptable_in(group.metadata.annotations, group.metadata.labels)
    return ReadPodGroup(gang, group.status.phase, said)


def group_key(group: PodGroup) -> str:
    return f"{group.metadata.namespace}/{group.metadata.name}"
