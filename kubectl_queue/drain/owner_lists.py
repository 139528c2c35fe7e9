"""The owners of pods, and theirs in turn, as far as they make members of queues.

Promise: a kind is listed only if an object that was read names an owner of it, and only in the namespaces of
these. What may not be read counts as `objects.workloads.assumed_workload` says.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.drain.kind_lists import KindLists
from kubectl_queue.objects.fields import Object, value_at
from kubectl_queue.objects.running_pods import OwnedPod
from kubectl_queue.objects.types import TYPES, Type
from kubectl_queue.objects.workloads import OwnerReference, ReadWorkload, assumed_workload, read_workload
from kubectl_queue.why.membership import queue_of_stored_workload
from queues.workload_kinds import MAX_OWNERS, WorkloadKind

#: A UID, and the namespace of an object that names it: the reference, and the queue of that object.
_Wanted = dict[tuple[str, str], tuple[OwnerReference, str]]


def read_owners(pods: Iterable[OwnedPod], lists: KindLists, objects: ObjectReader) -> dict[str, ReadWorkload]:
    """By UID. `objects`: reads what decides whose queue a workload is in."""
    found: dict[str, ReadWorkload] = {}
    wanted: _Wanted = {
        (owner.uid, pod.namespace): (owner, pod.queue)
        for pod, owner in pods
        if owner is not None and owner.uid
    }
    for _ in range(MAX_OWNERS):
        read = _read_level(wanted, lists, objects)
        found |= read
        wanted = {
            (each.owner.uid, each.namespace): (each.owner, each.queue)
            for each in read.values()
            if each.owner is not None and each.owner.uid and each.owner.uid not in found
        }
        if not wanted:
            break
    return found


def _read_level(wanted: _Wanted, lists: KindLists, objects: ObjectReader) -> dict[str, ReadWorkload]:
    found: dict[str, ReadWorkload] = {}
    by_kind: dict[str, tuple[WorkloadKind, set[str]]] = {}
    for (_, namespace), (reference, _) in wanted.items():
        if reference.kind is not None:
            by_kind.setdefault(reference.kind.key, (reference.kind, set()))[1].add(namespace)
    uids = {uid for uid, _ in wanted}
    for kind, namespaces in by_kind.values():
        of_type = _type(kind)
        for item in lists.items(of_type, namespaces=namespaces):
            if str(value_at(item, "metadata.uid")) in uids:
                read = read_workload(kind, item, queue=_queue(of_type, item, objects))
                found[read.uid] = read
        if of_type.full in lists.unread:
            found |= _assumed(kind, wanted)
    return found


def _assumed(kind: WorkloadKind, wanted: _Wanted) -> dict[str, ReadWorkload]:
    assumed = (
        assumed_workload(reference, namespace=namespace, queue=queue)
        for (_, namespace), (reference, queue) in wanted.items()
        if reference.kind is kind
    )
    return {each.uid: each for each in assumed if each is not None}


def _queue(kind: Type, item: Object, objects: ObjectReader) -> str:
    return queue_of_stored_workload(kind, item, objects)


def _type(row: WorkloadKind) -> Type:
    return next(each for each in TYPES if (each.resource, each.group) == (row.resource, row.group))
