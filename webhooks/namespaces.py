"""The mutating webhook for namespaces, on CREATE and UPDATE.

A webhook can select namespaces by labels only. So that the pods of a namespace which names a queue
(annotation `scheduling.volcano.sh/queue-name`) reach us, the namespace gets the label
`sluice.dev/member-namespace`. It is written in the request that writes the annotation, and
removed with the annotation.

| the queue that the namespace comes to name | what happens                                            |
|--------------------------------------------|---------------------------------------------------------|
| exists, and selects the namespace          | the label                                               |
| does not exist                             | the label, and a warning: pods wait until it exists     |
| does not select the namespace              | denied, by the labels that the namespace has afterwards |
| has a name that no queue can have          | denied                                                  |

A namespace whose labels change later keeps its annotation: what it submits is answered by itself.

The queue of a new namespace is recorded until the watch delivers the namespace: its pods may come sooner.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cluster.cache.store import Store
from cluster.objects import Metadata, Namespace
from queues import well_known
from queues.causes import CauseKind
from queues.membership import VOLCANO_ANNOTATION, valid_name
from queues.messages import waiting_warning
from queues.namespace_selectors import NAME_LABEL
from queues.snapshot import decision_for_namespace
from webhooks.acceptance import deny_bad_name
from webhooks.json_patch import patch_map
from webhooks.review import Answer, Request, decode_object, deny

_namespaces = msgspec.json.Decoder(Namespace)
_ANNOTATION = f"metadata.annotations[{VOLCANO_ANNOTATION}]"


def mutate(request: Request, *, store: Store) -> Answer:
    """The answer to the mutating webhook on CREATE and UPDATE."""
    meta = decode_object(request.object, _namespaces).metadata
    queue = meta.annotation(VOLCANO_ANNOTATION)
    if queue and not valid_name(queue):
        return deny_bad_name(queue, where=_ANNOTATION)
    names_queue = bool(queue) and meta.name not in store.membership_settings.exempt_namespaces
    wanted = {well_known.MEMBER_NAMESPACE: "true" if names_queue else None}
    patch = tuple(patch_map("/metadata/labels", meta.labels, wanted))
    if not names_queue:
        return Answer(patch=patch)
    labels = {NAME_LABEL: meta.name, **(meta.labels or {})}
    refusal = _refusal(request, meta, labels, store=store)
    if refusal:
        return deny(refusal)
    if not request.dry_run:
        store.namespaces.pending.record(meta.name, queue, labels)
    return Answer(patch=patch, warnings=_warnings(request, meta, store=store))


def _refusal(request: Request, meta: Metadata, labels: Mapping[str, str], *, store: Store) -> str | None:
    """Why the namespace may not come to name the queue; None where it may, or named it before."""
    decision = store.snapshot.decision(meta.annotation(VOLCANO_ANNOTATION))
    if not decision.restricted or not _comes_to_name_it(request, meta):
        return None
    after = decision_for_namespace(decision, namespace=meta.name or meta.generate_name, labels=labels)
    return None if after.selected else f"{_ANNOTATION}: {after.text}"


def _warnings(request: Request, meta: Metadata, *, store: Store) -> tuple[str, ...]:
    stop = store.snapshot.decision(meta.annotation(VOLCANO_ANNOTATION)).stop
    if stop is None or stop.kind is not CauseKind.NOT_FOUND or not _comes_to_name_it(request, meta):
        return ()
    return (waiting_warning(stop, what="pods of this namespace wait"),)


def _comes_to_name_it(request: Request, meta: Metadata) -> bool:
    """Whether this request makes the namespace name its queue."""
    if meta.deletion_timestamp is not None:
        return False
    if request.operation == "CREATE":
        return True
    before = decode_object(request.old_object, _namespaces, where="oldObject").metadata
    return before.annotation(VOLCANO_ANNOTATION) != meta.annotation(VOLCANO_ANNOTATION)
