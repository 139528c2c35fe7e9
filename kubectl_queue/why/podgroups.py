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
from kubectl_queue.objects.fields import (
    Object,
    annotations_of,
    creation_time,
    labels_of,
    name_of,
    spec_of,
    status_of,
    value_at,
)
from kubectl_queue.objects.types import PODGROUP
from queues.policies.preemptable import preemptable_in
from queues.queue import DEFAULT
from queues.quota.gangs import Gang, gang_of

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
    """By NAMESPACE/NAME; None where they may not be listed. `unread`: the kind that may not be, or ""."""

    groups: Mapping[str, ReadPodGroup] | None
    unread: str = ""


def read_podgroups(client: ApiClient, *, namespace: str = "") -> ReadPodGroups:
    """Those of the namespace, or of all."""
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    try:
        listed = client.list(
            f"{PODGROUP.base}{place}/{PODGROUP.resource}", query={}, kind=PODGROUP.full
        ).items
    except ForbiddenError:
        return ReadPodGroups(None, PODGROUPS)
    values, unread = _read_values(client, listed)
    return ReadPodGroups({group_key(group): read_podgroup(group, values) for group in listed}, unread)


def _read_values(client: ApiClient, groups: list[Object]) -> tuple[Mapping[str, int], str]:
    """The values of PriorityClasses by name, if a gang names one; and the kind that may not be listed."""
    if not any(_class_of(group) and not read_podgroup(group).gang.is_single for group in groups):
        return {}, ""
    try:
        listed = client.list(_CLASSES, query={}, kind="priorityclasses.scheduling.k8s.io").items
    except ForbiddenError:
        return {}, CLASSES
    return {name_of(each): int(each.get("value") or 0) for each in listed}, ""


def read_podgroup(group: Object, values: Mapping[str, int] | None = None, *, queue: str = "") -> ReadPodGroup:
    """`values`: of PriorityClasses. `queue`: its own, where that is known better."""
    spec, least = spec_of(group), spec_of(group).get("minMember")
    gang = gang_of(
        str(value_at(group, "metadata.uid") or ""),
        queue or str(spec.get("queue") or DEFAULT),
        creation_time(group),
        min_member=least if isinstance(least, int) else 0,
        min_task_member=spec.get("minTaskMember"),
        min_resources=spec.get("minResources"),
        priority=(values or {}).get(_class_of(group)),
    )
    said = preemptable_in(annotations_of(group), labels_of(group))
    return ReadPodGroup(gang, str(status_of(group).get("phase") or ""), said)


def group_key(group: Object) -> str:
    return f"{value_at(group, 'metadata.namespace')}/{name_of(group)}"


def _class_of(group: Object) -> str:
    return str(spec_of(group).get("priorityClassName") or "")
