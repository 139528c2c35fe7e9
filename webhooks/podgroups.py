"""PodGroups: their queue takes them, or they are refused; under their pods it cannot change.

On CREATE a group without a queue, or in `default`, gets the one that its namespace names (as Volcano does).
On UPDATE of `spec.queue`: refused while pods name the group; else the new queue must accept.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cluster.cache.podgroups import queue_of
from cluster.cache.store import Store
from cluster.inflight.admissions import admission_request
from cluster.objects import PodGroup
from queues import labels as names
from queues.membership import label_value, valid_name
from queues.queue import DEFAULT
from queues.text import printable
from webhooks.acceptance import (
    Submission,
    accept_submission,
    admission_id,
    deny_bad_name,
)
from webhooks.json_patch import PatchStep, patch_map
from webhooks.review import ALLOWED, Answer, Request, decode_object, deny, join_patches
from webhooks.settings import AdmissionSettings


class _Shape(msgspec.Struct, frozen=True, gc=False):
    """Whether there is a spec to write into."""

    spec: Any = None


_podgroups = msgspec.json.Decoder(PodGroup)
_shapes = msgspec.json.Decoder(_Shape)


def mutate(request: Request, *, store: Store, terms: AdmissionSettings) -> Answer:
    """The answer to the mutating webhook on CREATE and UPDATE."""
    group = decode_object(request.object, _podgroups)
    if request.operation == "CREATE":
        return _created(group, request, store=store, terms=terms)
    return _updated(group, request, store=store, terms=terms)


def _created(group: PodGroup, request: Request, *, store: Store, terms: AdmissionSettings) -> Answer:
    if request.namespace in store.rules.exempt_namespaces:
        return ALLOWED
    queue = queue_of(group)
    if queue == DEFAULT:
        queue = store.queue_of_namespace(request.namespace) or queue
    return _submitted(group, queue, request, store=store, terms=terms)


def _updated(group: PodGroup, request: Request, *, store: Store, terms: AdmissionSettings) -> Answer:
    before, queue = decode_object(request.old_object, _podgroups, where="oldObject"), queue_of(group)
    if request.namespace in store.rules.exempt_namespaces or group.metadata.deletion_timestamp is not None:
        return ALLOWED
    if queue == queue_of(before):
        return Answer(patch=tuple(_labelled(group, queue)))
    if store.members.in_podgroup(request.namespace, request.name):
        return _not_moved(request)
    return _submitted(group, queue, request, store=store, terms=terms)


def _submitted(
    group: PodGroup, queue: str, request: Request, *, store: Store, terms: AdmissionSettings
) -> Answer:
    if not valid_name(queue):
        return deny_bad_name(queue, where="spec.queue")
    what = Submission(queue=queue, kind="podgroups", references=group.metadata.owner_references)
    ruling = accept_submission(what, request, store=store, terms=terms)
    if isinstance(ruling, Answer):
        return ruling
    came = admission_id(request, admission_request(group.metadata), queue=queue, store=store)
    annotations = patch_map("/metadata/annotations", group.metadata.annotations, {names.ADMISSION: came})
    patch = join_patches(_labelled(group, queue), _placed(group, queue, request), annotations)
    return Answer(patch=patch, warnings=(ruling.warning,) if ruling.warning else ())


def _not_moved(request: Request) -> Answer:
    return deny(
        f'spec.queue: PodGroup "{printable(request.name, limit=80)}" has pods, and their queue cannot be '
        "changed under them; delete the pods first, or create another PodGroup",
        code=422,
    )


def _labelled(group: PodGroup, queue: str) -> list[PatchStep]:
    return patch_map("/metadata/labels", group.metadata.labels, {names.QUEUE: label_value(queue)})


def _placed(group: PodGroup, queue: str, request: Request) -> list[PatchStep]:
    if group.spec.queue == queue:
        return []
    if decode_object(request.object, _shapes).spec is None:
        return [{"op": "add", "path": "/spec", "value": {"queue": queue}}]
    return [{"op": "add", "path": "/spec/queue", "value": queue}]
