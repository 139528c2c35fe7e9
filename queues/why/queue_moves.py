"""How work comes to another queue than the one that it was made in: notes of `kubectl queue why`.

The queue of an object is written on it when it is made. So where a namespace, or a workload, named a wrong
queue, to correct the name moves nothing that is there already.

Promises
- Notes are for work whose queue does not exist, or that is of the queue that its namespace named before, or
  may have.
- A command names the topmost owner: what another workload made is not moved by itself.
- A queue that is not known stands as QUEUE in a command.
"""

from __future__ import annotations

from collections.abc import Iterator

from queues.causes import CauseKind
from queues.membership import VOLCANO_ANNOTATION, Source, valid_name
from queues.text import NAME_LIMIT, printable, quoted
from queues.why.explanation import (
    NAMESPACE,
    POD,
    QUEUE,
    ExplainedMembership,
    ObjectRef,
    ObservedObject,
    StopCause,
)
from queues.workload_kinds import KINDS, WorkloadKind

#: These replace no pod that waits when their template changes; a ReplicaSet replaces none at all.
_KEEPS_WAITING_PODS = frozenset({"StatefulSet", "ReplicaSet"})
_NOT_MOVED = frozenset({QUEUE, "PodGroup"})


def move_notes(
    subject: ObservedObject, membership: ExplainedMembership, stops: tuple[StopCause, ...]
) -> Iterator[str]:
    """What moves stopped work. `stops`: what stops its queue, not empty."""
    if subject.ref.kind in _NOT_MOVED or subject.group is not None:
        return
    named = subject.namespace_queue if membership.may_be_of_namespace else ""
    missing = stops[0].kind is CauseKind.NOT_FOUND
    other = named if named != membership.queue else ""
    if subject.ref.kind == NAMESPACE:
        if missing:
            command = _annotate("namespace", subject.ref.name, "", "QUEUE")
            yield f"if it names a wrong queue: {command}; that moves nothing that was made before"
        return
    if other:
        yield f"its namespace names queue {quoted(other)} now, which moves nothing that was made before"
    elif missing and membership.origin == Source.NAMESPACE.value:
        command = _annotate("namespace", subject.ref.namespace, "", "QUEUE")
        yield f"if its namespace names a wrong queue, first: {command}"
    if other or missing:
        yield _move(subject, other if valid_name(other) else "QUEUE")


def _move(subject: ObservedObject, queue: str) -> str:
    owner = (subject.ref, *subject.owners)[-1]
    kind = _workload_kind(owner)
    if owner.kind == POD or (kind is not None and kind.immutable):
        return f"{owner} cannot be moved to another queue: delete it, and create it again"
    if kind is None:
        return f"to move it to another queue, have {owner} name that in its pod template"
    text = f"to move it: {_annotate(owner.kind.lower(), owner.name, owner.namespace, queue)}"
    if owner.kind in _KEEPS_WAITING_PODS:
        return f"{text}; then delete its pods that wait"
    return f"{text}; then delete its Jobs that wait" if owner.kind == "CronJob" else text


def _workload_kind(owner: ObjectRef) -> WorkloadKind | None:
    return next((kind for kind in KINDS.values() if kind.kind == owner.kind), None)


def _annotate(kind: str, name: str, namespace: str, queue: str) -> str:
    place = f" -n {printable(namespace, limit=NAME_LIMIT)}" if namespace else ""
    named = printable(name, limit=NAME_LIMIT)
    return f"kubectl annotate --overwrite {kind} {named}{place} {VOLCANO_ANNOTATION}={queue}"
