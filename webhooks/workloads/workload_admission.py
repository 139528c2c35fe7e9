"""The mutating webhook for workloads, on CREATE and UPDATE.

A call goes decode (`webhooks.review`), membership (`queues.membership`), acceptance (`webhooks.acceptance`),
patch (`webhooks.workloads.workload_patch`), encode (`webhooks.review`), in this order.

On CREATE:

==========================================  ============================================================
the queue of the workload                   what happens
==========================================  ============================================================
none                                        our own keys are removed
two of its names differ                     denied
accepts                                     written on the workload and in its templates; a warning where
                                            the queue does not schedule
does not exist                              the same, with a warning
does not accept                             denied, unless accepted work makes it
does not select the namespace               denied, unless accepted work makes it
another than `default`, which stands in     the same as above; a warning says that both exist
`spec.queue` of a `batch.volcano.sh` Job
is that of a PodGroup that does not exist   a warning, and an empty label `sluice.dev/queue`; its pods are
                                            answered when the PodGroup comes
==========================================  ============================================================

On UPDATE:

- It is a submission again if the workload comes to another queue, or wants replicas where it wanted none.
- It comes to another queue only if what it says of itself does. Otherwise what was written down is the queue,
  whatever its namespace or PodGroup says now.
- More replicas are denied in a queue that takes no new work; in one that does not schedule they bring a
  warning.
- A workload that is being deleted is admitted as it is, and so is what controllers do to what they made.
- Where it comes to request more than its queue ever allows, there is a warning (`webhooks.never_fits`), as on
  CREATE.
- Users can neither set nor change annotation `sluice.dev/suspended`, the mark of what a drain suspended or
  brought to zero replicas. What a drain keeps at zero has the replicas that the mark records.

A template is written to on CREATE. On UPDATE it is written to only where the queue changes or what was
written is touched: a template that changes makes a Deployment replace its pods. The template of a ReplicaSet
that another workload made is never written to, except to put back what was there: the Deployment finds its
ReplicaSet by the template. Only controllers create what has an owner: a user's owner reference is ignored.

A workload with annotation `scheduling.volcano.sh/group-min-member` makes a gang of its pods
(`queues.workload_gangs`): its template says so, from its creation on.

Where a template does not name the queue itself, the webhook adds the name
(`scheduling.volcano.sh/queue-name`, with `sluice.dev/queue-from`). Its pods are then in that queue, whatever
is known of their owner by then. If the workload itself names a PodGroup, the webhook adds that name instead
(`scheduling.k8s.io/group-name`), and its pods are in that PodGroup.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec.structs import replace

from cluster.cache.store import Store
from cluster.exceptions import Unreadable
from cluster.inflight.admissions import admission_request
from cluster.objects import WorkloadObject
from queues.causes import no_podgroup
from queues.membership import (
    GROUP_ANNOTATION,
    Membership,
    QueueConflict,
    names_a_queue,
    valid_name,
    without_webhook_names,
    workload_membership,
)
from queues.messages import (
    default_queue_warning,
    truncate_warning,
    two_names_warning,
    waiting_warning,
)
from queues.queue import DEFAULT
from queues.text import printable, quoted
from queues.workload_gangs import asked_gang
from queues.workload_kinds import WorkloadKind, find_kind
from queues.world.members import controller_reference
from queues.world.workloads import (
    is_live,
    pod_templates,
    recorded_queue,
    template_names,
    wanted_replicas,
    workload_facts,
)
from webhooks.acceptance import (
    Acceptance,
    Submission,
    accept,
    deny_bad_name,
    deny_unknown_namespace,
)
from webhooks.json_patch import PatchStep, join_patches
from webhooks.never_fits import workload_warnings
from webhooks.review import ALLOWED, FORBIDDEN, ReviewAnswer, ReviewRequest, decode_object, deny
from webhooks.schedulers import scheduler_warnings
from webhooks.settings import AdmissionSettings
from webhooks.workloads.gangs import gang_warnings
from webhooks.workloads.scaling import answer_growth, deny_scale_up
from webhooks.workloads.workload_patch import (
    named_podgroup,
    naming_source,
    protect_suspend_mark,
    remove_queue,
    remove_queue_from_templates,
    restore_templates,
    set_queue,
    set_queue_in_templates,
    set_spec_queue,
    submitted_names,
    templates_touched,
)

#: For a template that names a queue itself: the webhook leaves it as it is.
PODGROUP_LEFT_OUT = f"{GROUP_ANNOTATION} has no effect on a pod template that names a queue: write it there"
#: For an edit of the PodGroup of a workload whose pod template cannot be changed.
LATE_PODGROUP = f"{GROUP_ANNOTATION} is read when this is created: its pods stay as they are"

WorkloadMembership = Membership | QueueConflict | None

_workloads = msgspec.json.Decoder(WorkloadObject)


def mutate(request: ReviewRequest, *, store: Store, settings: AdmissionSettings) -> ReviewAnswer:
    """The answer to the mutating webhook on CREATE and UPDATE."""
    kind = find_kind(request.resource.group, request.resource.resource)
    if kind is None:
        raise Unreadable(f"request.resource: {printable(request.resource.resource, limit=80)} is no workload")
    after = decode_object(request.object, _workloads)
    before = None
    if request.operation != "CREATE":
        before = decode_object(request.old_object, _workloads, where="oldObject")
    mark: list[PatchStep] = []
    if request.user_info.username != settings.own_user:
        after, mark = protect_suspend_mark(kind, before, after)
    if before is None:
        answer = _create(kind, after, request, store=store, settings=settings)
    else:
        answer = _update(kind, before, after, request, store=store, settings=settings)
    if not answer.allowed:
        return answer
    names = (
        ()
        if request.sub_resource or settings.is_controller(request.user_info.username)
        else _two_names_warnings(kind, before, after, request.namespace, store=store)
    )
    return replace(answer, patch=join_patches(mark, answer.patch), warnings=(*answer.warnings, *names))


def _two_names_warnings(
    kind: WorkloadKind, before: WorkloadObject | None, after: WorkloadObject, namespace: str, *, store: Store
) -> tuple[str, ...]:
    """For the first label and annotation of one object, or template, that name two queues. Of an edit, where
    it brings them.
    """

    def found(obj: WorkloadObject) -> str:
        facts = workload_facts(kind, obj, namespace=namespace, namespace_queue="")
        places = (facts.own_metadata, *facts.job_templates, *map(without_webhook_names, facts.templates))
        names = (store.memberships.overruled_name(each, namespace=namespace) for each in places)
        return next((two_names_warning(each) for each in names if each is not None), "")

    warning = found(after)
    return (warning,) if warning and (before is None or warning != found(before)) else ()


def _create(
    kind: WorkloadKind,
    obj: WorkloadObject,
    request: ReviewRequest,
    *,
    store: Store,
    settings: AdmissionSettings,
) -> ReviewAnswer:
    membership = store.memberships.of_workload(kind, obj, namespace=request.namespace)
    by_controller = _has_owner(kind, obj) and settings.is_controller(request.user_info.username)
    if isinstance(membership, QueueConflict):
        return _deny_conflict(membership)
    if membership is None or membership.queue is None:
        return _create_without_queue(kind, obj, membership, request, store=store, by_controller=by_controller)
    if not valid_name(membership.queue):
        return deny_bad_name(membership.queue, where=membership.source)
    if by_controller and obj.spec.replicas == 0:
        # The next revision of accepted work. It is a submission when it grows.
        return ReviewAnswer(patch=tuple(set_queue(obj.metadata, membership.queue)))
    submission = Submission(
        queue=membership.queue,
        kind=kind.resource,
        references=obj.metadata.owner_references,
        podgroup=membership.podgroup,
        recorded_admission=admission_request(obj.metadata),
    )
    accepted = accept(submission, request, store=store, settings=settings)
    if isinstance(accepted, ReviewAnswer):
        return accepted
    return ReviewAnswer(
        patch=_create_patch(kind, obj, membership, accepted, by_controller=by_controller),
        warnings=()
        if by_controller
        else (
            *accepted.warnings,
            *_default_warnings(kind, obj, accepted.queue),
            *scheduler_warnings(obj, store=store, settings=settings),
            *_left_out_warnings(kind, obj),
            *gang_warnings(kind, obj, accepted.queue, request, store=store),
            *workload_warnings(obj, accepted.queue, request, store=store, settings=settings),
        ),
    )


def _default_warnings(kind: WorkloadKind, obj: WorkloadObject, queue: str) -> tuple[str, ...]:
    """For a Job whose definition, or user, has named `default`, and that is in another queue."""
    named_default = kind.queue_in_spec and obj.spec.queue == DEFAULT
    return (default_queue_warning(queue),) if named_default and queue != DEFAULT else ()


def _create_patch(
    kind: WorkloadKind,
    obj: WorkloadObject,
    membership: Membership,
    accepted: Acceptance,
    *,
    by_controller: bool,
) -> tuple[PatchStep, ...]:
    steps = join_patches(set_queue(obj.metadata, accepted.queue, admission=accepted.admission))
    if _may_write_templates(kind, obj, accepted.queue, by_controller=by_controller):
        source = naming_source(membership)
        gang = asked_gang(kind.key, obj.metadata.annotations or {})
        podgroup = named_podgroup(kind, obj)
        steps = join_patches(
            steps, set_queue_in_templates(obj, accepted.queue, source=source, gang=gang, podgroup=podgroup)
        )
    return join_patches(steps, set_spec_queue(kind, obj, accepted.queue))


def _create_without_queue(
    kind: WorkloadKind,
    obj: WorkloadObject,
    membership: Membership | None,
    request: ReviewRequest,
    *,
    store: Store,
    by_controller: bool,
) -> ReviewAnswer:
    """A workload of no queue, or of a PodGroup that does not exist."""
    if membership is None and not store.namespaces.is_known(request.namespace):
        return deny_unknown_namespace(request)
    templates: Iterable[PatchStep] = ()
    may_write = not by_controller or (membership is not None and not _has_owned_template(kind, obj))
    if may_write:
        templates = remove_queue_from_templates(obj, podgroup=named_podgroup(kind, obj))
    return ReviewAnswer(
        patch=join_patches(remove_queue(obj.metadata, waits=membership is not None), templates),
        warnings=_left_out_warnings(kind, obj) or _podgroup_warnings(membership),
    )


def _may_write_templates(kind: WorkloadKind, obj: WorkloadObject, queue: str, *, by_controller: bool) -> bool:
    """Whether its templates may be written to.

    Not those of a ReplicaSet that has an owner: a Deployment, or another project's kind like it, finds the
    ReplicaSet by its template. They may be where a user wrote another queue there in our name.
    """
    if not _has_owned_template(kind, obj):
        return True
    return not by_controller and recorded_queue(obj) not in {"", queue}


def _has_owned_template(kind: WorkloadKind, obj: WorkloadObject) -> bool:
    """Whether it is a ReplicaSet whose owner finds it by its template."""
    return kind.key == "replicasets" and controller_reference(obj.metadata.owner_references) is not None


def _update(
    kind: WorkloadKind,
    before: WorkloadObject,
    after: WorkloadObject,
    request: ReviewRequest,
    *,
    store: Store,
    settings: AdmissionSettings,
) -> ReviewAnswer:
    by_maker = _has_owner(kind, after) and settings.is_controller(request.user_info.username)
    if request.sub_resource or after.metadata.deletion_timestamp is not None or by_maker:
        return ALLOWED
    was = store.memberships.of_workload(kind, before, namespace=request.namespace)
    now = _membership_after(kind, before, after, request.namespace, store=store)
    revived = is_live(kind, after) and not is_live(kind, before)
    if isinstance(now, QueueConflict):
        if now != was or revived:
            return _deny_conflict(now)
        return ReviewAnswer(patch=tuple(restore_templates(before, after)))
    old_queue = recorded_queue(before) or _queue_name(was)
    queue = old_queue if now == was else _queue_name(now)
    moved = queue != old_queue
    if moved and (kind.immutable or _has_owner(kind, before)):
        return _deny_move(kind, old_queue, owned=_has_owner(kind, before))
    accepted: Acceptance | ReviewAnswer = ReviewAnswer(warnings=_podgroup_warnings(now) if moved else ())
    if queue and (moved or revived):
        recorded = _new_admission(before, after)
        submission = Submission(queue=queue, kind=kind.resource, recorded_admission=recorded)
        where = now.source if now else "metadata"
        accepted = _accept_update(
            kind, submission, request, store=store, settings=settings, moved=moved, where=where
        )
    elif queue and wanted_replicas(kind, after) > (has := wanted_replicas(kind, before)):
        accepted = answer_growth(kind, queue, request, store=store, settings=settings, has=has)
    if isinstance(accepted, ReviewAnswer) and not accepted.allowed:
        return accepted
    admission = accepted.admission if isinstance(accepted, Acceptance) else ""
    patch = _update_patch(kind, before, after, now, queue=queue, moved=moved, admission=admission)
    never = (
        workload_warnings(after, queue, request, store=store, settings=settings, before=(before, old_queue))
        if queue
        else ()
    )
    late = (
        (LATE_PODGROUP,)
        if kind.immutable and named_podgroup(kind, before) != named_podgroup(kind, after)
        else ()
    )
    return ReviewAnswer(patch=patch, warnings=(*accepted.warnings, *late, *never))


def _accept_update(
    kind: WorkloadKind,
    submission: Submission,
    request: ReviewRequest,
    *,
    store: Store,
    settings: AdmissionSettings,
    moved: bool,
    where: str,
) -> Acceptance | ReviewAnswer:
    """A workload that comes to the queue (`moved`), or that wants its first replicas there.

    `where`: what names the queue, for messages.
    """
    if not valid_name(submission.queue):
        return deny_bad_name(submission.queue, where=where)
    accepted = accept(submission, request, store=store, settings=settings)
    if moved or isinstance(accepted, Acceptance) or accepted.code != FORBIDDEN:
        return accepted
    decision = store.decisions.of_queue(submission.queue, namespace=request.namespace)
    if decision.undecided:
        decision = store.snapshot.decision(submission.queue)
    return accepted if decision.accepts else deny_scale_up(kind, decision, store=store)


def _update_patch(
    kind: WorkloadKind,
    before: WorkloadObject,
    after: WorkloadObject,
    membership: Membership | None,
    *,
    queue: str,
    moved: bool,
    admission: str = "",
) -> tuple[PatchStep, ...]:
    """`queue`: "" for no queue, or that of a PodGroup that does not exist."""
    submitted, podgroup = submitted_names(before, after), named_podgroup(kind, after)
    regrouped = not kind.immutable and podgroup != named_podgroup(kind, before)
    if not queue:
        templates = restore_templates(before, after)
        if moved or (regrouped and not _has_owner(kind, before)):
            templates = remove_queue_from_templates(after, podgroup=podgroup, submitted=submitted)
        return join_patches(remove_queue(after.metadata, waits=membership is not None), templates)
    steps = join_patches(
        set_queue(after.metadata, queue, admission=admission), set_spec_queue(kind, after, queue)
    )
    if not moved and not regrouped and not templates_touched(before, after):
        return steps
    if _has_owner(kind, before):
        return join_patches(steps, restore_templates(before, after))
    source = naming_source(membership, before=before)
    gang = asked_gang(kind.key, after.metadata.annotations or {})
    return join_patches(
        steps,
        set_queue_in_templates(
            after, queue, source=source, submitted=submitted, gang=gang, podgroup=podgroup
        ),
    )


def _membership_after(
    kind: WorkloadKind, before: WorkloadObject, after: WorkloadObject, namespace: str, *, store: Store
) -> WorkloadMembership:
    """The membership after an update, with the owner it had before: naming another owner moves nothing."""
    facts = workload_facts(
        kind, after, namespace=namespace, namespace_queue=store.namespaces.queue_of(namespace)
    )
    facts = replace(facts, templates=submitted_names(before, after), owned=_has_owner(kind, before))
    return workload_membership(facts, rules=store.membership_settings, podgroup=store.podgroups.queue_of)


def _has_owner(kind: WorkloadKind, obj: WorkloadObject) -> bool:
    return workload_facts(kind, obj, namespace="", namespace_queue="").owned


def _queue_name(membership: WorkloadMembership) -> str:
    """The queue; "" for none, for one that is not known yet, and where two names differ."""
    return membership.queue or "" if isinstance(membership, Membership) else ""


def _new_admission(before: WorkloadObject, after: WorkloadObject) -> str:
    """The admission that an earlier call for this very request wrote."""
    recorded = admission_request(after.metadata)
    return recorded if recorded != admission_request(before.metadata) else ""


def _podgroup_warnings(membership: Membership | None) -> tuple[str, ...]:
    """For a workload that names a PodGroup that does not exist."""
    if membership is None:
        return ()
    cause = no_podgroup(membership.podgroup)
    return (truncate_warning(waiting_warning(cause)),)


def _left_out_warnings(kind: WorkloadKind, obj: WorkloadObject) -> tuple[str, ...]:
    """For a workload that names a PodGroup, while a pod template names a queue and no PodGroup."""
    names = (without_webhook_names(template_names(template)) for _, template in pod_templates(obj))
    if not named_podgroup(kind, obj) or all(
        GROUP_ANNOTATION in each.annotations or not names_a_queue(each) for each in names
    ):
        return ()
    return (PODGROUP_LEFT_OUT,)


def _deny_conflict(conflict: QueueConflict) -> ReviewAnswer:
    first, second = (
        f"{membership.source} says {quoted(membership.queue or '', limit=80)}"
        for membership in (conflict.first, conflict.second)
    )
    return deny(f"it is in two queues: {first}, {second}; name one queue", code=422)


def _deny_move(kind: WorkloadKind, queue: str, *, owned: bool) -> ReviewAnswer:
    way_out = "delete it and create it in the other queue"
    if owned:
        way_out = "change the workload that made it"
    return deny(
        f"metadata: the queue of a {kind.kind} cannot be changed (it is {quoted(queue, limit=80)}); "
        f"{way_out}",
        code=422,
    )
