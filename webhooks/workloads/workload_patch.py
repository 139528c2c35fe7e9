"""What admission changes on a workload and in its pod templates, as steps of a JSON patch. Pure.

Invariants
- The template of a member has `sluice.dev/queue`. Where the template does not name the queue itself, it also
  has `scheduling.volcano.sh/queue-name` and `sluice.dev/queue-from`.
- If the workload itself names a PodGroup, such a template has `scheduling.k8s.io/group-name` instead of the
  queue's name, also before the PodGroup exists. A `batch.volcano.sh` Job is an exception: Volcano makes a
  PodGroup for it, and names that on its pods.
- The template of a workload that asks for a gang has `sluice.dev/gang` (`queues.workload_gangs`).
- A template that names no scheduling policy gets the one that its workload names, whenever its queue is
  written: at its creation, and when it comes to another queue. Another update would replace its pods.
- What is right already gets no step. Whatever else a template holds stays as it is.
- The mark of work that a drain suspended (`sluice.dev/suspended`), or brought to zero replicas
  (`queues.scale_record`), says that the work is to be resumed once its queue schedules. Only the server may
  write it:

=====================================  =========================================================
what another user submits              what becomes of the mark
=====================================  =========================================================
a new workload                         it is removed
an update that sets or changes it      it is put back to what it was, or removed
an update that removes it              it is put back
an update that ends the suspension     it is removed: the next suspension is the author's own
an update of what is scaled, unless    it is removed: the author has taken the scale over
`spec.replicas` was 0 and stays 0
=====================================  =========================================================

A `batch.volcano.sh` Job has no suspension in its spec: the controller itself removes the mark from it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from cluster.objects import Metadata, Template, WorkloadObject
from queues import well_known
from queues.membership import (
    FROM_PODGROUP,
    GROUP_ANNOTATION,
    VOLCANO_ANNOTATION,
    Membership,
    NamingMetadata,
    QueueConflict,
    Source,
    label_value,
    names_a_queue,
    webhook_name,
    without_webhook_names,
)
from queues.metadata.keys import PREEMPTABLE
from queues.policies.preemptable import preemptable_in
from queues.workload_gangs import WorkloadGang, gang_for_template
from queues.workload_kinds import Life, WorkloadKind
from queues.world.workloads import WorkloadKeys, pod_templates, template_names
from webhooks.json_patch import PatchStep, json_pointer, patch_map

TemplateChanges = dict[str, str | None]
NO_NAMES = NamingMetadata({}, {})


def set_queue(meta: Metadata, queue: str, *, admission: str = "") -> Iterator[PatchStep]:
    """The queue on the workload itself; `admission`: by which request it comes there."""
    wanted: TemplateChanges = {
        well_known.QUEUE: queue,
        **({well_known.ADMISSION: admission} if admission else {}),
    }
    yield from patch_map("/metadata/annotations", meta.annotations, wanted)
    yield from patch_map("/metadata/labels", meta.labels, {well_known.QUEUE: label_value(queue)})


def remove_queue(meta: Metadata, *, waits: bool = False) -> Iterator[PatchStep]:
    """`waits`: its PodGroup does not exist yet. The empty label has it watched until then."""
    yield from patch_map(
        "/metadata/annotations", meta.annotations, {well_known.QUEUE: None, well_known.ADMISSION: None}
    )
    yield from patch_map("/metadata/labels", meta.labels, {well_known.QUEUE: "" if waits else None})


def set_spec_queue(kind: WorkloadKind, obj: WorkloadObject, queue: str) -> list[PatchStep]:
    """A `batch.volcano.sh` Job gives its PodGroup the queue of its spec."""
    if not kind.queue_in_spec or obj.spec.queue == queue or not obj.spec.tasks:
        return []
    return [{"op": "add", "path": "/spec/queue", "value": queue}]


def named_podgroup(kind: WorkloadKind, obj: WorkloadObject) -> str:
    """The PodGroup that a workload itself names for its templates; "" for none."""
    return "" if kind.queue_in_spec else obj.metadata.annotation(GROUP_ANNOTATION)


def set_queue_in_templates(
    obj: WorkloadObject,
    queue: str,
    *,
    source: str,
    submitted: tuple[NamingMetadata, ...] = (),
    gang: WorkloadGang | None = None,
    podgroup: str = "",
) -> Iterator[PatchStep]:
    """The queue in each template. `source`: the value of `sluice.dev/queue-from`. `gang`: of its pods.

    `submitted`: the names that the user wrote in each template, where these are not simply what stands there.
    `podgroup`: `named_podgroup` of it.
    """
    for number, (keys, template) in enumerate(pod_templates(obj)):
        user_names = without_webhook_names(submitted[number] if submitted else template_names(template))
        wanted: TemplateChanges = {
            well_known.QUEUE: queue,
            well_known.GANG: gang_for_template(gang, user_names.annotations),
            **_names_for(user_names, queue, source=source, podgroup=podgroup),
            **_policy_for(obj, template),
            **_preemptable_for(obj, template),
        }
        yield from _annotate(keys, template, wanted)


def _names_for(user_names: NamingMetadata, queue: str, *, source: str, podgroup: str) -> TemplateChanges:
    """What the webhook writes in a template in which the user wrote these names."""
    if names_a_queue(user_names):
        ours = {GROUP_ANNOTATION, VOLCANO_ANNOTATION}.difference(user_names.annotations)
        return dict.fromkeys((well_known.QUEUE_FROM, *sorted(ours)))
    if podgroup:
        return {
            well_known.QUEUE_FROM: FROM_PODGROUP,
            GROUP_ANNOTATION: podgroup,
            VOLCANO_ANNOTATION: None,
            well_known.GANG: None,
        }
    return {well_known.QUEUE_FROM: source, GROUP_ANNOTATION: None, VOLCANO_ANNOTATION: queue}


def _policy_for(obj: WorkloadObject, template: Template) -> TemplateChanges:
    """The scheduling policy that the workload names, for a template that names none."""
    named = obj.metadata.annotation(well_known.SCHEDULER_POLICY)
    own = template.metadata is not None and template.metadata.annotation(well_known.SCHEDULER_POLICY)
    return {well_known.SCHEDULER_POLICY: named} if named and not own else {}


def _preemptable_for(obj: WorkloadObject, template: Template) -> TemplateChanges:
    """Whether the workload says that its pods may be evicted for others, for a template that says nothing."""
    said = preemptable_in(obj.metadata.annotations, obj.metadata.labels)
    own = template.metadata or Metadata()
    if said is None or preemptable_in(own.annotations, own.labels) is not None:
        return {}
    return {PREEMPTABLE: "true" if said else "false"}


def remove_queue_from_templates(
    obj: WorkloadObject, *, podgroup: str = "", submitted: tuple[NamingMetadata, ...] = ()
) -> Iterator[PatchStep]:
    """`podgroup`: `named_podgroup` of it, which does not exist. `submitted`: as above."""
    for number, (keys, template) in enumerate(pod_templates(obj)):
        user_names = without_webhook_names(submitted[number] if submitted else template_names(template))
        wanted: TemplateChanges = dict.fromkeys(_own_annotations(template))
        if podgroup and not names_a_queue(user_names):
            wanted |= {well_known.QUEUE_FROM: FROM_PODGROUP, GROUP_ANNOTATION: podgroup}
        yield from _annotate(keys, template, wanted)


def restore_templates(before: WorkloadObject, after: WorkloadObject) -> Iterator[PatchStep]:
    """Our own annotations in the templates, as they were before the update."""
    former = dict(pod_templates(before))
    for keys, template in pod_templates(after):
        meta = former.get(keys, Template()).metadata or Metadata()
        own = {**_own_annotations(template), **_own_annotations(former.get(keys))}
        yield from _annotate(keys, template, {key: meta.annotation(key) or None for key in own})


def templates_touched(before: WorkloadObject, after: WorkloadObject) -> bool:
    """Whether an update changes our own annotations in the templates."""
    old, new = ([_own_annotations(template) for _, template in pod_templates(obj)] for obj in (before, after))
    return old != new


def submitted_names(before: WorkloadObject, after: WorkloadObject) -> tuple[NamingMetadata, ...]:
    """The names in each template after an update, marked so that `without_webhook_names` leaves the user's.

    A value where the webhook wrote is the user's once it is overwritten. It is ours, if with
    `sluice.dev/queue` it is all that the webhook wrote another time: a roll-back brings that.
    """
    former = {keys: template_names(template) for keys, template in pod_templates(before)}
    podgroup = after.metadata.annotation(GROUP_ANNOTATION)
    return tuple(
        _mark_webhook_names(former.get(keys, NO_NAMES), template_names(template), podgroup=podgroup)
        for keys, template in pod_templates(after)
    )


def _mark_webhook_names(before: NamingMetadata, after: NamingMetadata, *, podgroup: str) -> NamingMetadata:
    """`podgroup`: what the workload itself names after the update."""
    others = {key: value for key, value in after.annotations.items() if key != well_known.QUEUE_FROM}
    mark = before.annotations.get(well_known.QUEUE_FROM)
    if mark is None or _is_changed(webhook_name(before.annotations), before, after):
        mark = after.annotations.get(well_known.QUEUE_FROM)
        key = webhook_name(after.annotations)
        ours = podgroup if key == GROUP_ANNOTATION else after.annotations.get(well_known.QUEUE)
        if not _is_changed(key, before, after) or after.annotations.get(key) != ours:
            mark = None
    return NamingMetadata(after.labels, others if mark is None else {**others, well_known.QUEUE_FROM: mark})


def _is_changed(key: str, before: NamingMetadata, after: NamingMetadata) -> bool:
    return before.annotations.get(key, "") != after.annotations.get(key, "")


def naming_source(
    membership: Membership | QueueConflict | None, *, before: WorkloadObject | None = None
) -> str:
    """The value of `sluice.dev/queue-from`: what named the queue, in one word."""
    if isinstance(membership, Membership):
        words = {Source.NAMESPACE: "namespace", Source.SCHEDULER: "scheduler"}
        return words.get(membership.source, "workload")
    templates = pod_templates(before) if before else ()
    recorded = [_own_annotations(template).get(well_known.QUEUE_FROM, "") for _, template in templates]
    return next(filter(None, recorded), "workload")


def protect_suspend_mark(
    kind: WorkloadKind, before: WorkloadObject | None, after: WorkloadObject
) -> tuple[WorkloadObject, list[PatchStep]]:
    """What another user submits, with the mark as it has to be, and the patch steps for that."""
    annotations, mark = after.metadata.annotations, _suspend_mark(kind, before, after)
    steps = patch_map("/metadata/annotations", annotations, {well_known.SUSPENDED: mark})
    if not steps:
        return after, steps
    others = {key: value for key, value in (annotations or {}).items() if key != well_known.SUSPENDED}
    corrected = others if mark is None else {**others, well_known.SUSPENDED: mark}
    return replace(after, metadata=replace(after.metadata, annotations=corrected)), steps


def _suspend_mark(kind: WorkloadKind, before: WorkloadObject | None, after: WorkloadObject) -> str | None:
    if before is None or (before.spec.suspend and not after.spec.suspend):
        return None
    if kind.life is Life.WHILE_SCALED and (before.spec.replicas, after.spec.replicas) != (0, 0):
        return None
    return (before.metadata.annotations or {}).get(well_known.SUSPENDED)


def _own_annotations(template: Template | None) -> dict[str, str]:
    """What the webhook writes in a template, with the values there; empty where that has none."""
    meta = (template and template.metadata) or Metadata()
    own = {key: meta.annotation(key) for key in (well_known.QUEUE, well_known.QUEUE_FROM, well_known.GANG)}
    if own[well_known.QUEUE_FROM]:
        key = webhook_name(own)
        own[key] = meta.annotation(key)
    return own


def _annotate(keys: WorkloadKeys, template: Template, wanted: TemplateChanges) -> list[PatchStep]:
    place = json_pointer(*keys)
    if template.metadata is not None:
        return patch_map(f"{place}/metadata/annotations", template.metadata.annotations, wanted)
    present = {key: value for key, value in wanted.items() if value is not None}
    if not present:
        return []
    return [{"op": "add", "path": f"{place}/metadata", "value": {"annotations": present}}]
