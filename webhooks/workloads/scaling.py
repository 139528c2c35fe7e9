"""The validating webhook for `scale`, and what more replicas mean for a queue.

===========================  =================================================================
the replicas                 what happens
===========================  =================================================================
from none to some            new work: denied unless the queue accepts; recorded as an
                             admission, so that a close waits for it
more                         denied unless the queue accepts: replicas beyond those that it has
                             are new work, whoever asks for them
either, in a queue that the  denied (`queues.namespace_binding`)
namespace may not name
fewer, as many               nothing
===========================  =================================================================

What a drain keeps at zero has the replicas that its record says (`queues.scale_record`).

Replacements of the replicas that it has are no growth: their controllers create pods, and scale nothing here.

Where the queue does not schedule, whatever grows is answered with a warning: the new pods wait. Controllers
(the autoscaler) read no warnings and get none.
"""

from __future__ import annotations

import msgspec

from cluster.cache.store import Store
from cluster.cache.workloads import scale_up_key
from cluster.objects import WorkloadObject
from queues.messages import waiting_warning, way_out_text
from queues.snapshot import QueueDecision
from queues.workload_kinds import WorkloadKind, find_kind
from webhooks.acceptance import deny_unbound, refusal_message
from webhooks.review import ALLOWED, ReviewAnswer, ReviewRequest, decode_object, deny
from webhooks.settings import AdmissionSettings

#: Of a Scale, metadata and `spec.replicas` are the same as of a workload.
_scales = msgspec.json.Decoder(WorkloadObject)


def validate(request: ReviewRequest, *, store: Store, settings: AdmissionSettings) -> ReviewAnswer:
    """The answer to the validating webhook."""
    kind = find_kind(request.resource.group, request.resource.resource)
    before = decode_object(request.old_object, _scales, where="oldObject").spec.replicas or 0
    after = decode_object(request.object, _scales).spec.replicas or 0
    if kind is None or after <= before:
        return ALLOWED
    workload = store.workloads.of_kind[kind.key].by_name(request.namespace, request.name)
    if workload is None or not workload.queue:
        return ALLOWED
    has = before or workload.kept_at_zero
    if has >= after:
        return ReviewAnswer(
            warnings=_waiting_warnings(workload.queue, request, store=store, settings=settings)
        )
    if has:
        return answer_growth(kind, workload.queue, request, store=store, settings=settings, has=has)
    refusal = _accept_first_replicas(kind, workload.queue, request, store=store)
    if refusal is not None:
        return refusal
    return ReviewAnswer(warnings=_waiting_warnings(workload.queue, request, store=store, settings=settings))


def _accept_first_replicas(
    kind: WorkloadKind, queue: str, request: ReviewRequest, *, store: Store
) -> ReviewAnswer | None:
    """The denial, or None. A Scale cannot carry an admission: it is recorded by the workload's name."""
    key = scale_up_key(kind, request.namespace, request.name)
    already_open = store.admissions.is_open(key, queue)
    if not request.dry_run:
        store.admissions.record(key, queue)
    decision = store.decisions.of_queue(queue, namespace=request.namespace)
    unbound = deny_unbound(
        queue,
        request,
        store=store,
        what=f"spec.replicas: a {kind.kind} that had no replicas is new work, and ",
    )
    if decision.accepts and unbound is None:
        return None
    if not already_open:
        store.admissions.withdraw(key)
    return unbound or deny_scale_up(kind, decision, store=store)


def answer_growth(
    kind: WorkloadKind,
    queue: str,
    request: ReviewRequest,
    *,
    store: Store,
    settings: AdmissionSettings,
    has: int,
) -> ReviewAnswer:
    """The answer to more replicas than the workload of the queue `has`.

    Where the queue does not select the namespace any more, they are pods of work that it had accepted.
    """
    beyond = f"replicas beyond the {has} that this {kind.kind} has are new"
    unbound = deny_unbound(queue, request, store=store, what=f"spec.replicas: {beyond}: ")
    if unbound is not None:
        return unbound
    decision = store.decisions.of_queue(queue, namespace=request.namespace)
    if decision.undecided:
        decision = store.snapshot.decision(queue)
    if decision.accepts or not decision.selected:
        return ReviewAnswer(warnings=_waiting_warnings(queue, request, store=store, settings=settings))
    assert decision.refusal is not None  # noqa: S101 - it does not accept
    return deny(
        f'spec.replicas: queue "{decision.queue}" takes no new work, and replicas beyond the {has} that this '
        f"{kind.kind} has are new; {way_out_text(decision.refusal)}"
    )


def deny_scale_up(kind: WorkloadKind, decision: QueueDecision, *, store: Store) -> ReviewAnswer:
    """`decision`: of a queue that accepts nothing new of the namespace."""
    assert decision.refusal is not None  # noqa: S101 - it does not accept
    if not decision.selected:
        refusal = refusal_message(decision, kind=kind.resource, store=store)
        return deny(f"spec.replicas: a {kind.kind} that had no replicas is new work, and {refusal}")
    return deny(
        f'spec.replicas: queue "{decision.queue}" takes no new work, and a {kind.kind} that had no replicas '
        f"is new; {way_out_text(decision.refusal)}"
    )


def _waiting_warnings(
    queue: str, request: ReviewRequest, *, store: Store, settings: AdmissionSettings
) -> tuple[str, ...]:
    """For more replicas in a queue that does not schedule."""
    if settings.is_controller(request.user_info.username):
        return ()
    decision = store.decisions.of_queue(queue, namespace=request.namespace)
    if decision.stop is None or decision.undecided:
        return ()
    return (waiting_warning(decision.stop, what="new pods wait"),)
