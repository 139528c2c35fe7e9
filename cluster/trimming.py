"""What is kept in memory of an object that its user makes as large as the API server takes it.

An object has up to 1.5 MiB in etcd, and as strings of ours twice as much: a few hundred would fill the memory
of every replica. What a rule reads is kept whole up to a size that no honest object comes near. What is left
out beyond it is of consequence for that very object alone:

| of                | kept                              | beyond it                                       |
|-------------------|-----------------------------------|-------------------------------------------------|
| a pod's labels    | `LABELS_BYTES`, in their order    | budgets and `drain.keep` do not see the others  |
| a pod's finalizers | `FINALIZERS`                     | a drain that they block names no more           |
| a pod's resources | `RESOURCES`, a node's own first   | `status.allocated` is without the others        |
| a PodGroup        | what the server itself reads      | long conditions by others are cut               |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from cluster.objects import Condition, PodGroup
from queues.phases import POPULATED, SCHEDULED
from queues.quantities import Amount

LABELS_BYTES = 16 * 1024
FINALIZERS = 16
#: Characters of a name that no honest one is longer than.
NAME = 320
RESOURCES = 128
#: Of all conditions of a PodGroup together; beyond it each message and the number of them is cut.
CONDITIONS_BYTES = 32 * 1024
CONDITIONS = 32
MESSAGE = 1024
#: What is read of a PodGroup's labels and annotations.
_OURS = ("sluice.dev/", "volcano.sh/", "scheduling.volcano.sh/")


def kept_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    """The labels, as many of them as fit."""
    if not labels:
        return {}
    kept: dict[str, str] = {}
    size = 0
    for key, value in labels.items():
        size += len(key) + len(value)
        if size > LABELS_BYTES:
            break
        kept[key] = value
    return kept


def kept_finalizers(finalizers: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(name[:NAME] for name in list(finalizers or ())[:FINALIZERS])


def kept_resources(asked: Iterable[tuple[str, Amount]]) -> tuple[tuple[str, Amount], ...]:
    """Sorted by resource. A node's own resources, such as cpu, have no domain in their names."""
    found = sorted(asked)
    if len(found) > RESOURCES:
        found = sorted(sorted(found, key=lambda one: ("/" in one[0], one[0]))[:RESOURCES])
    return tuple(found)


def kept_group(group: PodGroup) -> PodGroup:
    """The PodGroup with what the server reads of it."""
    meta, status = group.metadata, group.status
    return replace(
        group,
        metadata=replace(
            meta,
            labels=_ours(meta.labels),
            annotations=_ours(meta.annotations),
            owner_references=[one for one in meta.owner_references or () if one.controller][:1] or None,
            finalizers=None,
        ),
        status=replace(status, phase=status.phase[:NAME], conditions=_conditions(status.conditions)),
    )


def _ours(held: Mapping[str, str] | None) -> dict[str, str] | None:
    if held is None:
        return None
    return {key: value[:NAME] for key, value in held.items() if key.startswith(_OURS)}


def _conditions(held: list[Condition] | None) -> list[Condition] | None:
    if held is None or sum(map(_size, held)) <= CONDITIONS_BYTES:
        return held
    ours = [one for one in held if one.type in {POPULATED, SCHEDULED}]
    others = [one for one in held if one.type not in {POPULATED, SCHEDULED}][: CONDITIONS - 2]
    return [_cut(one) for one in (*others, *ours[:2])]


def _size(one: Condition) -> int:
    return len(one.type) + len(one.reason) + len(one.message) + len(one.transition_id) + NAME


def _cut(one: Condition) -> Condition:
    return replace(
        one,
        type=one.type[:NAME],
        status=one.status[:NAME],
        reason=one.reason[:MESSAGE],
        message=one.message[:MESSAGE],
        transition_id=one.transition_id[:NAME],
    )
