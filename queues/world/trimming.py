"""Limits what is kept in memory of an object that its user made very large.

An object has up to 1.5 MiB in etcd, and twice as much as Python strings: a few hundred such objects would
fill the memory of every replica. The parts that a rule reads are kept whole up to a size that no ordinary
object comes near. What is dropped beyond that size has an effect on this object alone:

| part               | kept                             | effect of the limit                             |
|--------------------|----------------------------------|-------------------------------------------------|
| a pod's labels     | `LABELS_BYTES`, in their order   | budgets and `drain.keep` do not see the rest    |
| a pod's finalizers | `FINALIZERS`                     | a drain that they block does not name the rest  |
| a pod's resources  | 128, a node's own first          | `status.allocated` lacks the rest               |
|                    | (`queues.apimachinery`)          |                                                 |
| a PodGroup         | what the server itself reads     | long conditions of other components are cut     |
| its tasks and      | one more of each than is allowed | none: with more than that it is no gang that    |
| `minResources`     |                                  | can start (`queues.quota.gangs`)                |
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TypeVar, cast

from msgspec.structs import replace

from queues import well_known
from queues.membership import MIRROR_ANNOTATION, NAMING_ANNOTATIONS, NAMING_LABELS, TASK
from queues.metadata.keys import PREEMPTABLE
from queues.quota.gangs import MAX_RESOURCES, MAX_TASKS
from queues.status.podgroup_phases import POPULATED, SCHEDULED
from queues.world.objects import (
    Condition,
    JobTemplate,
    Metadata,
    Pod,
    PodGroup,
    PodGroupSpec,
    ReplicatedJob,
    Template,
    TemplateHolder,
    WorkloadObject,
)

T = TypeVar("T")

#: Bytes of JSON above which an object is trimmed as soon as it is read, before its list is complete.
TRIM_FROM_BYTES = 64 * 1024
LABELS_BYTES = 16 * 1024
FINALIZERS = 16
#: Characters of a name; no valid name is longer.
NAME = 320
#: Bytes of all conditions of a PodGroup. Above it, each message and the number of conditions are limited.
CONDITIONS_BYTES = 32 * 1024
CONDITIONS = 32
MESSAGE = 1024
#: The annotations that are read, and the labels that are read for other purposes than selection.
_KNOWN_KEYS = frozenset(
    {*NAMING_ANNOTATIONS, *NAMING_LABELS, MIRROR_ANNOTATION, TASK, PREEMPTABLE, well_known.SCHEDULER_POLICY}
)
_OURS = "sluice.dev/"
#: The types of conditions that rules read, of PodGroups and of workloads.
_DECIDING = frozenset({POPULATED, SCHEDULED, "Complete", "Failed", "Suspended", "Completed"})


def trim(obj: T) -> T:
    """Return a pod, PodGroup or workload without the parts that nothing reads; any other object unchanged."""
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
    """Return the labels that name a queue, and as many others as fit."""
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


def trim_podgroup(podgroup: PodGroup) -> PodGroup:
    """Return the PodGroup with the parts that the server reads."""
    meta, status = podgroup.metadata, podgroup.status
    return replace(
        podgroup,
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
        spec=_podgroup_spec(podgroup.spec),
        status=replace(status, phase=status.phase[:NAME], conditions=_conditions(status.conditions)),
    )


def _podgroup_spec(spec: PodGroupSpec) -> PodGroupSpec:
    if spec.min_task_member is None and spec.min_resources is None and spec.priority_class_name is None:
        return spec
    return replace(
        spec,
        priority_class_name=(spec.priority_class_name or "")[:NAME] or None,
        min_task_member=_first_entries(spec.min_task_member, MAX_TASKS + 1),
        min_resources=_first_entries(spec.min_resources, MAX_RESOURCES + 1),
    )


def _first_entries(written: object, most: int) -> dict[str, str | int | float] | None:
    """So many entries of a map, their texts cut; None if it is none. What is no text and no number is ""."""
    if not isinstance(written, Mapping):
        return None
    return {str(key)[:NAME]: _cut_value(written[key]) for key in islice(written, most)}


def _cut_value(value: object) -> str | int | float:
    return value[:NAME] if isinstance(value, str) else value if isinstance(value, int | float) else ""


def _known_entries(entries: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the entries that are read. A value too long for a name or UID is cut and stays invalid."""
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
