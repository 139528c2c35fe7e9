"""What is written on a workload and in its pod templates, as steps of a JSON patch. Pure.

Invariants
- In a template of a member there is `sluice.dev/queue`; where it does not name the queue itself, there are
  `scheduling.volcano.sh/queue-name` and `sluice.dev/queue-from` too.
- Nothing is written that is there already: what needs no change gives no step.
- Whatever else a template holds stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterator

from cluster.cache.workloads import (
    Keys,
    pod_templates,
    template_names,
)
from cluster.objects import Metadata, Template, WorkloadObject
from queues import labels as names
from queues.membership import (
    VOLCANO_ANNOTATION,
    Membership,
    NamingMetadata,
    QueueConflict,
    Source,
    label_value,
    names_a_queue,
    without_webhook_names,
)
from webhooks.json_patch import (
    PatchStep,
    json_pointer,
    patch_map,
)

Wanted = dict[str, str | None]
NO_NAMES = NamingMetadata({}, {})


def patch_queue_on_workload(meta: Metadata, queue: str, *, came: str = "") -> Iterator[PatchStep]:
    wanted: Wanted = {names.QUEUE: queue, **({names.ADMISSION: came} if came else {})}
    yield from patch_map("/metadata/annotations", meta.annotations, wanted)
    yield from patch_map("/metadata/labels", meta.labels, {names.QUEUE: label_value(queue)})


def remove_queue_from_workload(meta: Metadata) -> Iterator[PatchStep]:
    yield from patch_map(
        "/metadata/annotations", meta.annotations, {names.QUEUE: None, names.ADMISSION: None}
    )
    yield from patch_map("/metadata/labels", meta.labels, {names.QUEUE: None})


def submitted_names(before: WorkloadObject, after: WorkloadObject) -> tuple[NamingMetadata, ...]:
    """The names in each template after an update, by which `without_webhook_names` tells a user's from ours.

    What stands where the webhook wrote is the user's word from when it is written over, unless it is, with
    `sluice.dev/queue`, all of what the webhook wrote another time: a roll-back brings that.
    """
    former = {keys: template_names(template) for keys, template in pod_templates(before)}
    return tuple(
        _said(former.get(keys, NO_NAMES), template_names(template)) for keys, template in pod_templates(after)
    )


def _said(before: NamingMetadata, after: NamingMetadata) -> NamingMetadata:
    was, now = (one.annotations.get(VOLCANO_ANNOTATION, "") for one in (before, after))
    if was == now:
        by_us = names.QUEUE_FROM in before.annotations
    else:
        by_us = names.QUEUE_FROM in after.annotations and now == after.annotations.get(names.QUEUE)
    others = {key: value for key, value in after.annotations.items() if key != names.QUEUE_FROM}
    return NamingMetadata(after.labels, {**others, names.QUEUE_FROM: ""} if by_us else others)


def patch_templates(
    obj: WorkloadObject, queue: str, *, source: str, submitted: tuple[NamingMetadata, ...] = ()
) -> Iterator[PatchStep]:
    """`submitted`: the names in each of them, where that is not simply what stands there."""
    for number, (keys, template) in enumerate(pod_templates(obj)):
        words = without_webhook_names(submitted[number] if submitted else template_names(template))
        wanted: Wanted = {names.QUEUE: queue}
        if names_a_queue(words):
            wanted[names.QUEUE_FROM] = None
            if VOLCANO_ANNOTATION not in words.annotations:
                wanted[VOLCANO_ANNOTATION] = None
        else:
            wanted |= {names.QUEUE_FROM: source, VOLCANO_ANNOTATION: queue}
        yield from _annotated(keys, template, wanted)


def clean_templates(obj: WorkloadObject) -> Iterator[PatchStep]:
    for keys, template in pod_templates(obj):
        yield from _annotated(keys, template, dict.fromkeys(_ours(template)))


def restore_templates(before: WorkloadObject, after: WorkloadObject) -> Iterator[PatchStep]:
    """What was ours in the templates, as it was."""
    former = dict(pod_templates(before))
    for keys, template in pod_templates(after):
        ours = former.get(keys, Template()).metadata or Metadata()
        of_both = {**_ours(template), **_ours(former.get(keys))}
        yield from _annotated(keys, template, {key: ours.annotation(key) or None for key in of_both})


def templates_touched(before: WorkloadObject, after: WorkloadObject) -> bool:
    """Whether what is ours in the templates differs."""
    return [_ours(one) for _, one in pod_templates(before)] != [_ours(one) for _, one in pod_templates(after)]


def naming_source(found: Membership | QueueConflict | None, *, before: WorkloadObject | None = None) -> str:
    """Who named the queue, in the one word that fits an annotation."""
    if isinstance(found, Membership):
        return {Source.NAMESPACE: "namespace", Source.SCHEDULER: "scheduler"}.get(found.source, "workload")
    sources = [_ours(one).get(names.QUEUE_FROM, "") for _, one in (pod_templates(before) if before else ())]
    return next(filter(None, sources), "workload")


def _ours(template: Template | None) -> dict[str, str]:
    """What is ours in a template; empty where it is not there."""
    meta = (template and template.metadata) or Metadata()
    found = {key: meta.annotation(key) for key in (names.QUEUE, names.QUEUE_FROM)}
    return (
        {**found, VOLCANO_ANNOTATION: meta.annotation(VOLCANO_ANNOTATION)}
        if found[names.QUEUE_FROM]
        else found
    )


def _annotated(keys: Keys, template: Template, wanted: Wanted) -> list[PatchStep]:
    place = json_pointer(*keys)
    if template.metadata is not None:
        return patch_map(f"{place}/metadata/annotations", template.metadata.annotations, wanted)
    present = {key: value for key, value in wanted.items() if value is not None}
    if not present:
        return []
    return [{"op": "add", "path": f"{place}/metadata", "value": {"annotations": present}}]
