"""What is known of an object that is asked about and of its queue, from which `explain` follows."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from queues import well_known
from queues.causes import Cause, StartReason
from queues.messages import quoted_reason
from queues.snapshot import decision_for_namespace, decision_of
from queues.start_decision import MAY_START, StartDecision, start_decision
from queues.text import quoted
from queues.verdict import Verdict
from queues.why.explanation import (
    POD,
    QUEUE,
    ExplainedMembership,
    ObservedObject,
    ObservedQueues,
    ReportedStatus,
    StopCause,
)
from queues.why.new_work import new_work
from queues.why.stop_causes import explain_cause, explain_refusal, explain_stops


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the object and its queue."""

    subject: ObservedObject
    membership: ExplainedMembership | None
    queues: ObservedQueues | None
    verdict: Verdict | None
    start: StartDecision
    stops: tuple[StopCause, ...]
    refusal: StopCause | None

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
    def unread(self) -> str:
        """The nearest queue of its chain that may not be read, where nothing that was read stops it; else "".
        Nothing is known of the queues above that one.
        """
        return self.queues.unread if self.queues is not None and not self.stops else ""

    @property
    def reported(self) -> ReportedStatus | None:
        """What the status of its queue says, where a queue above that may not be read."""
        if not self.unread or self.queues is None or self.verdict is None:
            return None
        return self.queues.record(self.verdict.queue).reported

    @property
    def reported_stop(self) -> str:
        """What stops its queue, as the status of that says; "" where a queue that was read stops it."""
        return self.reported.stop if self.reported is not None else ""

    @property
    def reported_refusal(self) -> str:
        """Why its queue accepts nothing new, as the status of that says."""
        return self.reported.refusal if self.reported is not None and self.refusal is None else ""

    @property
    def schedules(self) -> bool | None:
        """Whether its queue does; None where that is not known."""
        if self.reported is not None:
            return self.reported.schedules
        return self.verdict.schedules if self.verdict is not None else None

    @property
    def takes_new_work(self) -> bool:
        """Whether its queue is known to, and more of the object would be new work."""
        accepts = self.reported is None or self.reported.accepts is True
        return accepts and (self.is_queue or bool(self.new_work))

    @property
    def is_unread(self) -> bool:
        """Whether what may stop it could not be read: its queue, or one above that."""
        return self.membership is not None and (self.verdict is None or bool(self.unread))

    @property
    def said(self) -> str:
        """What the object itself says of a stop, where its queue or one above that may not be read."""
        return self.subject.said if self.is_unread and not self.waits_for_room else ""

    @property
    def waits_for_room(self) -> bool:
        """Whether a pod waits for room in a quota, if nothing stops it."""
        if self.subject.ref.kind != POD:
            return False
        if self.subject.room is not None or self.quoted_reason is StartReason.NO_ROOM:
            return True
        is_gated = well_known.QUOTA_GATE in self.subject.gates
        if self.is_unread:  # it has that gate, too, while its queue is stopped
            return is_gated and bool(self.schedules) and self.quoted_reason is None
        return is_gated

    @property
    def is_stopped_by_quote(self) -> bool:
        """Whether kube-scheduler quotes that its queue, not all of whose chain may be read, stops it."""
        others = {None, StartReason.NO_ACTION, StartReason.NO_ROOM}
        return self.is_unread and self.quoted_reason not in others

    @property
    def quoted_reason(self) -> StartReason | None:
        """For which reason filter refused the object, as kube-scheduler's words quote it."""
        if is_outdated(self.subject):
            return None
        queue = (self.membership and self.membership.queue) or ""
        return quoted_reason(self.subject.message, queue=queue, podgroup="")

    @property
    def is_queue(self) -> bool:
        return self.subject.ref.kind == QUEUE


def case_of(
    subject: ObservedObject, membership: ExplainedMembership | None, queues: ObservedQueues | None
) -> Case:
    """`queues` is None where they may not be read."""
    queue = membership.queue if membership else None
    verdict = queues.verdict(queue) if queues and queue else None
    start = _start(subject, membership, verdict, queues)
    return Case(
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


def _stops(
    start: StartDecision, verdict: Verdict | None, queues: ObservedQueues | None
) -> Iterator[StopCause]:
    """What stops the object, then what would stop it after that."""
    if isinstance(start.cause, Cause) and start.reason is not StartReason.QUEUE:
        yield explain_cause(start.cause, queues=queues)
    if verdict is not None and queues is not None:
        yield from explain_stops(verdict, queues=queues)


def is_outdated(subject: ObservedObject) -> bool:
    """Whether what a pod says is of the time when it had gates: its scheduler has not written since."""
    return subject.message_of_gate and not subject.gates
