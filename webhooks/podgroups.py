"""The webhooks for PodGroups: the mutating one, on CREATE and UPDATE, and the validating one, on UPDATE.

A call goes decode (`webhooks.review`), queue, acceptance (`webhooks.acceptance`), patch, encode.

On CREATE a PodGroup without a queue, or in `default`, gets the queue that its namespace names, as in Volcano.
An UPDATE of `spec.queue` is denied while pods name the PodGroup; otherwise the new queue must accept.

The validating one gives the same warnings where an edit brings the reason. It denies nothing, so a dead
server lets edits pass; the mutating one is not asked about them.

| a PodGroup is taken with a warning if                                | but not                            |
|----------------------------------------------------------------------|------------------------------------|
| its pods can never start together (`webhooks.never_fits`)            | where its queue has no quota; from |
|                                                                      | a controller, which reads none     |
| it is a gang that names a PriorityClass which does not exist: that   | the same; nor until the classes    |
| may come later                                                       | are read, which some gang that     |
|                                                                      | names one brings about             |
| its annotation `sluice.dev/place-within` is no time                  |                                    |
"""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.cache.store import Store
from cluster.inflight.admissions import admission_request
from cluster.objects import PodGroup
from queues import well_known
from queues.membership import label_value, valid_name
from queues.messages import truncate_warning
from queues.queue import DEFAULT
from queues.quota.placement_time import placement_seconds
from queues.text import quoted
from queues.world.podgroups import gang_of_podgroup, queue_of
from webhooks.acceptance import Submission, accept, deny_bad_name
from webhooks.json_patch import PatchStep, join_patches, patch_map
from webhooks.never_fits import podgroup_warnings
from webhooks.review import ALLOWED, ReviewAnswer, ReviewRequest, decode_object, deny
from webhooks.settings import AdmissionSettings


class _AnySpec(msgspec.Struct, frozen=True, gc=False):
    """Whether there is a spec to write into."""

    spec: Any = None


_podgroups = msgspec.json.Decoder(PodGroup)
_specs = msgspec.json.Decoder(_AnySpec)


def mutate(request: ReviewRequest, *, store: Store, settings: AdmissionSettings) -> ReviewAnswer:
    """The answer to the mutating webhook on CREATE and UPDATE."""
    podgroup = decode_object(request.object, _podgroups)
    before = None
    if request.operation != "CREATE":
        before = decode_object(request.old_object, _podgroups, where="oldObject")
    deleted = before is not None and podgroup.metadata.deletion_timestamp is not None
    if deleted or request.namespace in store.membership_settings.exempt_namespaces:
        return ALLOWED
    queue = _queue(podgroup, before, request, store=store)
    if before is not None and queue == queue_of(before):
        return ReviewAnswer(patch=tuple(_set_label(podgroup, queue)))
    if before is not None and store.members.in_podgroup(request.namespace, request.name):
        return _deny_move(request)
    return _submit(podgroup, queue, request, store=store, settings=settings)


def validate(request: ReviewRequest, *, store: Store, settings: AdmissionSettings) -> ReviewAnswer:
    """The answer to the validating webhook on UPDATE: warnings alone."""
    podgroup = decode_object(request.object, _podgroups)
    before = decode_object(request.old_object, _podgroups, where="oldObject")
    queue = queue_of(podgroup)
    is_moved = queue != queue_of(before)  # the mutating webhook says it
    if is_moved or podgroup.metadata.deletion_timestamp is not None:
        return ALLOWED
    warnings: tuple[str, ...] = ()
    if podgroup.spec != before.spec:
        warnings = _spec_warnings(podgroup, queue, request, store=store, settings=settings)
    key = well_known.PLACE_WITHIN
    if podgroup.metadata.annotation(key) != before.metadata.annotation(key):
        warnings += _time_warnings(podgroup)
    return ReviewAnswer(warnings=warnings)


def _queue(podgroup: PodGroup, before: PodGroup | None, request: ReviewRequest, *, store: Store) -> str:
    queue = queue_of(podgroup)
    if before is None and queue == DEFAULT:
        return store.namespaces.queue_of(request.namespace) or queue
    return queue


def _submit(
    podgroup: PodGroup, queue: str, request: ReviewRequest, *, store: Store, settings: AdmissionSettings
) -> ReviewAnswer:
    """A new PodGroup, or one that comes to another queue."""
    if not valid_name(queue):
        return deny_bad_name(queue, where="spec.queue")
    submission = Submission(
        queue=queue,
        kind="podgroups",
        references=podgroup.metadata.owner_references,
        recorded_admission=admission_request(podgroup.metadata),
    )
    accepted = accept(submission, request, store=store, settings=settings)
    if isinstance(accepted, ReviewAnswer):
        return accepted
    patch = join_patches(
        _set_label(podgroup, queue),
        _set_spec_queue(podgroup, queue, request),
        patch_map(
            "/metadata/annotations", podgroup.metadata.annotations, {well_known.ADMISSION: accepted.admission}
        ),
    )
    of_spec = _spec_warnings(podgroup, queue, request, store=store, settings=settings)
    return ReviewAnswer(patch=patch, warnings=(*accepted.warnings, *of_spec, *_time_warnings(podgroup)))


def _spec_warnings(
    podgroup: PodGroup, queue: str, request: ReviewRequest, *, store: Store, settings: AdmissionSettings
) -> tuple[str, ...]:
    if not store.snapshot.decision(queue).has_quota or settings.is_controller(request.user_info.username):
        return ()
    return (*podgroup_warnings(podgroup, queue, store=store), *_class_warnings(podgroup, store=store))


def _class_warnings(podgroup: PodGroup, *, store: Store) -> tuple[str, ...]:
    named = podgroup.spec.priority_class_name or ""
    if not named or gang_of_podgroup(podgroup).is_single or not store.priority_classes.is_absent(named):
        return ()
    what = f"PriorityClass {quoted(named, limit=40)} does not exist"
    return (truncate_warning(f"{what}: until it does, this gang goes by the priorities of its pods"),)


def _time_warnings(podgroup: PodGroup) -> tuple[str, ...]:
    text = podgroup.metadata.annotation(well_known.PLACE_WITHIN)
    if placement_seconds(text)[1]:
        return ()
    what = f"{well_known.PLACE_WITHIN} {quoted(text, limit=20)} is no time, and has no effect"
    return (truncate_warning(f"{what}: write 90, 90s, 10m or 1h30m"),)


def _set_label(podgroup: PodGroup, queue: str) -> list[PatchStep]:
    return patch_map("/metadata/labels", podgroup.metadata.labels, {well_known.QUEUE: label_value(queue)})


def _set_spec_queue(podgroup: PodGroup, queue: str, request: ReviewRequest) -> list[PatchStep]:
    if podgroup.spec.queue == queue:
        return []
    if decode_object(request.object, _specs).spec is None:
        return [{"op": "add", "path": "/spec", "value": {"queue": queue}}]
    return [{"op": "add", "path": "/spec/queue", "value": queue}]


def _deny_move(request: ReviewRequest) -> ReviewAnswer:
    return deny(
        f"spec.queue: PodGroup {quoted(request.name, limit=80)} has pods, and their queue cannot be "
        "changed under them; delete the pods first, or create another PodGroup",
        code=422,
    )
