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
                  its queue may not be read, and Sluice has written on the object that it is stopped
Unread            its queue may not be read
WaitsForOther     a pod whose queue schedules, and that is on no node
TakesNothingNew   its queue schedules and takes nothing new, and more of it would be (`queues.why.new_work`)
Free              nothing stops it
================  ==========================================================================

- The answer has two halves: whether what is there may start, and whether anything new would be taken.
- What could not be read is reported as unread, never guessed.
- That no replica of Sluice answers is the first line, unless a queue stops the object (`queues.why.outages`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from queues import well_known
from queues.causes import Cause, CauseKind, StartReason
from queues.membership import valid_name
from queues.messages import quoted_reason, recreation_command
from queues.similar_names import did_you_mean
from queues.snapshot import decision_for_namespace, decision_of
from queues.start_decision import MAY_START, StartDecision, start_decision
from queues.states import ParkedPods, State
from queues.status.closing import closing_text
from queues.status.stop_status import Acknowledgement
from queues.text import printable, quoted
from queues.tree import Chain
from queues.verdict import Verdict
from queues.why.explanation import (
    DEFAULT_SCHEDULER,
    POD,
    QUEUE,
    ExplainedMembership,
    Explanation,
    ObservedObject,
    ObservedQueues,
    Outcome,
    QueueRecord,
    Stop,
)
from queues.why.new_work import new_work
from queues.why.outages import outage_text
from queues.why.queue_moves import move_notes
from queues.why.stop_causes import (
    chain_members,
    explain_cause,
    explain_refusal,
    explain_stops,
)

#: Characters of other components' messages that are shown.
_MESSAGE_LIMIT = 1000
#: The field manager of what the server writes: its User-Agent (`cluster.api.client`).
_OURS = "sluice"
#: What kube-scheduler says of a pod that needs room where its extenders let it have no victims at all.
_NO_VICTIMS = "no candidate node for preemption"
#: What kube-scheduler says where its configuration has no entry that ignores the resource, and the verb of
#: the entry in manifests/scheduler/scheduler-config.yaml that does.
_ENTRIES = {
    f"Insufficient {well_known.MARKER}": "filterVerb",
    f"Insufficient {well_known.SCORED}": "prioritizeVerb",
}


class _Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the object and its queue."""

    subject: ObservedObject
    membership: ExplainedMembership | None
    queues: ObservedQueues | None
    verdict: Verdict | None
    start: StartDecision
    stops: tuple[Stop, ...]
    refusal: Stop | None

    @property
    def queue(self) -> str:
        """Its name, as it stands in a sentence."""
        return f"queue {quoted((self.membership and self.membership.queue) or '')}"

    @property
    def queue_is_named(self) -> bool:
        return bool(self.membership and self.membership.queue)

    @property
    def new_work(self) -> str:
        return new_work(self.subject) if self.membership is not None else ""

    @property
    def said(self) -> str:
        """What the object itself says, where its queue may not be read."""
        return self.subject.said if self.verdict is None and self.membership is not None else ""

    @property
    def is_stopped_by_quote(self) -> bool:
        """Whether kube-scheduler quotes that a queue that may not be read stops the object."""
        unread = self.verdict is None and self.membership is not None
        return unread and _quoted_reason(self) not in {None, StartReason.NO_ACTION}

    @property
    def is_queue(self) -> bool:
        return self.subject.ref.kind == QUEUE


def explain(
    subject: ObservedObject, membership: ExplainedMembership | None, *, queues: ObservedQueues | None
) -> Explanation:
    """The answer. `queues` is None where they may not be read."""
    case = _case(subject, membership, queues)
    outcome = _outcome(case)
    return Explanation(
        object=subject.ref,
        outcome=outcome,
        summary=_summary(case, outcome),
        owners=subject.owners,
        group=subject.group,
        membership=membership,
        chain=tuple(chain_members(case.verdict.queue, queues)) if case.verdict and queues else (),
        stops=case.stops,
        refusal=case.refusal,
        closing=_closing(case),
        notes=tuple(_notes(case, outcome)),
    )


def _case(
    subject: ObservedObject, membership: ExplainedMembership | None, queues: ObservedQueues | None
) -> _Case:
    queue = membership.queue if membership else None
    verdict = queues.verdict(queue) if queues and queue else None
    start = _start(subject, membership, verdict, queues)
    return _Case(
        subject=subject,
        membership=membership,
        queues=queues,
        verdict=verdict,
        start=start,
        stops=tuple(_stops(start, verdict, queues)),
        refusal=explain_refusal(verdict, queues=queues) if verdict and queues else None,
    )


def _start(
    subject: ObservedObject,
    membership: ExplainedMembership | None,
    verdict: Verdict | None,
    queues: ObservedQueues | None,
) -> StartDecision:
    """Whether a pod of the object may start, by the queues and labels that were read."""
    if membership is not None and membership.queue is None:
        return start_decision(None, podgroup=membership.group)
    if verdict is None or queues is None:
        return MAY_START
    chain = queues.tree.chain(verdict.queue) if verdict.queue in queues.tree else None
    decision = decision_of(verdict, chain=chain)
    if subject.namespace_labels is not None:
        namespace = subject.ref.namespace or subject.ref.name  # of a Namespace itself
        decision = decision_for_namespace(decision, namespace=namespace, labels=subject.namespace_labels)
    return start_decision(decision)


def _stops(start: StartDecision, verdict: Verdict | None, queues: ObservedQueues | None) -> Iterator[Stop]:
    """What stops the object, then what would stop it after that."""
    if isinstance(start.cause, Cause) and start.reason is not StartReason.QUEUE:
        yield explain_cause(start.cause, queues=queues)
    if verdict is not None and queues is not None:
        yield from explain_stops(verdict, queues=queues)


def _quoted_reason(case: _Case) -> StartReason | None:
    """For which reason filter refused the object, as kube-scheduler's words quote it."""
    if is_outdated(case.subject):
        return None
    queue = (case.membership and case.membership.queue) or ""
    return quoted_reason(case.subject.message, queue=queue, podgroup="")


def _outcome(case: _Case) -> Outcome:
    unread = case.verdict is None
    for outcome, holds in (
        (Outcome.FINISHED, case.subject.finished),
        (Outcome.NOT_MEMBER, case.membership is None),
        (Outcome.RUNS, case.subject.node),
        (Outcome.STOPPED, case.stops or case.said or case.is_stopped_by_quote),
        (Outcome.UNREAD, unread),
        (Outcome.WAITS_FOR_OTHER, case.subject.ref.kind == POD),
        (Outcome.TAKES_NOTHING_NEW, case.refusal and (case.is_queue or case.new_work)),
    ):
        if holds:
            return outcome
    return Outcome.FREE


def _summary(case: _Case, outcome: Outcome) -> str:
    thing, phase = str(case.subject.ref), case.subject.phase
    if case.is_queue and outcome in {Outcome.STOPPED, Outcome.TAKES_NOTHING_NEW, Outcome.FREE}:
        return _of_a_queue(case)
    outage = outage_text((case.subject.message, case.subject.failure))
    if outage and outcome in {Outcome.UNREAD, Outcome.WAITS_FOR_OTHER, Outcome.FREE}:
        return f"{thing} waits: {outage}"
    waits = f"waits, but not for its queue: {case.queue} schedules its pods"
    if well_known.QUOTA_GATE in case.subject.gates:
        waits = f"waits for room: {case.queue} has a quota, and is not stopped"
    elif _quoted_reason(case) is StartReason.NO_ACTION:
        waits = f"waits: its scheduling policy has no action for it; {case.queue} is not stopped"
    words = {
        Outcome.FINISHED: "has finished" + (f" ({printable(phase)})" if phase else ""),
        Outcome.NOT_MEMBER: "is of no queue: none holds it back",
        Outcome.RUNS: f"is on node {printable(case.subject.node)}",
        Outcome.STOPPED: f"waits: {_stop_of(case)}",
        Outcome.UNREAD: f"is of {case.queue}, which you may not read",
        Outcome.WAITS_FOR_OTHER: waits,
        Outcome.TAKES_NOTHING_NEW: _takes_nothing_new(case),
        Outcome.FREE: f"is held back by no queue: {case.queue} schedules its pods"
        + (" and takes new work" if case.new_work else ""),
    }
    return f"{thing} {words[outcome]}"


def _stop_of(case: _Case) -> str:
    """What stops the object: by the queues that were read, else in the words that are on the object."""
    if case.stops:
        return case.stops[0].text
    return printable(case.said, limit=_MESSAGE_LIMIT) or f"{case.queue} does not schedule it"


def _takes_nothing_new(case: _Case) -> str:
    """Both halves of the answer, of what has more than it has now as new work."""
    why = case.refusal.text if case.refusal else ""
    return f"may start what is there, but {case.new_work} are refused: {why}"


def _of_a_queue(case: _Case) -> str:
    texts = [stop.text for stop in (*case.stops[:1], *filter(None, [case.refusal]))]
    return texts[0] if texts else f"{case.subject.ref} schedules its pods and takes new work"


def _closing(case: _Case) -> str:
    """What keeps a Closing queue from Closed; "" where the controller has not said so."""
    if case.verdict is None or case.queues is None or case.verdict.state is not State.CLOSING:
        return ""
    closing = case.queues.record(case.verdict.queue).closing
    return closing_text(closing) if closing is not None and closing.name else ""


def _notes(case: _Case, outcome: Outcome) -> Iterator[str]:
    """What else is worth knowing."""
    if case.subject.deleting:
        yield "it is being deleted"
    if case.subject.idle_reason and outcome is not Outcome.FINISHED:
        yield case.subject.idle_reason
    if case.subject.unmanaged and outcome is not Outcome.FINISHED:
        yield case.subject.unmanaged
    yield from _about_the_object(case, outcome)
    if outcome is Outcome.STOPPED and case.verdict is None and case.queue_is_named:
        whose = "it says itself" if case.said else "kube-scheduler says of it"
        yield f"you may not read {case.queue}: this is what {whose}"
    if outcome is Outcome.STOPPED and case.subject.similar:
        yield did_you_mean(case.subject.similar)
    if case.stops and outcome is Outcome.STOPPED and case.membership is not None:
        yield from move_notes(case.subject, case.membership, case.stops)
    if outcome is not Outcome.FINISHED:
        yield from _about_the_queue(case)


def _about_the_object(case: _Case, outcome: Outcome) -> Iterator[str]:
    is_pod = case.subject.ref.kind == POD
    if outcome is Outcome.RUNS and case.verdict is not None:
        yield from _running(case.verdict)
        if case.start.reason is StartReason.NOT_SELECTED:
            yield f"nothing new of its namespace is scheduled: {case.stops[0].text}"
    elif outcome is Outcome.STOPPED and not case.stops:
        if not case.said:
            yield _says(case.subject)
    elif outcome is Outcome.STOPPED and is_pod and not case.subject.calls_extender:
        yield _without_marker(case.subject)
    elif outcome is Outcome.STOPPED and is_pod and _is_parked_under_recreate(case):
        yield from _parked_under_recreate(case)
    elif (
        outcome in {Outcome.WAITS_FOR_OTHER, Outcome.UNREAD, Outcome.NOT_MEMBER, Outcome.FREE}
        and not case.subject.node
    ):
        yield from _waiting(case)
    if case.subject.failure and outcome in {Outcome.FREE, Outcome.UNREAD}:
        yield f"its latest pod was not created: {printable(case.subject.failure, limit=_MESSAGE_LIMIT)}"
    if outcome is Outcome.FREE and not (is_pod or case.is_queue):
        yield "if a pod of it waits, ask about that: kubectl queue why pod/NAME"


def _running(verdict: Verdict) -> Iterator[str]:
    if verdict.drains:
        way = f"kubectl queue get {verdict.queue}" if valid_name(verdict.queue) else "kubectl queue get"
        yield f"its queue is drained: it is evicted as soon as its budgets allow; see: {way}"
    elif verdict.stop:
        yield "its queue does not schedule now; what runs goes on"


def _without_marker(subject: ObservedObject) -> str:
    gated = well_known.GATE in subject.gates
    by = "its gate and the bind guard alone stop it" if gated else "the bind guard alone stops it"
    if subject.scheduler == DEFAULT_SCHEDULER:
        return f"kube-scheduler does not ask about it, since it requests no {well_known.MARKER}: {by}"
    return (
        f"it requests no {well_known.MARKER}: unless its scheduler, {printable(subject.scheduler)}, "
        f"is the one that Sluice brings (setting scheduler_name), {by}"
    )


def _is_parked_under_recreate(case: _Case) -> bool:
    """Whether the pod waits without a gate in a stopped queue whose `spec.parked` is Recreate."""
    if case.subject.gates or case.queues is None or case.verdict is None:
        return False
    by_its_queue = case.stops[0].kind in {CauseKind.SUSPENDED, CauseKind.STOPPED} and case.refusal is None
    return by_its_queue and case.queues.tree.chain(case.verdict.queue).parked is ParkedPods.RECREATE


def _parked_under_recreate(case: _Case) -> Iterator[str]:
    """What becomes of the pod; the conditions are those of `controller.pods.recreation`."""
    subject = case.subject
    refused = _quoted_reason(case) is not None
    if not subject.owners:
        yield "it stays as it is, though spec.parked is Recreate: it has no controller that creates it again"
    elif subject.group is not None:
        yield "it stays as it is, though spec.parked is Recreate: it is of a PodGroup"
    elif refused:
        yield (
            "it was pending before the stop, and spec.parked is Recreate: if its controller is a ReplicaSet, "
            "StatefulSet or Job, that creates it again with the gate once the stop is acknowledged"
        )
    else:
        yield (
            "spec.parked is Recreate, but only a pod that fits on a node, and that its queue alone keeps "
            "from it, is created again with the gate: until then it stays as it is"
        )
    if subject.message and not refused and not is_outdated(subject):
        yield _says(subject)


def _waiting(case: _Case) -> Iterator[str]:
    """What other components say of a pod that waits."""
    subject = case.subject
    others = [printable(gate) for gate in subject.gates if gate not in well_known.OWN_GATES]
    own = not well_known.OWN_GATES.isdisjoint(subject.gates)
    of_quota = well_known.QUOTA_GATE in subject.gates
    if others:
        yield f"it is held by scheduling gates of others: {', '.join(others)}"
    if own and case.verdict is None and subject.message_by != _OURS:
        yield "Sluice has not said yet why it waits: it does within seconds, while its controller runs"
    if case.verdict and (not subject.message if of_quota else own):
        yield "its gate is still on; the controller takes it off, is it running?"
    elif subject.message and not is_outdated(subject):
        yield _says(subject)
        for words, verb in _ENTRIES.items():
            if words in subject.message:
                yield _missing_entry(words.partition(" ")[2], verb)
        if _NO_VICTIMS in subject.message and case.membership is not None:
            yield (
                "it may not evict the pods that kube-scheduler chose; whom its policy lets it evict says: "
                f"kubectl queue policy explain pod/{printable(subject.ref.name)} "
                f"-n {printable(subject.ref.namespace)}"
            )
    elif subject.ref.kind == POD and not others and well_known.GATE not in subject.gates:
        yield _unsaid(subject)


def is_outdated(subject: ObservedObject) -> bool:
    """Whether what a pod says is of the time when it had gates: its scheduler has not written since."""
    return subject.message_of_gate and not subject.gates


def _says(subject: ObservedObject) -> str:
    """What the object says of why it waits, with who wrote that, as far as that is known."""
    said = printable(subject.message, limit=_MESSAGE_LIMIT)
    if subject.ref.kind != POD or subject.gates or subject.message_by == _OURS:
        return f"it says: {said}"
    by = printable(subject.message_by)
    if not by:
        by = "kube-scheduler" if subject.scheduler == DEFAULT_SCHEDULER else "its condition"
    return f"{by} says: {said}"


def _unsaid(subject: ObservedObject) -> str:
    """That no scheduler has said a word of a pod that it could schedule."""
    if subject.scheduler == DEFAULT_SCHEDULER:
        return "kube-scheduler has said nothing of it yet"
    return (
        f"its scheduler, {quoted(subject.scheduler)}, has said nothing of it: if nobody runs a scheduler of "
        "that name, the pod waits for ever"
    )


def _missing_entry(resource: str, verb: str) -> str:
    return (
        f"its scheduler has no extender entry that ignores {resource}: add the one with {verb} of "
        "manifests/scheduler/scheduler-config.yaml to its configuration, and restart it"
    )


def _about_the_queue(case: _Case) -> Iterator[str]:
    if case.verdict is None or case.queues is None or case.verdict.queue not in case.queues.tree:
        return
    if not case.is_queue:
        yield from _about_new_work(case)
    if case.subject.bound:
        yield f"it is bound to {case.queue}: only that queue and those below it may be named in it"
    if not case.is_queue and case.subject.namespace_labels is None and _asks_for_labels(case):
        yield "the labels of its namespace could not be read; whether its queue selects it is not known"
    record = case.queues.record(case.verdict.queue)
    if case.is_queue and case.verdict.stop is not None and record.gated + record.ungated:
        yield from _parked_pods(case.verdict.stop, record, chain=case.queues.tree.chain(case.verdict.queue))
    yield from _about_the_acknowledgement(case.verdict, record)


def _about_new_work(case: _Case) -> Iterator[str]:
    """Whether its queue takes anything new, where the summary does not say it."""
    assert case.verdict is not None  # noqa: S101 - its caller has checked
    if case.verdict.broken or (case.verdict.stop is None and case.refusal and case.new_work):
        return
    if case.refusal:
        goes_on = "; what it had taken before is still scheduled" if case.verdict.schedules else ""
        yield f"its queue takes nothing new{goes_on}"
    elif case.stops and case.new_work:
        taken = "refused" if case.start.reason is StartReason.NOT_SELECTED else "taken, and wait"
        yield f"{case.new_work} are {taken}"


def _parked_pods(stop: Cause, record: QueueRecord, *, chain: Chain) -> Iterator[str]:
    """How the pods of a stopped queue itself wait, and what becomes of those without the gate."""
    counts = f"pods that wait: {record.gated} with the gate, {record.ungated} without it"
    if chain.parked is ParkedPods.RECREATE and record.ungated:
        counts += f"; {record.recreating} of these are to be created again with it (spec.parked is Recreate)"
    yield counts
    way_out = recreation_command(stop)
    if record.ungated and way_out and not chain.names_parked:
        yield (
            "kube-scheduler tries pods without the gate again and again; to have those of ReplicaSets, "
            f"StatefulSets and Jobs created again with it: {way_out}"
        )


def _about_the_acknowledgement(verdict: Verdict, record: QueueRecord) -> Iterator[str]:
    if not verdict.schedules and record.acknowledgement is Acknowledgement.PENDING:
        waits = f"; it waits for {record.waiting_for}" if record.waiting_for else ""
        yield f"the stop of its queue is not acknowledged yet: some of its pods may still be bound{waits}"
    elif not record.observed or (
        not verdict.schedules and record.acknowledgement is Acknowledgement.OUTDATED
    ):
        yield "the controller has not acknowledged its queue as it is now; is it running?"


def _asks_for_labels(case: _Case) -> bool:
    """Whether a selector is on the chain of its queue."""
    assert case.queues is not None and case.verdict is not None  # noqa: S101 - its caller has checked
    chain = case.queues.tree.chain(case.verdict.queue).queues
    return any(queue.namespace_selector is not None for queue in chain)
