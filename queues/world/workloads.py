"""Workloads as the rules take them: their queue, whether they are live, who owns them.

Promise: a `Workload` is a function of the stored object and of its queue.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from queues import well_known, workload_life
from queues.membership import NamingMetadata, WorkloadFacts
from queues.workload_kinds import KINDS, WorkloadKind
from queues.workload_life import WorkloadFields, names_true
from queues.world.members import controller_reference
from queues.world.objects import JobTemplate, Metadata, Template, WorkloadObject

WorkloadKeys = tuple[str | int, ...]


class Workload(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One workload. `queue` is empty if it belongs to none. `admitted`: our webhook admitted it.

    `paused`: it is suspended or aborted, or a drain keeps it at zero replicas. `suspended_by_drain`: its
    mark, not empty if a drain of ours suspended it or brought it to zero. `delegated`: its `spec.managedBy`
    names another controller than the kind's own. `leaving`: it is being deleted. `replicas`: its
    `spec.replicas`, of the kinds that are scaled. `kept_at_zero`: the replicas that it counts as having while
    a drain keeps it at none (`queues.scale_record`); 0 if none does. `completions`: how many of its pods are
    to succeed, of a Job that says so; `succeeded`: how many have.
    """

    kind: WorkloadKind
    namespace: str
    name: str
    uid: str
    version: int
    queue: str
    live: bool
    created: datetime
    owner_uid: str = ""
    admitted: bool = False
    paused: bool = False
    suspended_by_drain: str = ""
    delegated: bool = False
    leaving: bool = False
    replicas: int = 1
    kept_at_zero: int = 0
    completions: int | None = None
    succeeded: int = 0

    def __str__(self) -> str:
        return f"{self.kind.kind.lower()} {self.namespace}/{self.name}"


def read_workload(kind: WorkloadKind, obj: WorkloadObject, *, queue: str, counts: bool = True) -> Workload:
    """Return the workload that a stored object is. `queue`: its own, "" for none. `counts`: whether those of
    its namespace count as live.
    """
    meta = obj.metadata
    owner = controller_reference(meta.owner_references)
    fields = _fields(obj)
    return Workload(
        kind=kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.version,
        queue=queue,
        live=workload_life.is_live(kind, fields) and counts,
        created=meta.created,
        owner_uid=owner.uid if owner else "",
        admitted=bool(meta.annotation(well_known.ADMISSION)),
        paused=workload_life.is_paused(kind, fields),
        suspended_by_drain=meta.annotation(well_known.SUSPENDED),
        delegated=kind.is_delegated(obj.spec.managed_by),
        leaving=bool(meta.deletion_timestamp),
        replicas=1 if obj.spec.replicas is None else obj.spec.replicas,
        kept_at_zero=workload_life.replicas_kept_at_zero(kind, fields),
        completions=obj.spec.completions if type(obj.spec.completions) is int else None,
        succeeded=obj.status.succeeded if type(obj.status.succeeded) is int else 0,
    )


def is_live(kind: WorkloadKind, obj: WorkloadObject) -> bool:
    """Return whether it has not finished, or wants replicas, also where a drain keeps it at none."""
    return workload_life.is_live(kind, _fields(obj))


def wanted_replicas(kind: WorkloadKind, obj: WorkloadObject) -> int:
    """Return how many pods it wants; what a drain keeps at zero wants as many as it had."""
    return workload_life.wanted_replicas(kind, _fields(obj))


def is_paused(kind: WorkloadKind, obj: WorkloadObject) -> bool:
    """Return whether the workload creates no pods because it is suspended, aborted, or kept at zero."""
    return workload_life.is_paused(kind, _fields(obj))


def _fields(obj: WorkloadObject) -> WorkloadFields:
    status = obj.status
    return WorkloadFields(
        replicas=obj.spec.replicas,
        suspend=bool(obj.spec.suspend),
        phase=status.state.phase if status.state is not None else "",
        terminal_state=status.terminal_state or "",
        true_conditions=names_true((each.type, each.status) for each in status.conditions or ()),
        mark=obj.metadata.annotation(well_known.SUSPENDED),
        controlled=controller_reference(obj.metadata.owner_references) is not None,
    )


def pod_templates(obj: WorkloadObject) -> list[tuple[WorkloadKeys, Template]]:
    """Return each pod template with the keys that lead to it."""
    spec = obj.spec
    templates: list[tuple[WorkloadKeys, Template | None]] = [(("spec", "template"), spec.template)]
    if spec.job_template is not None:
        templates.append((("spec", "jobTemplate", "spec", "template"), spec.job_template.spec.template))
    for number, task in enumerate(spec.tasks or ()):
        templates.append((("spec", "tasks", number, "template"), task.template))
    for number, part in enumerate(spec.replicated_jobs or ()):
        keys = ("spec", "replicatedJobs", number, "template", "spec", "template")
        templates.append((keys, part.template.spec.template))
    return [(keys, template) for keys, template in templates if template is not None]


def workload_facts(
    kind: WorkloadKind, obj: WorkloadObject, *, namespace: str, namespace_queue: str
) -> WorkloadFacts:
    """Return the facts from which the membership of the workload is decided."""
    templates = [template for _, template in pod_templates(obj)]
    owner = controller_reference(obj.metadata.owner_references)
    return WorkloadFacts(
        namespace=namespace,
        templates=tuple(template_names(template) for template in templates),
        own_metadata=NamingMetadata(obj.metadata.labels or {}, obj.metadata.annotations or {}),
        schedulers=tuple(template.spec.scheduler_name or obj.spec.scheduler_name for template in templates),
        spec_queue=(obj.spec.queue or "") if kind.queue_in_spec else "",
        namespace_queue=namespace_queue,
        owned=owner is not None and any(row.kind == owner.kind for row in KINDS.values()),
        job_templates=tuple(_names(job_template.metadata) for job_template in _job_templates(obj)),
    )


def _job_templates(obj: WorkloadObject) -> list[JobTemplate]:
    replicated = [part.template for part in obj.spec.replicated_jobs or ()]
    return [obj.spec.job_template, *replicated] if obj.spec.job_template else replicated


def recorded_queue(obj: WorkloadObject) -> str:
    """Return the queue that our webhook wrote into its pod templates, if any."""
    return next(
        (
            queue
            for _, template in pod_templates(obj)
            if template.metadata and (queue := template.metadata.annotation(well_known.QUEUE))
        ),
        "",
    )


def template_names(template: Template) -> NamingMetadata:
    """Return the labels and annotations of a template."""
    return _names(template.metadata)


def _names(meta: Metadata | None) -> NamingMetadata:
    return NamingMetadata((meta.labels if meta else None) or {}, (meta.annotations if meta else None) or {})
