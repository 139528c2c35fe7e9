"""The validating webhook for labels and annotations of Volcano and Kueue: warnings alone, it denies nothing.

| object                            | metadata that is checked                                           |
|-----------------------------------|--------------------------------------------------------------------|
| a workload                        | its own, its pod templates', and its Job templates'                |
| a pod                             | its own, if nothing made it: else its maker gets the warning       |
| a PodGroup, a namespace           | its own; of a PodGroup that nothing made                           |
| anything by a controller          | none: a controller reads no warnings                               |

On UPDATE only keys that the edit sets or changes are checked. Queues have a webhook of their own
(`webhooks.queues.queue_validation`), which asks the same rules. What the rules are: `queues.metadata`.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cluster.cache.store import Store
from cluster.exceptions import Faulty
from cluster.objects import Metadata, WorkloadObject
from queues.metadata.findings import PlacedMetadata, findings
from queues.metadata.keys import GROUP_MIN_MEMBER, Place
from queues.metadata.warnings import metadata_warnings
from queues.workload_gangs import asked_gang
from queues.workload_kinds import WorkloadKind, find_kind
from queues.world.members import controller_reference
from queues.world.workloads import pod_templates
from webhooks.review import ALLOWED, ReviewAnswer, ReviewRequest, decode_object
from webhooks.settings import AdmissionSettings

#: For who changes the minimum of a workload that exists.
LATE_GANG = f"{GROUP_MIN_MEMBER} is read when a workload is created; change minMember of its PodGroup"
#: The kinds that make Jobs, or pods in a way of their own: what Volcano reads on a Job is not read on them.
_MAKERS = frozenset({"cronjobs", "jobsets", "jobs.batch.volcano.sh"})
_PLACES = {"pods": Place.POD, "podgroups": Place.PODGROUP, "namespaces": Place.NAMESPACE}
_objects = msgspec.json.Decoder(WorkloadObject)


def validate(request: ReviewRequest, *, store: Store, settings: AdmissionSettings) -> ReviewAnswer:
    """The answer to the validating webhook on CREATE and UPDATE: always allowed."""
    try:
        return ReviewAnswer(warnings=_warnings(request, store=store, settings=settings))
    except Faulty:  # its own webhook refuses it, where it is ours
        return ALLOWED


def _warnings(request: ReviewRequest, *, store: Store, settings: AdmissionSettings) -> tuple[str, ...]:
    kind = find_kind(request.resource.group, request.resource.resource)
    place = _PLACES.get(request.resource.resource) if kind is None else None
    if (kind is None and place is None) or settings.is_controller(request.user_info.username):
        return ()
    obj = decode_object(request.object, _objects)
    if _is_told_elsewhere(obj, place) or _is_exempt(request, obj, store):
        return ()
    before: tuple[PlacedMetadata, ...] = ()
    if request.operation != "CREATE":
        old = decode_object(request.old_object, _objects, where="oldObject")
        before = tuple(_placed(old, kind, place))
    kueue = store.membership_settings.kueue
    found = metadata_warnings(findings(_placed(obj, kind, place), before, kueue=kueue))
    is_late = bool(before) and kind is not None and _asks_for_another_gang(kind, before[0], obj.metadata)
    return (*found, LATE_GANG) if is_late else found


def _asks_for_another_gang(kind: WorkloadKind, before: PlacedMetadata, after: Metadata) -> bool:
    """Whether the minimum changes of a workload that exists: its template says the former one."""
    was, now = (asked_gang(kind.key, each) for each in (before.annotations, after.annotations or {}))
    return was != now


def _is_told_elsewhere(obj: WorkloadObject, place: Place | None) -> bool:
    """Whether something made it: the author of that gets the warning."""
    is_leaving = obj.metadata.deletion_timestamp is not None
    is_made = controller_reference(obj.metadata.owner_references) is not None
    return is_leaving or (is_made and place is not Place.NAMESPACE)


def _is_exempt(request: ReviewRequest, obj: WorkloadObject, store: Store) -> bool:
    return (request.namespace or obj.metadata.name) in store.membership_settings.exempt_namespaces


def _placed(obj: WorkloadObject, kind: WorkloadKind | None, place: Place | None) -> Iterator[PlacedMetadata]:
    if kind is None:
        yield _metadata(place or Place.WORKLOAD, obj.metadata)
        return
    yield _metadata(Place.MAKER if kind.key in _MAKERS else Place.WORKLOAD, obj.metadata)
    for each in (obj.spec.job_template, *(job.template for job in obj.spec.replicated_jobs or ())):
        if each is not None and each.metadata is not None:
            yield _metadata(Place.WORKLOAD, each.metadata)
    for _, template in pod_templates(obj):
        if template.metadata is not None:
            yield _metadata(Place.TEMPLATE, template.metadata)


def _metadata(place: Place, meta: Metadata) -> PlacedMetadata:
    return PlacedMetadata(place, meta.labels or {}, meta.annotations or {})
