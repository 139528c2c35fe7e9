"""The owners of pods, and theirs in turn, as far as they make members of queues.

Promise: a kind is listed only if an object that was read names an owner of it, and only in the namespaces of
these. What may not be read counts as `objects.workloads.assumed_workload` says.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.drain.kind_lists import KindLists
from kubectl_queue.objects.fields import value_at
from kubectl_queue.objects.inventory import is_unsuspendable
from kubectl_queue.objects.types import TYPES, Type
from kubectl_queue.objects.workloads import assumed_workload, kind_of
from kubectl_queue.why.membership import queue_of_stored_workload
from queues.workload_kinds import MAX_OWNERS, WorkloadKind
from queues.world.members import controller_reference
from queues.world.objects import OwnerReference, PhaseStatus, WorkloadObject
from queues.world.reading import as_workload
from queues.world.workloads import Workload, read_workload

#: A UID, and the namespace of an object that names it: the reference, and the queue of that object.
OwnedPods = dict[tuple[str, str], tuple[OwnerReference, str]]


def read_owners(
    wanted: OwnedPods, lists: KindLists, objects: ObjectReader
) -> tuple[dict[str, Workload], frozenset[str]]:
    """By UID, and the UIDs of those that no controller suspends. `wanted`: the owners of pods. `objects`:
    reads what decides whose queue a workload is in.
    """
    found: dict[str, Workload] = {}
    unsuspendable: set[str] = set()
    for _ in range(MAX_OWNERS):
        above: OwnedPods = {}
        for each, obj in _read_level(wanted, lists, objects):
            found[each.uid] = each
            owner = controller_reference(obj.metadata.owner_references) if obj is not None else None
            if owner is not None and owner.uid:
                above[owner.uid, each.namespace] = owner, each.queue
            if obj is not None and is_unsuspendable(each, phase=(obj.status.state or PhaseStatus()).phase):
                unsuspendable.add(each.uid)
        wanted = {key: each for key, each in above.items() if key[0] not in found}
        if not wanted:
            break
    return found, frozenset(unsuspendable)


def _read_level(
    wanted: OwnedPods, lists: KindLists, objects: ObjectReader
) -> Iterator[tuple[Workload, WorkloadObject | None]]:
    """Each with its object; without one where its kind may not be read."""
    by_kind: dict[str, tuple[WorkloadKind, set[str]]] = {}
    for (_, namespace), (reference, _) in wanted.items():
        kind = kind_of(reference)
        if kind is not None:
            by_kind.setdefault(kind.key, (kind, set()))[1].add(namespace)
    uids = {uid for uid, _ in wanted}
    for kind, namespaces in by_kind.values():
        of_type = _type(kind)
        for item in lists.items(of_type, namespaces=namespaces):
            if str(value_at(item, "metadata.uid")) in uids:
                obj = as_workload(item)
                yield (
                    read_workload(kind, obj, queue=queue_of_stored_workload(of_type, item, objects)),
                    obj,
                )
        if of_type.full in lists.unread:
            yield from ((each, None) for each in _assumed(kind, wanted))


def _assumed(kind: WorkloadKind, wanted: OwnedPods) -> Iterator[Workload]:
    for (_, namespace), (reference, queue) in wanted.items():
        each = assumed_workload(reference, namespace=namespace, queue=queue)
        if each is not None and each.kind is kind:
            yield each


def _type(row: WorkloadKind) -> Type:
    return next(each for each in TYPES if (each.resource, each.group) == (row.resource, row.group))
