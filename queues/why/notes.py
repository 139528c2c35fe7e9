"""What else is worth knowing of an object that waits: the lines below the answer."""

from __future__ import annotations

from collections.abc import Iterator

from queues import well_known
from queues.causes import Cause, CauseKind, StartReason
from queues.membership import valid_name
from queues.messages import recreation_command
from queues.similar_names import did_you_mean
from queues.states import ParkedPods
from queues.status.stop_status import Acknowledgement
from queues.text import printable, quoted
from queues.tree import Chain
from queues.verdict import Verdict
from queues.why.case import Case, is_outdated
from queues.why.explanation import DEFAULT_SCHEDULER, POD, QUEUE, Fate, ObservedObject, QueueRecord
from queues.why.queue_moves import move_notes

#: Characters of other components' messages that are shown.
MESSAGE_LIMIT = 1000
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
#: What its queue, which may not be read, is the reason of.
_OF_ITS_QUEUE = frozenset({Fate.STOPPED, Fate.WAITS_FOR_OTHER})


def notes(case: Case, outcome: Fate) -> Iterator[str]:
    """What else is worth knowing, the most important first."""
    if case.subject.deleting:
        yield "it is being deleted"
    is_first_line = case.subject.idle_reason == case.said and outcome is Fate.STOPPED
    if case.subject.idle_reason and outcome is not Fate.FINISHED and not is_first_line:
        yield case.subject.idle_reason
    if case.subject.unmanaged and outcome is not Fate.FINISHED:
        yield case.subject.unmanaged
    if outcome is not Fate.FINISHED:
        yield from case.subject.keys
    if case.subject.untaken and outcome is Fate.FREE:
        yield f"a pod of it waits: {printable(case.subject.untaken, limit=MESSAGE_LIMIT)}"
    yield from _about_the_object(case, outcome)
    if outcome in _OF_ITS_QUEUE and case.verdict is None and case.queue_is_named:
        whose = "kube-scheduler says of it" if outcome is Fate.STOPPED and not case.said else "it says itself"
        yield f"you may not read {case.queue}: this is what {whose}"
    if case.unread:
        yield from _of_the_status(case, outcome)
    if outcome in {Fate.STOPPED, Fate.UNREAD} and case.subject.similar:
        yield did_you_mean(case.subject.similar)
    if case.stops and outcome is Fate.STOPPED and case.membership is not None:
        yield from move_notes(case.subject, case.membership, case.stops)
    if outcome is not Fate.FINISHED:
        yield from _about_the_queue(case)


def _of_the_status(case: Case, outcome: Fate) -> Iterator[str]:
    """Where what the answer says of its queue comes from: a queue above may not be read."""
    if outcome is Fate.STOPPED and not case.reported_stop:
        whose = "what it says itself" if case.said else "what kube-scheduler says of it"
    elif outcome in {Fate.STOPPED, Fate.WAITS_FOR_OTHER, Fate.TAKES_NOTHING_NEW, Fate.FREE}:
        whose = f"what the status of {case.queue} says"
        if case.quoted_reason is StartReason.NO_ROOM or case.subject.room is not None:
            whose = "what it says itself" if case.subject.ref.kind == POD else "what its pods say"
    else:
        return
    yield f"you may not read queue {quoted(case.unread)} above it: this is {whose}"


def _about_the_object(case: Case, outcome: Fate) -> Iterator[str]:
    is_pod = case.subject.ref.kind == POD
    if outcome is Fate.RUNS and case.verdict is not None:
        yield from _running(case.verdict)
        if case.reported_stop:
            yield f"its queue does not schedule now: {printable(case.reported_stop, limit=MESSAGE_LIMIT)}"
        if case.start.reason is StartReason.NOT_SELECTED:
            yield f"nothing new of its namespace is scheduled: {case.stops[0].text}"
    elif outcome is Fate.STOPPED and not case.stops:
        if not case.said and case.subject.message:
            yield _says(case.subject)
    elif outcome is Fate.STOPPED and is_pod and not case.subject.calls_extender:
        yield _without_marker(case.subject)
    elif outcome is Fate.STOPPED and is_pod and _is_parked_under_recreate(case):
        yield from _parked_under_recreate(case)
    elif outcome in {Fate.WAITS_FOR_OTHER, Fate.UNREAD, Fate.NOT_MEMBER, Fate.FREE} and not case.subject.node:
        yield from _waiting(case)
    if case.subject.failure and outcome in {Fate.FREE, Fate.UNREAD}:
        yield f"its latest pod was not created: {printable(case.subject.failure, limit=MESSAGE_LIMIT)}"
    if outcome is Fate.FREE and not (is_pod or case.is_queue or case.subject.room is not None):
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


def _is_parked_under_recreate(case: Case) -> bool:
    """Whether the pod waits without a gate in a stopped queue whose `spec.parked` is Recreate."""
    if case.subject.gates or case.queues is None or case.verdict is None:
        return False
    by_its_queue = case.stops[0].kind in {CauseKind.SUSPENDED, CauseKind.STOPPED} and case.refusal is None
    return by_its_queue and case.queues.tree.chain(case.verdict.queue).parked is ParkedPods.RECREATE


def _parked_under_recreate(case: Case) -> Iterator[str]:
    """What becomes of the pod; the conditions are those of `controller.pods.recreation`."""
    subject = case.subject
    refused = case.quoted_reason is not None
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


def _waiting(case: Case) -> Iterator[str]:
    """What other components say of a pod that waits."""
    subject = case.subject
    others = [printable(gate) for gate in subject.gates if gate not in well_known.OWN_GATES]
    own = not well_known.OWN_GATES.isdisjoint(subject.gates)
    of_quota = case.waits_for_room
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


def _says(subject: ObservedObject) -> str:
    """What the object says of why it waits, with who wrote that, as far as that is known."""
    said = printable(subject.message, limit=MESSAGE_LIMIT)
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
        f"its scheduler, {quoted(subject.scheduler)}, has said nothing of it: if no scheduler of that "
        "name runs, the pod waits for ever"
    )


def _missing_entry(resource: str, verb: str) -> str:
    return (
        f"its scheduler has no extender entry that ignores {resource}: add the one with {verb} of "
        "manifests/scheduler/scheduler-config.yaml to its configuration, and restart it"
    )


def _about_the_queue(case: Case) -> Iterator[str]:
    if case.verdict is None or case.queues is None or case.verdict.queue not in case.queues.tree:
        return
    chain = case.queues.tree.chain(case.verdict.queue)
    if not case.is_queue:
        yield from _about_new_work(case, case.verdict)
    if case.subject.bound:
        yield f"it is bound to {case.queue}: only that queue and those below it may be named in it"
    if not case.is_queue and case.subject.namespace_labels is None and _asks_for_labels(chain):
        yield "the labels of its namespace could not be read; whether its queue selects it is not known"
    record = case.queues.record(case.verdict.queue)
    if case.is_queue and case.verdict.stop is not None and record.gated + record.ungated:
        yield from _parked_pods(case.verdict.stop, record, chain=chain)
    yield from _about_the_acknowledgement(case, record)


def _about_new_work(case: Case, verdict: Verdict) -> Iterator[str]:
    """Whether its queue takes anything new, where the summary does not say it."""
    if verdict.broken or (verdict.stop is None and case.refusal and case.new_work):
        return
    if case.refusal:
        goes_on = "; what it had taken before is still scheduled" if verdict.schedules else ""
        yield f"its queue takes nothing new{goes_on}"
    elif case.reported_refusal and case.subject.ref.kind != QUEUE:
        yield f"its queue takes nothing new: {printable(case.reported_refusal, limit=MESSAGE_LIMIT)}"
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


def _about_the_acknowledgement(case: Case, record: QueueRecord) -> Iterator[str]:
    is_stopped = case.schedules is False
    if is_stopped and record.acknowledgement is Acknowledgement.PENDING:
        waits = f"; it waits for {record.waiting_for}" if record.waiting_for else ""
        yield f"the stop of its queue is not acknowledged yet: some of its pods may still be bound{waits}"
    elif not record.observed or (is_stopped and record.acknowledgement is Acknowledgement.OUTDATED):
        yield "the controller has not acknowledged its queue as it is now; is it running?"


def _asks_for_labels(chain: Chain) -> bool:
    """Whether a selector is on the chain of its queue."""
    return any(queue.namespace_selector is not None for queue in chain.queues)
