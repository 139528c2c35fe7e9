"""Whether a queue accepts what is submitted: the same for pods, workloads and PodGroups.

`accept` is the second half of each admission: decode, membership, acceptance, patch, encode.

Invariants
- The admission is recorded (`cluster.inflight.admissions`) before the snapshot of the queues is read. So a
  close that finds no admission open knows that nothing more is on its way. A dry run stores nothing and is
  not recorded.
- A namespace that the queue does not select brings nothing new to the queue. Pods of work that the queue had
  accepted are admitted, and wait. They do not keep the queue from Closed, so they are not recorded.
- A namespace may be so new that its labels are not known yet. Whatever the queue accepts is admitted from it,
  and waits until the labels are known: one file may hold a namespace and what goes into it.
- A namespace that is bound to its queue brings nothing new to a queue that is not below that
  (`queues.namespace_binding`). Only what controllers make for stored workloads counts as work of before: a
  PodGroup would let its user bring pods for ever.
- Only users that run controllers (`AdmissionSettings.controller_users`) create what has an owner. An owner
  reference that another user writes makes nothing accepted work.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cluster.cache.store import Store
from cluster.objects import OwnerReference
from queues import well_known
from queues.admission.accepted_work import WorkOwner, is_accepted_work
from queues.apimachinery.timestamps import parse_timestamp
from queues.causes import Cause, CauseKind
from queues.membership import name_fault
from queues.messages import NAME_RULE, refusal_text, truncate_warning
from queues.namespace_binding import binding_refusal, may_name
from queues.similar_names import did_you_mean
from queues.snapshot import QueueDecision
from queues.states import State
from queues.status.conditions import ACCEPTING
from queues.text import quoted
from queues.world.members import controller_reference
from queues.world.podgroups import is_live, queue_of
from webhooks.review import ReviewAnswer, ReviewRequest, deny
from webhooks.settings import AdmissionSettings


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What is submitted, and to which queue.

    `kind`: the plural of its kind, for messages. `podgroup`: the PodGroup that it names.
    `recorded_admission`: the `sluice.dev/admission` that it came with, where an earlier call for this request
    can have written that.
    """

    queue: str
    kind: str
    references: list[OwnerReference] | None = None
    podgroup: str = ""
    recorded_admission: str = ""


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """That the queue accepts a submission. `admission`: its value of `sluice.dev/admission`. `similar`: where
    it does not exist, the queues with names near its own.
    """

    decision: QueueDecision
    admission: str
    similar: tuple[str, ...] = ()

    @property
    def queue(self) -> str:
        return self.decision.queue

    @property
    def warnings(self) -> tuple[str, ...]:
        """What its user is told where it has to wait."""
        return tuple(filter(None, (self.decision.warning, similar_warning(self.similar))))


def accept(
    submission: Submission, request: ReviewRequest, *, store: Store, settings: AdmissionSettings
) -> Acceptance | ReviewAnswer:
    """The queue's acceptance, or the denial. An acceptance is recorded as an open admission."""
    if not request.dry_run:
        store.admissions.record(request.uid, submission.queue)
    refusal = deny_unbound(submission.queue, request, store=store)
    if refusal is not None:
        workload = msgspec.structs.replace(submission, podgroup="")
        if not _is_accepted_work(workload, request, store=store, settings=settings):
            store.admissions.withdraw(request.uid)
            return refusal
    decision = store.decisions.of_queue(submission.queue, namespace=request.namespace)
    if not (decision.selected or decision.undecided):
        store.admissions.withdraw(request.uid)
    for_all = store.snapshot.decision(submission.queue) if decision.undecided else decision
    if not (for_all.accepts or _is_accepted_work(submission, request, store=store, settings=settings)):
        store.admissions.withdraw(request.uid)
        return deny(refusal_message(for_all, kind=submission.kind, store=store))
    return Acceptance(
        decision=decision,
        admission=_admission_id(submission, request, store=store),
        similar=()
        if decision.stop is None or settings.is_controller(request.user_info.username)
        else similar_queues(decision.stop, store=store),
    )


def similar_queues(stop: Cause | None, *, store: Store) -> tuple[str, ...]:
    """The queues with a name near that of one that does not exist."""
    missing = stop is not None and stop.kind is CauseKind.NOT_FOUND
    return store.snapshot.similar_names(stop.queue) if stop is not None and missing else ()


def similar_warning(similar: tuple[str, ...]) -> str:
    return truncate_warning(did_you_mean(similar))


def _admission_id(submission: Submission, request: ReviewRequest, *, store: Store) -> str:
    """This request's UID, or the one that an earlier call for the same request wrote down.

    The API server may call a webhook again for one request. The earlier call's admission then stays: it is
    open, for the same queue.
    """
    earlier = submission.recorded_admission
    if earlier and earlier != request.uid and store.admissions.is_open(earlier, submission.queue):
        store.admissions.withdraw(request.uid)
        return earlier
    return request.uid


def refusal_message(decision: QueueDecision, *, kind: str, store: Store) -> str:
    """Why the queue accepts nothing new, with the way out."""
    assert decision.refusal is not None  # noqa: S101 - it does not accept
    live = store.live_members.below(decision.queue) > 0
    state = store.snapshot.verdict(decision.queue, live=live).state
    return refusal_text(decision.refusal, state=state, kind=kind)


def deny_bad_name(queue: str, *, where: str) -> ReviewAnswer:
    shown = quoted(queue, limit=80)
    return deny(f"{where}: {shown} is not a queue name: {name_fault(queue)}; {NAME_RULE}", code=422)


def deny_unbound(queue: str, request: ReviewRequest, *, store: Store, what: str = "") -> ReviewAnswer | None:
    """The denial of what is new in a queue that its namespace may not name; None where it may.

    `what`: how the message begins.
    """
    bound_to = store.namespaces.bound_to(request.namespace)
    if bound_to is None:
        return deny_unknown_namespace(request)
    if not bound_to or may_name(queue, bound_to=bound_to, tree=store.snapshot.tree):
        return None
    if queue == store.namespaces.queue_of(
        request.namespace
    ):  # it names none; an edit of the namespace is new
        return None
    return deny(what + binding_refusal(queue, bound_to=bound_to, namespace=request.namespace))


def deny_unknown_namespace(request: ReviewRequest) -> ReviewAnswer:
    """For what names no queue itself: its namespace may name one, and has not been read yet."""
    namespace = quoted(request.namespace, limit=80)
    return deny(f"namespace {namespace} is new and not known to sluice yet; try again", code=503)


def _is_accepted_work(
    submission: Submission, request: ReviewRequest, *, store: Store, settings: AdmissionSettings
) -> bool:
    """Whether it is part of work that the queue accepted before it stopped accepting."""
    queue = store.queues.get(submission.queue)
    condition = queue.status.condition(ACCEPTING) if queue else None
    turned_false = condition.last_transition_time if condition and condition.status == "False" else None
    since = parse_timestamp(turned_false) if turned_false else None
    closed = queue is not None and since is not None and queue.status.state == State.CLOSED
    return any(
        is_accepted_work(owner, queue=submission.queue, refusing_since=since, closed=closed)
        for owner in _owners(submission, request, store=store, settings=settings)
    )


def _owners(
    submission: Submission, request: ReviewRequest, *, store: Store, settings: AdmissionSettings
) -> Iterator[WorkOwner]:
    """The work that it is part of: its PodGroup, and the topmost workload above it."""
    namespace = request.namespace
    podgroup = store.podgroups.get(namespace, submission.podgroup) if submission.podgroup else None
    if podgroup is not None:
        yield WorkOwner(
            kind="PodGroup",
            name=submission.podgroup,
            queue=queue_of(podgroup),
            created=podgroup.metadata.created,
            live=is_live(podgroup),
            admitted=bool(podgroup.metadata.annotation(well_known.ADMISSION)),
        )
    user = request.user_info.username  # our own makes the PodGroups that workloads ask for
    if not (settings.is_controller(user) or user == settings.own_user):
        return
    workload = store.workloads.topmost(submission.references, namespace=namespace)
    reference = controller_reference(submission.references)
    if workload is None and reference is not None:  # it may lack its label: the next try finds it
        store.record_owner(kind=reference.kind, namespace=namespace, name=reference.name, uid=reference.uid)
    if workload is not None:
        yield WorkOwner(
            kind=workload.kind.kind,
            name=workload.name,
            queue=workload.queue,
            created=workload.created,
            live=workload.live or workload.kind.key == "daemonsets",
            admitted=workload.admitted,
        )
