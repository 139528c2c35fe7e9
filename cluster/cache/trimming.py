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
from typing import TypeVar, cast

from msgspec.structs import replace

from cluster.objects import (
    Condition,
    JobTemplate,
    Metadata,
    Pod,
    PodGroup,
    ReplicatedJob,
    Template,
    TemplateHolder,
    WorkloadObject,
)
from queues.apimachinery.quantities import Amount
from queues.membership import MIRROR_ANNOTATION, NAMING_ANNOTATIONS, NAMING_LABELS
from queues.status.podgroup_phases import POPULATED, SCHEDULED

T = TypeVar("T")

#: Bytes of JSON beyond which an object is trimmed as soon as it has been read, before a list is complete.
TRIM_FROM_BYTES = 64 * 1024
LABELS_BYTES = 16 * 1024
FINALIZERS = 16
#: Characters of a name that no honest one is longer than.
NAME = 320
RESOURCES = 128
#: Of all conditions of a PodGroup together; beyond it each message and the number of them is cut.
CONDITIONS_BYTES = 32 * 1024
CONDITIONS = 32
MESSAGE = 1024
#: The annotations that are read, and the labels that are read apart from selecting.
_KNOWN_KEYS = frozenset({*NAMING_ANNOTATIONS, *NAMING_LABELS, MIRROR_ANNOTATION})
_OURS = "sluice.dev/"
#: The types of conditions that something follows from, of PodGroups and of workloads.
_DECIDING = frozenset({POPULATED, SCHEDULED, "Complete", "Failed", "Suspended", "Completed"})


def trim(obj: T) -> T:
    """A pod, PodGroup or workload without what nothing reads; anything else as it is."""
    trimmed: object = obj
    match obj:
        case Pod():
            trimmed = replace(obj, metadata=_metadata(obj.metadata))
        case PodGroup():
            trimmed = trim_podgroup(obj)
        case WorkloadObject():
            trimmed = _workload(obj)
    return cast(T, trimmed)


def _metadata(meta: Metadata) -> Metadata:
    return replace(
        meta,
        labels=trim_labels(meta.labels) if meta.labels is not None else None,
        annotations=_known_entries(meta.annotations),
        owner_references=[reference for reference in meta.owner_references or () if reference.controller][:1]
        or None,
        finalizers=list(trim_finalizers(meta.finalizers)) or None,
    )


def _workload(obj: WorkloadObject) -> WorkloadObject:
    spec = obj.spec
    return replace(
        obj,
        metadata=_metadata(obj.metadata),
        spec=replace(
            spec,
            template=_template(spec.template),
            job_template=_job_template(spec.job_template) if spec.job_template else None,
            tasks=[_holder(holder) for holder in spec.tasks] if spec.tasks is not None else None,
            replicated_jobs=_replicated(spec.replicated_jobs),
        ),
        status=replace(obj.status, conditions=_conditions(obj.status.conditions)),
    )


def _replicated(jobs: list[ReplicatedJob] | None) -> list[ReplicatedJob] | None:
    return jobs and [ReplicatedJob(template=_job_template(job.template)) for job in jobs]


def _template(template: Template | None) -> Template | None:
    if template is None or template.metadata is None:
        return template
    return replace(template, metadata=_metadata(template.metadata))


def _holder(holder: TemplateHolder) -> TemplateHolder:
    return replace(holder, template=_template(holder.template))


def _job_template(template: JobTemplate) -> JobTemplate:
    metadata = _metadata(template.metadata) if template.metadata is not None else None
    return replace(template, metadata=metadata, spec=_holder(template.spec))


def trim_labels(labels: Mapping[str, str] | None) -> dict[str, str]:
    """The labels, as many of them as fit; first of all those that say a queue."""
    if not labels:
        return {}
    kept = _known_entries(labels) or {}
    size = 0
    for key, value in labels.items():
        size += len(key) + len(value)
        if size > LABELS_BYTES:
            break
        kept[key] = value
    return kept


def trim_finalizers(finalizers: Iterable[str] | None) -> tuple[str, ...]:
    return tuple(name[:NAME] for name in list(finalizers or ())[:FINALIZERS])


def trim_resources(requests: Iterable[tuple[str, Amount]]) -> tuple[tuple[str, Amount], ...]:
    """Sorted by resource. A node's own resources, such as cpu, have no domain in their names."""
    kept = sorted(requests)
    if len(kept) > RESOURCES:
        kept = sorted(sorted(kept, key=lambda request: ("/" in request[0], request[0]))[:RESOURCES])
    return tuple(kept)


def trim_podgroup(group: PodGroup) -> PodGroup:
    """The PodGroup with what the server reads of it."""
    meta, status = group.metadata, group.status
    return replace(
        group,
        metadata=replace(
            meta,
            labels=_known_entries(meta.labels),
            annotations=_known_entries(meta.annotations),
            owner_references=[reference for reference in meta.owner_references or () if reference.controller][
                :1
            ]
            or None,
            finalizers=None,
        ),
        status=replace(status, phase=status.phase[:NAME], conditions=_conditions(status.conditions)),
    )


def _known_entries(entries: Mapping[str, str] | None) -> dict[str, str] | None:
    """Those that are read; a value that is no name or UID for its length is cut, and still is none."""
    if entries is None:
        return None
    keys = (key for key in entries if key in _KNOWN_KEYS or key.startswith(_OURS))
    return {key: entries[key][:NAME] for key in keys}


def _conditions(conditions: list[Condition] | None) -> list[Condition] | None:
    if conditions is None or sum(map(_size, conditions)) <= CONDITIONS_BYTES:
        return conditions
    ours = [condition for condition in conditions if condition.type in _DECIDING]
    others = [condition for condition in conditions if condition.type not in _DECIDING][
        : CONDITIONS - len(_DECIDING)
    ]
    return [_cut(condition) for condition in (*others, *ours[: len(_DECIDING)])]


def _size(condition: Condition) -> int:
    return (
        len(condition.type)
        + len(condition.reason)
        + len(condition.message)
        + len(condition.transition_id)
        + NAME
    )


def _cut(condition: Condition) -> Condition:
    return replace(
        condition,
        type=condition.type[:NAME],
        status=condition.status[:NAME],
        reason=condition.reason[:MESSAGE],
        message=condition.message[:MESSAGE],
        transition_id=condition.transition_id[:NAME],
    )
