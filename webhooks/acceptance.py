"""Whether a queue takes what is submitted: the same for pods, workloads and PodGroups.

Invariants
- The admission is recorded (`cluster.inflight.admissions`) before the board is read, so that a close which
  finds none open knows that nothing more is on its way; a dry run, which stores nothing, is not.
- A namespace that the queue does not select brings nothing new to it. What it brings of work that the queue
  had taken is taken, to wait; nobody waits for it to come, so it is not recorded.
- Of a namespace so new that its labels are not known everything is taken that the queue takes, to wait until
  they are: a file may hold a namespace and what goes into it.
- Only those who run controllers (`AdmissionSettings.controller_users`) make what is owned: an owner reference
  that a user writes makes nothing accepted work.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from cluster.cache.podgroups import is_live, queue_of
from cluster.cache.store import Store
from cluster.objects import OwnerReference
from queues import labels as names
from queues.admission.accepted_work import Owner, is_accepted_work
from queues.apimachinery.timestamps import parse_timestamp
from queues.messages import NAME_RULE, refusal_text
from queues.snapshot import QueueDecision
from queues.states import State
from queues.status.conditions import ACCEPTING
from queues.text import printable
from webhooks.review import Answer, Request, deny
from webhooks.settings import AdmissionSettings


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """What is submitted, to which queue. `kind`: its plural, for texts; `group`: the PodGroup it names."""

    queue: str
    kind: str
    references: list[OwnerReference] | None = None
    group: str = ""


def deny_bad_name(queue: str, *, where: str) -> Answer:
    return deny(f'{where}: "{printable(queue, limit=80)}" is not a queue name; {NAME_RULE}', code=422)


def deny_unknown_namespace(request: Request) -> Answer:
    """What names no queue itself may be of its namespace's, which we have not heard of yet."""
    told = printable(request.namespace, limit=80)
    return deny(f'namespace "{told}" is new and not known to sluice yet; try again', code=503)


def accept_submission(
    submission: Submission, request: Request, *, store: Store, terms: AdmissionSettings
) -> QueueDecision | Answer:
    """The queue's ruling if it takes the submission, else the refusal."""
    if not request.dry_run:
        store.admissions.record(request.uid, submission.queue)
    ruling = store.decision_for(submission.queue, namespace=request.namespace)
    asked = store.snapshot.decision(submission.queue) if ruling.undecided else ruling
    if not (ruling.selected or ruling.undecided):
        store.admissions.withdraw(request.uid)
    if asked.accepts or _accepted_work(submission, request, store=store, terms=terms):
        return ruling
    store.admissions.withdraw(request.uid)
    return deny(refusal_message(asked, kind=submission.kind, store=store))


def admission_id(request: Request, held: str, *, queue: str, store: Store) -> str:
    """The value of `sluice.dev/admission`, for what was just taken.

    `held` is the one that is there: while it is open for the same queue it is of a former call for the same
    request, and stays.
    """
    if held and held != request.uid and store.admissions.is_open(held, queue):
        store.admissions.withdraw(request.uid)  # it is known by the former call
        return held
    return request.uid


def refusal_message(ruling: QueueDecision, *, kind: str, store: Store) -> str:
    """Why the queue takes nothing new, with the way out."""
    assert ruling.refusal is not None  # noqa: S101 - it does not accept
    live = store.live_members_below(ruling.queue) > 0
    state = store.snapshot.verdict(ruling.queue, live=live).state
    return refusal_text(ruling.refusal, state=state, kind=kind)


def _accepted_work(
    submission: Submission, request: Request, *, store: Store, terms: AdmissionSettings
) -> bool:
    held = store.queues.get(submission.queue)
    condition = held.status.condition(ACCEPTING) if held else None
    written = condition.last_transition_time if condition and condition.status == "False" else None
    since = parse_timestamp(written) if written else None
    closed = held is not None and since is not None and held.status.state == State.CLOSED
    return any(
        is_accepted_work(owner, queue=submission.queue, refusing_since=since, closed=closed)
        for owner in _owners(submission, request, store=store, terms=terms)
    )


def _owners(
    submission: Submission, request: Request, *, store: Store, terms: AdmissionSettings
) -> Iterator[Owner]:
    """The work it is part of: its PodGroup, and the topmost workload above it."""
    where = request.namespace
    group = store.podgroups.get(where, submission.group) if submission.group else None
    if group is not None:
        yield Owner(
            kind="PodGroup",
            name=submission.group,
            queue=queue_of(group),
            created=group.metadata.created,
            live=is_live(group),
            admitted=bool(group.metadata.annotation(names.ADMISSION)),
        )
    top = store.workloads.topmost(submission.references, namespace=where)
    if top is not None and terms.is_controller(request.user_info.username):
        live = top.live or top.kind.key == "daemonsets"
        yield Owner(
            kind=top.kind.kind,
            name=top.name,
            queue=top.queue,
            created=top.created,
            live=live,
            admitted=top.admitted,
        )
