"""What labels and annotations of Volcano or Kueue on a stored object do not do here (`queues.metadata`)."""

from __future__ import annotations

from collections.abc import Iterator

from kubectl_queue.objects.fields import Object, annotations_of, labels_of, spec_of, value_at
from kubectl_queue.objects.types import NAMESPACE, POD, PODGROUP, QUEUE, Type
from queues import well_known
from queues.metadata.findings import PlacedMetadata, findings
from queues.metadata.keys import Place
from queues.metadata.warnings import metadata_warnings

_PLACES = {POD: Place.POD, PODGROUP: Place.PODGROUP, QUEUE: Place.QUEUE, NAMESPACE: Place.NAMESPACE}


def key_lines(kind: Type, item: Object) -> tuple[str, ...]:
    """The lines that its author was told, or would have been. Whether setting `kueue_label` is on is not
    known: where the object is in a queue, it counts as on.
    """
    is_member = well_known.QUEUE in labels_of(item)
    return metadata_warnings(findings(_placed(kind, item), kueue=is_member))


def _placed(kind: Type, item: Object) -> Iterator[PlacedMetadata]:
    place = _PLACES.get(kind)
    if place is not None:
        yield _metadata(place, item)
        return
    spec = spec_of(item)
    jobs = [spec.get("jobTemplate"), *(each.get("template") for each in spec.get("replicatedJobs") or ())]
    is_maker = bool(jobs[0] or len(jobs) > 1 or spec.get("tasks"))
    yield _metadata(Place.MAKER if is_maker else Place.WORKLOAD, item)
    templates = [spec.get("template"), *(each.get("template") for each in spec.get("tasks") or ())]
    for job in filter(None, jobs):
        yield _metadata(Place.WORKLOAD, job)
        templates.append(value_at(job, "spec.template"))
    for template in filter(None, templates):
        yield _metadata(Place.TEMPLATE, template)


def _metadata(place: Place, item: Object) -> PlacedMetadata:
    return PlacedMetadata(place, labels_of(item), annotations_of(item))
