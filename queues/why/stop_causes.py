"""Who stops a queue: all of its chain that do, who made each do so, and the way out.

Promises
- Every queue of the chain that stops it is told, first the one that the cluster itself names.
- Who stopped it is the latest change of that field in the queue's history, and only where it led to what
  is there now; else nobody is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from queues.messages import (
    NAMES,
    command,
    refusal_text,
    stop_text,
)
from queues.namespace_access import denial, restrictions
from queues.queue import Queue
from queues.states import Desired, StopPolicy
from queues.status.changes import KEPT, Change
from queues.verdict import Cause, Verdict, Why
from queues.why.explanation import (
    Queues,
    Record,
    Standing,
    Stop,
)

#: The causes that somebody made by setting a field, at the latest when the queue was made.
_OF_A_FIELD = frozenset({Why.SUSPENDED, Why.STOPPED, Why.CLOSED, Why.NOT_SELECTED})


def stops(found: Verdict, *, queues: Queues) -> Iterator[Stop]:
    """What stops the queue, then what would stop it next."""
    if found.stop is not None:
        for cause in (found.stop, *_others(found.stop, queues=queues)):
            yield stop(cause, queues=queues)


def denied(name: str, *, namespace: str, labels: Mapping[str, str], queues: Queues) -> Stop | None:
    """The selector of the chain that does not select the namespace; None where all do."""
    if name not in queues.tree:
        return None
    restricted = restrictions(queues.tree.chain(name))
    cause = denial(name, restricted, namespace=namespace, labels=labels)
    return stop(cause, queues=queues) if cause is not None else None


def refusal(found: Verdict, *, queues: Queues) -> Stop | None:
    """Why the queue takes nothing new; None where it does."""
    if found.refusal is None:
        return None
    return _stop(
        found.refusal, text=refusal_text(found.refusal, state=found.state, kind="work"), queues=queues
    )


def stop(cause: Cause, *, queues: Queues | None) -> Stop:
    return _stop(cause, text=stop_text(cause), queues=queues)


def _stop(cause: Cause, *, text: str, queues: Queues | None) -> Stop:
    what = text.rpartition("; ")[0]  # each text ends with the way out
    queue = queues.tree.get(cause.by) if queues else None
    record = queues.record(cause.by) if queues else Record()
    timed = queue.resumes if queue and cause.why in {Why.SUSPENDED, Why.STOPPED} else None
    change = change_behind(cause, queue=queue, changes=record.changes)
    unknown = change is None and cause.why in _OF_A_FIELD
    return Stop(
        queue=cause.by,
        why=cause.why,
        text=what,
        way_out=command(cause) or NAMES,
        policy=cause.policy,
        reason=cause.reason,
        change=change,
        created=record.created if unknown and len(record.changes) < KEPT else "",
        lost=unknown and len(record.changes) >= KEPT,
        resume_at=timed,
    )


def chain(name: str, queues: Queues) -> Iterator[Standing]:
    """The queue and its ancestors, as far as they are there."""
    if name not in queues.tree:
        return
    for queue in queues.tree.chain(name).queues:
        yield Standing(
            queue=queue.name,
            state=queues.verdict(queue.name).state,
            desired=queue.desired,
            stop_policy=queue.stop_policy,
            resume_at=queue.resumes if queue.asks_to_stop else None,
            namespace_selector=queue.namespaces.text if queue.namespaces else "",
        )


def _others(first: Cause, *, queues: Queues) -> Iterator[Cause]:
    """Whoever else on the chain stops the queue by its own wish."""
    if first.queue not in queues.tree:
        return
    for queue in queues.tree.chain(first.queue).queues:
        if queue.name == first.by and first.why is not Why.BROKEN:
            continue
        cause = _own_stop(queue, of=first.queue, now=queues.now)
        if cause is not None:
            yield cause


def _own_stop(queue: Queue, *, of: str, now: datetime) -> Cause | None:
    if queue.desired_at(now) is Desired.SUSPENDED:
        return Cause(why=Why.SUSPENDED, queue=of, by=queue.name, reason=queue.reason)
    policy = queue.stop_policy_at(now)
    if policy is StopPolicy.NONE:
        return None
    return Cause(why=Why.STOPPED, queue=of, by=queue.name, policy=policy, reason=queue.reason)


def change_behind(cause: Cause, *, queue: Queue | None, changes: tuple[Change, ...]) -> Change | None:
    """The change that made the queue stop, if it is the latest of its field and led to what is there."""
    field, value = _made_by(cause, queue)
    latest = next((line for line in reversed(changes) if line.field == field), None)
    return latest if latest and latest.to == value else None


def _made_by(cause: Cause, queue: Queue | None) -> tuple[str, str]:
    match cause.why:
        case Why.SUSPENDED:
            return "state", Desired.SUSPENDED.value
        case Why.CLOSED:
            return "state", Desired.CLOSED.value
        case Why.STOPPED:
            return "stopPolicy", cause.policy.value
        case Why.BROKEN:
            return "parent", (queue.parent or "") if queue else ""
        case Why.NOT_SELECTED:
            text = queue.namespaces.text if queue and queue.namespaces else ""
            return "namespaceSelector", text
        case Why.NOT_FOUND | Why.NO_PODGROUP:
            return "", ""
