"""Why an object waits: its queue, what stops the queue, since when, and the way out.

Promises
- `explain` is a function of values: from what was read of the cluster to an `Explanation`.
- The outcome is the first that holds:

================  ==========================================================================
outcome           when
================  ==========================================================================
Finished          it has ended
NotMember         it is in no queue
Runs              it is on a node
Stopped           a queue of its chain stops it or does not select its namespace; its PodGroup is missing;
                  its queue or one above may not be read, and the status of its queue, or what Sluice has
                  written on the object, says that it is stopped
Unread            its queue may not be read; or one above, and the status of its queue is of another spec
WaitsForOther     a pod whose queue schedules, and that is on no node
TakesNothingNew   its queue schedules and takes nothing new, and more of it would be (`queues.why.new_work`)
Free              nothing stops it
================  ==========================================================================

- The answer has two halves: whether what is there may start, and whether anything new would be taken.
- What could not be read is reported as unread, never guessed. Where a queue above may not be read, the status
  of its queue says whether it schedules, unless a queue that was read stops it.
- That no replica of Sluice answers is the first line, unless a queue stops the object (`queues.why.outages`).
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from queues.causes import StartReason
from queues.quota.lack import LackKind
from queues.quota.standing import standings
from queues.quota.usage import Usage
from queues.states import State
from queues.status.closing import closing_text
from queues.status.stop_status import Acknowledgement
from queues.text import join_limited, printable, quoted
from queues.why.case import Case, case_of
from queues.why.explanation import (
    POD,
    ExplainedMembership,
    Explanation,
    Fate,
    ObjectRef,
    ObservedObject,
    ObservedQueues,
    QueueQuota,
    QueueRecord,
    Room,
)
from queues.why.gang import gang_text
from queues.why.notes import MESSAGE_LIMIT, notes
from queues.why.outages import outage_text
from queues.why.stop_causes import chain_members

#: Where nothing of its chain lacks room for a pod, and it says that it waits for one of these.
_LEADER_SAYS = {
    LackKind.CLAIM.value: "a pod that has waited longer has a claim on what is left",
    LackKind.GIVEN_BACK.value: "pods are being evicted to give it what its queue deserves",
    LackKind.OVERCOMMIT.value: "as much waits for nodes already as plugin overcommit of its policy allows",
    LackKind.TURN.value: (
        "its gang got too few nodes before, and of those that share a capability one is tried at a time"
    ),
    LackKind.BOOK.value: "the server releases nothing, since it cannot write its book of releases",
}


def explain(
    subject: ObservedObject, membership: ExplainedMembership | None, *, queues: ObservedQueues | None
) -> Explanation:
    """The answer. `queues` is None where they may not be read."""
    case = case_of(subject, membership, queues)
    outcome = _outcome(case)
    record = _stopped_record(case) if outcome is Fate.STOPPED else None
    is_acknowledged = record.acknowledgement is Acknowledgement.ACKNOWLEDGED if record is not None else None
    return Explanation(
        object=subject.ref,
        outcome=outcome,
        summary=_summary(case, outcome),
        owners=subject.owners,
        group=subject.group,
        membership=membership,
        chain=tuple(chain_members(case.verdict.queue, queues)) if case.verdict and queues else (),
        stops=case.stops,
        acknowledged=is_acknowledged,
        acknowledged_since=record.acknowledged_since if record is not None and is_acknowledged else "",
        refusal=case.refusal,
        closing=_closing(case),
        notes=tuple(notes(case, outcome)),
        room=subject.room if outcome in {Fate.WAITS_FOR_OTHER, Fate.FREE} else None,
        gang=subject.gang if outcome is not Fate.FINISHED else None,
        quota=_quota(case),
        contact=_contact(case, outcome),
    )


def _contact(case: Case, outcome: Fate) -> str:
    """Whom to ask: about the first queue that stops it or takes nothing new, else about the one that lacks
    room, else about its own. "" where neither that queue nor one above it has a contact.
    """
    if outcome in {Fate.FINISHED, Fate.NOT_MEMBER} or case.queues is None or case.verdict is None:
        return ""
    if case.reported_stop or case.reported_refusal:  # they name whom to ask
        return ""
    stop = next(iter(case.stops), case.refusal)
    if stop is not None:
        return stop.contact
    room = case.subject.room
    if room is not None and (room.queue or room.unread_queue):
        return room.contact
    return case.queues.tree.contact_of(case.verdict.queue)


#: Names of pods that a line shows.
_NAMES = 3


def of_owner(
    of_pod: Explanation, owner: ObjectRef, *, pods: Sequence[str], waiting: Sequence[str]
) -> Explanation:
    """The answer for an object of a kind that is not known, whose pods these are, from that of one pod."""
    number = "1 pod" if len(pods) == 1 else f"{len(pods)} pods"
    state = "1 of them waits" if len(waiting) == 1 else f"{len(waiting)} of them wait"
    asked = printable(of_pod.object.name)
    where = f" -n {printable(owner.namespace)}"
    names = join_limited([printable(name) for name in waiting or pods], limit=_NAMES)
    return msgspec.structs.replace(
        of_pod,
        object=owner,
        summary=f"{owner} has {number}, {state}: {of_pod.summary}",
        notes=(
            f"sluice does not know this kind, and goes by its pods: {names}",
            f"what follows is of one of them; ask about a pod: kubectl queue why pod/{asked}{where}",
            *of_pod.notes,
        ),
    )


def _stopped_record(case: Case) -> QueueRecord | None:
    """Of its queue, where that was read and does not schedule."""
    if case.verdict is None or case.queues is None or case.schedules or case.verdict.broken:
        return None
    record = case.queues.records.get(case.verdict.queue)
    return record if record is not None and record.acknowledgement is not None else None


def _outcome(case: Case) -> Fate:
    unread, is_pod = case.is_unread and not case.schedules, case.subject.ref.kind == POD
    is_told = case.said or case.reported_stop or case.is_stopped_by_quote
    refusal = case.refusal or case.reported_refusal
    for outcome, holds in (
        (Fate.FINISHED, case.subject.finished),
        (Fate.NOT_MEMBER, case.membership is None),
        (Fate.RUNS, case.subject.node),
        (Fate.STOPPED, case.stops or is_told),
        (Fate.UNREAD, unread and not case.waits_for_room and case.subject.room is None),
        (Fate.WAITS_FOR_OTHER, is_pod),
        (Fate.TAKES_NOTHING_NEW, refusal and (case.is_queue or case.new_work)),
    ):
        if holds:
            return outcome
    return Fate.FREE


def _summary(case: Case, outcome: Fate) -> str:
    thing, phase = str(case.subject.ref), case.subject.phase
    if case.is_queue and outcome in {Fate.STOPPED, Fate.TAKES_NOTHING_NEW, Fate.FREE}:
        return _of_a_queue(case)
    outage = outage_text((case.subject.message, case.subject.failure))
    if outage and outcome in {Fate.UNREAD, Fate.WAITS_FOR_OTHER, Fate.FREE}:
        return f"{thing} waits: {outage}"
    waits = f"waits, but not for its queue: {_schedules(case)}"
    if case.waits_for_room:
        used = _used(case.subject.room, case.queue)
        waits = f"waits for room: {used or f'{case.queue} has a quota, and is not stopped'}"
    elif case.quoted_reason is StartReason.NO_ACTION:
        waits = f"waits: its scheduling policy has no action for it; {case.queue} is not stopped"
    free = f"is held back by no queue: {_schedules(case)}"
    if case.subject.gang is not None:
        used = _used(case.subject.room, case.queue)
        free = f"is not stopped, and {gang_text(case.subject.gang)}{f': {used}' if used else ''}"
    elif case.subject.room is not None:
        free = f"is not stopped, and {_pods_wait(case.subject.room, case.queue)}"
    is_waiting = case.subject.room is not None or case.subject.gang is not None
    words = {
        Fate.FINISHED: "has finished" + (f" ({printable(phase)})" if phase else ""),
        Fate.NOT_MEMBER: "is of no queue: none holds it back",
        Fate.RUNS: f"is on node {printable(case.subject.node)}",
        Fate.STOPPED: f"waits: {_stop_of(case)}",
        Fate.UNREAD: _unread(case),
        Fate.WAITS_FOR_OTHER: waits,
        Fate.TAKES_NOTHING_NEW: _takes_nothing_new(case),
        Fate.FREE: free + (" and takes new work" if case.takes_new_work and not is_waiting else ""),
    }
    return f"{thing} {words[outcome]}"


def _schedules(case: Case) -> str:
    """That its queue schedules, and how that is known."""
    return (
        f"{case.queue} schedules its pods"
        if not case.unread
        else f"by its status {case.queue} schedules its pods"
    )


def _unread(case: Case) -> str:
    """What may not be read, so that it is not known whether it is stopped."""
    if not case.unread:
        return f"is of {case.queue}, which you may not read"
    above = f"queue {quoted(case.unread)} above it, which you may not read, is not known"
    if case.is_queue:
        return f"is not stopped itself; {above}"
    return f"is of {case.queue}, which is not stopped itself; {above}"


def _pods_wait(room: Room, queue: str) -> str:
    """Of a workload: how many of its pods wait for room, and what has none."""
    number = "1 pod of it waits" if room.pods == 1 else f"{room.pods} pods of it wait"
    used = _used(room, queue)
    return f"{number} for room" + (f": {used}" if used else " in a quota")


def _used(room: Room | None, its_queue: str) -> str:
    """What is used up, or what else the pod waits for; "" where that is another rule, or not known.
    `its_queue`: as it stands in a sentence.
    """
    if room is not None and room.said:
        return f"{its_queue} {'never has' if room.never else 'has no'} room: {printable(room.said)}"
    if room is not None and room.gang:
        is_gate = room.kind == LackKind.GATE.value
        return printable(room.gang) if is_gate else f"its PodGroup starts as a whole; {printable(room.gang)}"
    if room is not None and room.has_room:
        return _LEADER_SAYS.get(room.kind, "")
    if room is None or room.limit is None or room.kind != LackKind.CAPABILITY.value:
        return ""
    queue, resource = f"queue {quoted(room.queue)}", printable(room.resource)
    if room.never:
        return f"{queue} never has {resource} {room.requested}, its capability is {room.limit}"
    used = f"{queue} uses {resource} {room.used} of {room.limit}"
    return f"{used}, and {room.together} pods start together" if room.together else used


def _stop_of(case: Case) -> str:
    """What stops the object: by the queues that were read, else in the words that are on the object."""
    if case.stops:
        return case.stops[0].text
    said = case.reported_stop or case.said
    return printable(said, limit=MESSAGE_LIMIT) or f"{case.queue} does not schedule it"


def _takes_nothing_new(case: Case) -> str:
    """Both halves of the answer, of what has more than it has now as new work."""
    why = case.refusal.text if case.refusal else printable(case.reported_refusal, limit=MESSAGE_LIMIT)
    return f"may start what is there, but {case.new_work} are refused: {why}"


def _of_a_queue(case: Case) -> str:
    texts = [stop.text for stop in (*case.stops[:1], *filter(None, [case.refusal]))]
    if texts:
        return texts[0]
    reported = case.reported_stop or case.reported_refusal
    if reported:
        return printable(reported, limit=MESSAGE_LIMIT)
    return _schedules(case) + (" and takes new work" if case.takes_new_work else "")


def _quota(case: Case) -> QueueQuota | None:
    """How a queue that is asked about stands against its quota; None where its status does not say."""
    if not case.is_queue or case.verdict is None or case.queues is None:
        return None
    record = case.queues.record(case.verdict.queue)
    if record.used is None or case.verdict.queue not in case.queues.tree:
        return None
    chain = case.queues.tree.chain(case.verdict.queue).queues
    deserved = Usage(case.queues.tree).deserved.of(case.verdict.queue)
    found = standings(
        chain,
        used=record.used,
        deserved=deserved,
        force_deleted=record.force_deleted,
        kept_for_gangs=record.kept_for_gangs,
        beside=record.beside,
    )
    return QueueQuota(
        waiting=record.waiting or 0,
        resources={each.resource: each.texts() for each in found},
        not_enforced=record.not_enforced,
    )


def _closing(case: Case) -> str:
    """What keeps a Closing queue from Closed; "" where the controller has not said so."""
    if case.verdict is None or case.queues is None or case.verdict.state is not State.CLOSING:
        return ""
    closing = case.queues.record(case.verdict.queue).closing
    return closing_text(closing) if closing is not None and closing.name else ""
