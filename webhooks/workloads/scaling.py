"""The validating webhook for `scale`, and what more replicas mean for a queue.

===========================  =================================================================
the replicas                 what happens
===========================  =================================================================
from none to some            new work: denied unless the queue accepts; recorded as an
                             admission, so that a close waits for it
more                         nothing
fewer, as many               nothing
===========================  =================================================================

Where the queue does not schedule, whatever grows is answered with a warning: the new pods wait. Controllers
(the autoscaler) read no warnings and get none.
"""

from __future__ import annotations

import msgspec

from cluster.cache.store import Store
from cluster.cache.workloads import scale_up_key
from cluster.objects import WorkloadObject
from queues.messages import waiting_warning
from queues.workload_kinds import WorkloadKind, find_kind
from webhooks.acceptance import refusal_message
from webhooks.review import ALLOWED, Answer, Request, decode_object, deny
from webhooks.settings import AdmissionSettings

#: Of a Scale, metadata and `spec.replicas` are the same as of a workload.
_scales = msgspec.json.Decoder(WorkloadObject)


def validate(request: Request, *, store: Store, settings: AdmissionSettings) -> Answer:
    """The answer to the validating webhook."""
    kind = find_kind(request.resource.group, request.resource.resource)
    before = decode_object(request.old_object, _scales, where="oldObject").spec.replicas or 0
    after = decode_object(request.object, _scales).spec.replicas or 0
    if kind is None or after <= before:
        return ALLOWED
    workload = store.workloads.of_kind[kind.key].by_name(request.namespace, request.name)
    if workload is None or not workload.queue:
        return ALLOWED
    refusal = None if before else _accept_first_replicas(kind, workload.queue, request, store=store)
    if refusal is not None:
        return refusal
    return Answer(warnings=scale_up_warnings(workload.queue, request, store=store, settings=settings))


def _accept_first_replicas(
    kind: WorkloadKind, queue: str, request: Request, *, store: Store
) -> Answer | None:
    """The denial, or None. A Scale cannot carry an admission: it is recorded by the workload's name."""
    key = scale_up_key(kind, request.namespace, request.name)
    already_open = store.admissions.is_open(key, queue)
    if not request.dry_run:
        store.admissions.record(key, queue)
    decision = store.decisions.of_queue(queue, namespace=request.namespace)
    if decision.accepts:
        return None
    if not already_open:
        store.admissions.withdraw(key)
    text = refusal_message(decision, kind=kind.resource, store=store)
    return deny_scale_up(kind, queue, text, selected=decision.selected)


def deny_scale_up(kind: WorkloadKind, queue: str, refusal: str, *, selected: bool) -> Answer:
    """`refusal`: why the queue accepts nothing new. `selected`: it selects the namespace."""
    if not selected:
        return deny(f"spec.replicas: a {kind.kind} that had no replicas is new work, and {refusal}")
    _, _, way_out = refusal.rpartition("; ")  # each refusal ends with it (`queues.messages`)
    return deny(
        f'spec.replicas: queue "{queue}" takes no new work, and a {kind.kind} that had no replicas is new; '
        f"{way_out}"
    )


def scale_up_warnings(
    queue: str, request: Request, *, store: Store, settings: AdmissionSettings
) -> tuple[str, ...]:
    """For more replicas in a queue that does not schedule."""
    if settings.is_controller(request.user_info.username):
        return ()
    decision = store.decisions.of_queue(queue, namespace=request.namespace)
    if decision.stop is None or decision.undecided:
        return ()
    return (waiting_warning(decision.stop, what="new pods wait"),)
