"""The webhooks for namespaces: the mutating one, on CREATE and UPDATE, and one that only warns, on UPDATE.

A webhook can select namespaces by labels only. So that the pods of a namespace which names a queue
(annotation `scheduling.volcano.sh/queue-name`) reach us, the namespace gets the label
`sluice.dev/member-namespace`. It is written in the request that writes the annotation, and
removed with the annotation.

| the queue that the namespace comes to name | what happens                                            |
|--------------------------------------------|---------------------------------------------------------|
| exists, and selects the namespace          | the label                                               |
| has a quota                                | the label; if the namespace is not new, a warning: what |
|                                            | runs does not count                                     |
| does not exist                             | the label, and a warning: pods wait until it exists     |
| does not select the namespace              | denied, by the labels that the namespace has afterwards |
| has a name that no queue can have          | denied                                                  |
| any, and the namespace is not managed      | the label, and a warning: it has no effect              |
| any, and the namespace comes to be bound   | a warning: pods of other queues stay                    |

Annotation `sluice.dev/binding` (`queues.namespace_binding`) is refused where it is neither true nor false.

A namespace whose labels change later keeps its annotation: what it submits is answered by itself.

The queue that a namespace comes to name is recorded until the watch delivers that: its pods may come sooner.

With setting `managed_namespaces` the validating webhook is called for each change of labels by somebody else.
It denies nothing. Who takes a namespace out of what is managed is warned of the members that stay
(`queues.managed_namespaces`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from cluster.cache.store import Store
from cluster.objects import Metadata, Namespace
from queues import well_known
from queues.admission.quota_edits import namespace_quota_warning
from queues.causes import CauseKind
from queues.managed_namespaces import manages, no_effect_warning, remaining_warnings
from queues.membership import VOLCANO_ANNOTATION, valid_name
from queues.messages import stop_text, truncate_warning, waiting_warning
from queues.namespace_binding import annotation_fault, binds, no_queue_warning, staying_warning
from queues.namespace_selectors import NAME_LABEL
from queues.snapshot import decision_for_namespace
from webhooks.acceptance import deny_bad_name, similar_queues, similar_warning
from webhooks.json_patch import patch_map
from webhooks.review import ALLOWED, ReviewAnswer, ReviewRequest, decode_object, deny

_namespaces = msgspec.json.Decoder(Namespace)
_ANNOTATION = f"metadata.annotations[{VOLCANO_ANNOTATION}]"


def mutate(request: ReviewRequest, *, store: Store) -> ReviewAnswer:
    """The answer to the mutating webhook on CREATE and UPDATE."""
    meta = decode_object(request.object, _namespaces).metadata
    queue = meta.annotation(VOLCANO_ANNOTATION)
    if queue and not valid_name(queue):
        return deny_bad_name(queue, where=_ANNOTATION)
    fault = annotation_fault(meta.annotation(well_known.BINDING))
    if fault:
        return deny(fault, code=422)
    names_queue = bool(queue) and meta.name not in store.membership_settings.exempt_namespaces
    wanted = {well_known.MEMBER_NAMESPACE: "true" if names_queue else None}
    patch = tuple(patch_map("/metadata/labels", meta.labels, wanted))
    labels = {NAME_LABEL: meta.name, **(meta.labels or {})}
    if not names_queue:
        _record(request, meta, "", labels, store=store)
        has_no_effect = binds(meta.annotation(well_known.BINDING), setting=False)
        return ReviewAnswer(patch=patch, warnings=(no_queue_warning(),) if has_no_effect else ())
    refusal = _refusal(request, meta, labels, store=store)
    if refusal:
        return deny(refusal)
    _record(request, meta, queue, labels, store=store)
    warnings = (
        *_warnings(request, meta, labels, store=store),
        *_binding_warnings(request, meta, store=store),
    )
    return ReviewAnswer(patch=patch, warnings=warnings)


def _record(
    request: ReviewRequest, meta: Metadata, queue: str, labels: Mapping[str, str], *, store: Store
) -> None:
    """Pods may come before the watch brings the namespace, or this edit of it."""
    if request.dry_run:
        return
    before = _before(request)
    store.namespaces.pending.record(
        meta.name,
        queue,
        labels,
        base=before.version if before else 0,
        binding=meta.annotation(well_known.BINDING),
    )


def _before(request: ReviewRequest) -> Metadata | None:
    """What is edited; None for a new namespace."""
    if request.operation == "CREATE":
        return None
    return decode_object(request.old_object, _namespaces, where="oldObject").metadata


def validate(request: ReviewRequest, *, store: Store) -> ReviewAnswer:
    """The answer to the validating webhook on UPDATE: always allowed."""
    selector = store.membership_settings.managed_namespaces
    before = decode_object(request.old_object, _namespaces, where="oldObject").metadata
    after = decode_object(request.object, _namespaces).metadata
    was, is_managed = (
        manages(selector, {NAME_LABEL: meta.name, **(meta.labels or {})}) for meta in (before, after)
    )
    if is_managed or not was or after.deletion_timestamp is not None:
        return ALLOWED
    warnings = remaining_warnings(after.name, store.live_members.pods_in(after.name))
    return ReviewAnswer(warnings=tuple(map(truncate_warning, warnings)))


def _refusal(
    request: ReviewRequest, meta: Metadata, labels: Mapping[str, str], *, store: Store
) -> str | None:
    """Why the namespace may not come to name the queue; None where it may, or named it before."""
    decision = store.snapshot.decision(meta.annotation(VOLCANO_ANNOTATION))
    if not decision.restricted or not _comes_to_name_it(request, meta):
        return None
    after = decision_for_namespace(decision, namespace=meta.name or meta.generate_name, labels=labels)
    if after.selected or after.stop is None:
        return None
    return f"{_ANNOTATION}: {stop_text(after.stop)}"


def _warnings(
    request: ReviewRequest, meta: Metadata, labels: Mapping[str, str], *, store: Store
) -> tuple[str, ...]:
    if not _comes_to_name_it(request, meta):
        return ()
    selector = store.membership_settings.managed_namespaces
    if selector is not None and not selector.selects(labels):
        return (truncate_warning(no_effect_warning(meta.name or meta.generate_name, selector, labels)),)
    decision = store.snapshot.decision(meta.annotation(VOLCANO_ANNOTATION))
    stop = decision.stop
    if decision.has_quota and _before(request) is not None:
        return (truncate_warning(namespace_quota_warning(decision.queue)),)
    if stop is None or stop.kind is not CauseKind.NOT_FOUND:
        return ()
    similar = similar_warning(similar_queues(stop, store=store))
    return tuple(filter(None, (waiting_warning(stop, what="pods of this namespace wait"), similar)))


def _binding_warnings(request: ReviewRequest, meta: Metadata, *, store: Store) -> tuple[str, ...]:
    """For a namespace that comes to be bound, or bound to another queue."""
    before, bound_to = _before(request), _bound_to(meta, store=store)
    if not bound_to or meta.deletion_timestamp is not None:
        return ()
    if before is not None and _bound_to(before, store=store) == bound_to:
        return ()
    pods = store.live_members.pods_in(meta.name)
    warning = staying_warning(pods, bound_to=bound_to, tree=store.snapshot.tree)
    return (truncate_warning(warning),) if warning else ()


def _bound_to(meta: Metadata, *, store: Store) -> str:
    """The queue that a namespace with these annotations is bound to; "" for none."""
    setting = store.membership_settings.binding_namespaces
    is_bound = binds(meta.annotation(well_known.BINDING), setting=setting)
    return meta.annotation(VOLCANO_ANNOTATION) if is_bound else ""


def _comes_to_name_it(request: ReviewRequest, meta: Metadata) -> bool:
    """Whether this request makes the namespace name its queue."""
    if meta.deletion_timestamp is not None:
        return False
    before = _before(request)
    return before is None or before.annotation(VOLCANO_ANNOTATION) != meta.annotation(VOLCANO_ANNOTATION)
