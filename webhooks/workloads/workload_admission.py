"""Workloads: the queue is written down in their templates, or they are refused where their user is.

On CREATE:

=========================================  ========================================================
its queue                                  what happens
=========================================  ========================================================
is none                                    our own keys are taken off
two of its names differ                    refused
accepts                                    written on it and in its templates; a warning if it is stopped
is not there                               the same, with a warning
does not accept                            refused, but for what accepted work makes
does not select its namespace              the same
is a PodGroup's that is not there          a warning; its pods are answered when it comes
=========================================  ========================================================

On UPDATE it is a submission again if it comes to another queue, or wants replicas where it wanted none.
It comes to another queue only if what it says of itself does: what was written down is the answer, whatever
its namespace or PodGroup says by now. What is being deleted, and what controllers do to what they made, is
let pass.

A template is written to on CREATE, and on UPDATE only where the queue changes or what was written is
touched: a template that changes makes a Deployment replace its pods. The template of a ReplicaSet that
another made is never written to, but to put back what was there: its maker would take it for one that it
does not know. Controllers alone make what is owned: an owner that a user writes counts for nothing.

Whoever writes it, the mark of what a drain suspended stays ours (`webhooks.workloads.suspend_mark`).

Where the template does not name the queue itself, it is made to (`scheduling.volcano.sh/queue-name`, with
`sluice.dev/queue-from`), so that its pods are in that queue whatever we know of their owner by then.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from cluster.cache.members import controller_reference
from cluster.cache.store import Store
from cluster.cache.workloads import (
    is_live,
    recorded_queue,
    scale_up_key,
    workload_facts,
)
from cluster.exceptions import Unreadable
from cluster.inflight.admissions import admission_request
from cluster.objects import WorkloadObject
from queues.membership import Membership, QueueConflict, valid_name, workload_membership
from queues.messages import truncate_warning, waiting_warning
from queues.text import printable
from queues.verdict import Cause, CauseKind
from queues.workload_kinds import (
    KINDS,
    WorkloadKind,
    find_kind,
)
from webhooks.acceptance import (
    Submission,
    accept_submission,
    admission_id,
    deny_bad_name,
    deny_unknown_namespace,
    refusal_message,
)
from webhooks.json_patch import PatchStep
from webhooks.review import ALLOWED, FORBIDDEN, Answer, Request, decode_object, deny, join_patches
from webhooks.settings import AdmissionSettings
from webhooks.workloads.pod_templates import (
    clean_templates,
    naming_source,
    patch_queue_on_workload,
    patch_templates,
    remove_queue_from_workload,
    restore_templates,
    submitted_names,
    templates_touched,
)
from webhooks.workloads.suspend_mark import protect_suspend_mark

Found = Membership | QueueConflict | None

_workloads = msgspec.json.Decoder(WorkloadObject)


def mutate(request: Request, *, store: Store, terms: AdmissionSettings) -> Answer:
    """The answer to the mutating webhook on CREATE and UPDATE."""
    kind = find_kind(request.resource.group, request.resource.resource)
    if kind is None:
        raise Unreadable(f"request.resource: {printable(request.resource.resource, limit=80)} is no workload")
    after = decode_object(request.object, _workloads)
    before = None
    if request.operation != "CREATE":
        before = decode_object(request.old_object, _workloads, where="oldObject")
    if request.user_info.username == terms.own_user:
        return _answered(kind, before, after, request, store=store, terms=terms)
    after, mark = protect_suspend_mark(before, after)
    answer = _answered(kind, before, after, request, store=store, terms=terms)
    return replace(answer, patch=join_patches(mark, answer.patch)) if mark and answer.allowed else answer


def _answered(
    kind: WorkloadKind,
    before: WorkloadObject | None,
    after: WorkloadObject,
    request: Request,
    *,
    store: Store,
    terms: AdmissionSettings,
) -> Answer:
    if before is None:
        return _created(kind, after, request, store=store, terms=terms)
    made_by_another = _is_owned(kind, after) and terms.is_controller(request.user_info.username)
    if request.sub_resource or after.metadata.deletion_timestamp is not None or made_by_another:
        return ALLOWED
    return _updated(kind, before, after, request, store=store, terms=terms)


def validate_scale(request: Request, *, store: Store) -> Answer:
    """The answer to the validating webhook on `scale`: from none to some is new work."""
    kind = find_kind(request.resource.group, request.resource.resource)
    before = decode_object(request.old_object, _workloads, where="oldObject")
    after = decode_object(request.object, _workloads)
    if kind is None or before.spec.replicas or not after.spec.replicas:
        return ALLOWED
    held = store.workloads.of_kind[kind.key].by_name(request.namespace, request.name)
    if held is None or not held.queue:
        return ALLOWED
    coming = scale_up_key(kind, request.namespace, request.name)
    another = store.admissions.is_open(coming, held.queue)
    if not request.dry_run:
        store.admissions.record(coming, held.queue)
    ruling = store.decision_for(held.queue, namespace=request.namespace)
    if ruling.accepts:
        return ALLOWED
    if not another:
        store.admissions.withdraw(coming)
    why = refusal_message(ruling, kind=kind.resource, store=store)
    return _not_revived(kind, held.queue, why, selected=ruling.selected)


def _created(
    kind: WorkloadKind, obj: WorkloadObject, request: Request, *, store: Store, terms: AdmissionSettings
) -> Answer:
    found = store.workload_membership(kind, obj, namespace=request.namespace)
    owned = _is_owned(kind, obj) and terms.is_controller(request.user_info.username)
    if isinstance(found, QueueConflict):
        return _disagreeing(found)
    if found is None or found.queue is None:
        return _of_no_queue(obj, found, request, store=store, written=not owned)
    if not valid_name(found.queue):
        return deny_bad_name(found.queue, where=found.source)
    if owned and obj.spec.replicas == 0:  # the next revision of accepted work, before it grows
        return Answer(patch=tuple(patch_queue_on_workload(obj.metadata, found.queue)))
    what = Submission(
        queue=found.queue,
        kind=kind.resource,
        references=obj.metadata.owner_references,
        group=found.group,
    )
    ruling = accept_submission(what, request, store=store, terms=terms)
    if isinstance(ruling, Answer):
        return ruling
    came = admission_id(request, admission_request(obj.metadata), queue=found.queue, store=store)
    patch = join_patches(
        [*patch_queue_on_workload(obj.metadata, found.queue, came=came)],
        [*patch_templates(obj, found.queue, source=naming_source(found))]
        if _is_to_be_written(kind, obj, found.queue, owned=owned)
        else [],
        _spec_queue(kind, obj, found.queue),
    )
    return Answer(patch=patch, warnings=(ruling.warning,) if ruling.warning and not owned else ())


def _of_no_queue(
    obj: WorkloadObject, found: Membership | None, request: Request, *, store: Store, written: bool
) -> Answer:
    """`written`: whether its templates may be written to."""
    if found is None and not store.is_namespace_known(request.namespace):
        return deny_unknown_namespace(request)
    patch = join_patches(
        [*remove_queue_from_workload(obj.metadata)], [*clean_templates(obj)] if written else []
    )
    return Answer(patch=patch, warnings=_without_group(found))


def _updated(
    kind: WorkloadKind,
    before: WorkloadObject,
    after: WorkloadObject,
    request: Request,
    *,
    store: Store,
    terms: AdmissionSettings,
) -> Answer:
    was = store.workload_membership(kind, before, namespace=request.namespace)
    now = _judged(kind, before, after, request.namespace, store=store)
    revived = is_live(kind, after) and not is_live(kind, before)
    if isinstance(now, QueueConflict):
        unheard = now != was or revived
        return _disagreeing(now) if unheard else Answer(patch=tuple(restore_templates(before, after)))
    held = recorded_queue(before) or _queue_of(was) or ""
    queue = held if now == was else _queue_of(now) or ""
    moved = queue != held
    if moved and (kind.immutable or _is_owned(kind, before)):
        return _not_moved(kind, held, owned=_is_owned(kind, before))
    if not queue or not (moved or revived):
        patch = _followed(kind, before, after, now, queue=queue, moved=moved)
        return Answer(patch=patch, warnings=_without_group(now) if moved else ())
    if not valid_name(queue):
        return deny_bad_name(queue, where=now.source if now else "metadata")
    answer = accept_submission(Submission(queue=queue, kind=kind.resource), request, store=store, terms=terms)
    if isinstance(answer, Answer):
        again = not moved and answer.code == FORBIDDEN
        selected = store.selects(queue, request.namespace)
        return _not_revived(kind, queue, answer.message, selected=selected) if again else answer
    came = admission_id(request, _added(before, after), queue=queue, store=store)
    return Answer(
        patch=_followed(kind, before, after, now, queue=queue, moved=moved, came=came),
        warnings=(answer.warning,) if answer.warning else (),
    )


def _followed(
    kind: WorkloadKind,
    before: WorkloadObject,
    after: WorkloadObject,
    now: Found,
    *,
    queue: str,
    moved: bool,
    came: str = "",
) -> tuple[PatchStep, ...]:
    """What is to be written after an update; "" is no queue, or that of a PodGroup that is not there."""
    if not queue:
        templates = clean_templates(after) if moved else restore_templates(before, after)
        return join_patches([*remove_queue_from_workload(after.metadata)], [*templates])
    steps = join_patches(
        [*patch_queue_on_workload(after.metadata, queue, came=came)], _spec_queue(kind, after, queue)
    )
    if not moved and not templates_touched(before, after):
        return steps
    if _is_owned(kind, before):
        return join_patches(steps, [*restore_templates(before, after)])
    by = naming_source(now, before=before)
    return join_patches(
        steps, [*patch_templates(after, queue, source=by, submitted=submitted_names(before, after))]
    )


def _is_owned(kind: WorkloadKind, obj: WorkloadObject) -> bool:
    return workload_facts(kind, obj, namespace="", namespace_queue="").owned


def _is_to_be_written(kind: WorkloadKind, obj: WorkloadObject, queue: str, *, owned: bool) -> bool:
    """Whether its templates are: not where its maker finds it again by them, as Deployments do and others'
    kinds like them, unless a user wrote another queue there in our name."""
    if kind.key != "replicasets" or controller_reference(obj.metadata.owner_references) is None:
        return True
    return not owned and recorded_queue(obj) not in {"", queue}


def _judged(
    kind: WorkloadKind, before: WorkloadObject, after: WorkloadObject, where: str, *, store: Store
) -> Found:
    """Its membership after an update, with the owners it had: naming another owner moves nobody."""
    told = workload_facts(kind, after, namespace=where, namespace_queue=store.queue_of_namespace(where))
    told = replace(told, templates=submitted_names(before, after), owned=_is_owned(kind, before))
    return workload_membership(told, rules=store.rules, group=store.queue_of_podgroup)


def _queue_of(found: Found) -> str | None:
    """Its queue, "" for none; None where two of its names differ."""
    if isinstance(found, QueueConflict):
        return None
    return (found.queue if found else "") or ""


def _added(before: WorkloadObject, after: WorkloadObject) -> str:
    """The admission that a former call for this very request wrote."""
    held = admission_request(after.metadata)
    return held if held != admission_request(before.metadata) else ""


def _spec_queue(kind: WorkloadKind, obj: WorkloadObject, queue: str) -> list[PatchStep]:
    """A `batch.volcano.sh` Job gives its PodGroup the queue of its spec."""
    if kind is not KINDS["jobs.batch.volcano.sh"] or obj.spec.queue == queue or not obj.spec.tasks:
        return []
    return [{"op": "add", "path": "/spec/queue", "value": queue}]


def _without_group(found: Found) -> tuple[str, ...]:
    if not isinstance(found, Membership):
        return ()
    return (truncate_warning(waiting_warning(Cause(kind=CauseKind.NO_PODGROUP, queue="", by=found.group))),)


def _disagreeing(found: QueueConflict) -> Answer:
    first, second = (
        f'{one.source} says "{printable(one.queue or "", limit=80)}"' for one in (found.first, found.second)
    )
    return deny(f"it is in two queues: {first}, {second}; name one queue", code=422)


def _not_moved(kind: WorkloadKind, held: str, *, owned: bool) -> Answer:
    way_out = "delete it and create it in the other queue"
    if owned:
        way_out = "change the workload that made it"
    return deny(
        f'metadata: the queue of a {kind.kind} cannot be changed (it is "{printable(held, limit=80)}"); '
        f"{way_out}",
        code=422,
    )


def _not_revived(kind: WorkloadKind, queue: str, why: str, *, selected: bool) -> Answer:
    if not selected:
        return deny(f"spec.replicas: a {kind.kind} that had no replicas is new work, and {why}")
    _, _, way_out = why.rpartition("; ")  # each refusal ends with it (`queues.messages`)
    return deny(
        f'spec.replicas: queue "{queue}" takes no new work, and a {kind.kind} that had no replicas is new; '
        f"{way_out}"
    )
