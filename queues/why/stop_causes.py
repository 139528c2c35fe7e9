"""What stops a queue: each queue of its chain that does, the edit that made it so, and the way out.

Promises
- Every queue of the chain that stops it is named, first the one that events and conditions name.
- The edit is the latest change of the field in that queue's history, if it led to the present value.
  Otherwise no author is named.
"""

from __future__ import annotations

from collections.abc import Iterator

from queues.causes import Cause, CauseKind
from queues.messages import (
    refusal_summary,
    stop_summary,
    way_out,
)
from queues.queue import Queue
from queues.states import Desired, State
from queues.status.changes import HISTORY_LIMIT, HistoryLine
from queues.verdict import Verdict, own_stops
from queues.why.explanation import (
    ChainMember,
    ObservedQueues,
    QueueRecord,
    StopCause,
)
from queues.windows.stops import entry_lines, joined_lines

#: The causes that come from a field, which was set at the latest when the queue was created.
_OF_A_FIELD = frozenset({CauseKind.SUSPENDED, CauseKind.STOPPED, CauseKind.CLOSED, CauseKind.NOT_SELECTED})


def explain_stops(verdict: Verdict, *, queues: ObservedQueues) -> Iterator[StopCause]:
    """What stops the queue, then what would stop it after that."""
    if verdict.stop is not None:
        for cause in (verdict.stop, *_others(verdict.stop, queues=queues)):
            yield explain_cause(cause, queues=queues)


def explain_refusal(verdict: Verdict, *, queues: ObservedQueues) -> StopCause | None:
    """Why the queue accepts nothing new; None where it accepts."""
    if verdict.refusal is None:
        return None
    return _stop(
        verdict.refusal,
        text=refusal_summary(verdict.refusal, state=verdict.state, kind="work"),
        queues=queues,
    )


def explain_cause(cause: Cause, *, queues: ObservedQueues | None) -> StopCause:
    return _stop(cause, text=stop_summary(cause), queues=queues)


def _stop(cause: Cause, *, text: str, queues: ObservedQueues | None) -> StopCause:
    queue = queues.tree.get(cause.by) if queues else None
    record = queues.record(cause.by) if queues else QueueRecord()
    change = find_change(cause, queue=queue, changes=record.changes)
    unknown = change is None and cause.kind in _OF_A_FIELD
    return StopCause(
        queue=cause.by,
        kind=cause.kind,
        text=text,
        way_out=way_out(cause),
        policy=cause.policy,
        window=cause.window,
        reason=cause.reason,
        change=change,
        created=record.created if unknown and len(record.changes) < HISTORY_LIMIT else "",
        lost=unknown and len(record.changes) >= HISTORY_LIMIT,
        contact=queues.tree.contact_of(cause.by) if queues else cause.contact,
        resume_at=cause.until if cause.kind in {CauseKind.SUSPENDED, CauseKind.STOPPED} else None,
    )


def chain_members(name: str, queues: ObservedQueues) -> Iterator[ChainMember]:
    """The queue and its ancestors, as far as they exist, up to one that may not be read."""
    if name not in queues.tree:
        return
    for queue in queues.tree.chain(name).queues:
        if queue.name == queues.unread:
            yield ChainMember(queue=queue.name, state=None, desired=None, stop_policy=None, unread=True)
            return
        yield ChainMember(
            queue=queue.name,
            state=_state(queue, queues=queues),
            desired=queue.desired,
            terminating=queue.terminating,
            stop_policy=queue.stop_policy,
            resume_at=queue.resume_time if queue.is_suspended_or_held else None,
            windows=tuple(entry_lines(queue.windows_on)),
            namespace_selector=queue.namespace_selector.text if queue.namespace_selector else "",
            parked=queue.parked,
        )


def _state(queue: Queue, *, queues: ObservedQueues) -> State | None:
    """By its status, where a queue of its chain may not be read; None where that is of another spec, and the
    queue itself is Open.
    """
    state = queues.verdict(queue.name).state
    if not queues.unread:
        return state
    return queues.record(queue.name).reported.state or (state if state is not State.OPEN else None)


def _others(first: Cause, *, queues: ObservedQueues) -> Iterator[Cause]:
    """The other causes of the chain: of its queues' own specs, and of their windows."""
    if first.queue not in queues.tree:
        return
    for queue in queues.tree.chain(first.queue).queues:
        for cause in own_stops(first.queue, queue, now=queues.now):
            if (cause.by, cause.window) != (first.by, first.window) or first.kind is CauseKind.BROKEN:
                yield cause


def find_change(cause: Cause, *, queue: Queue | None, changes: tuple[HistoryLine, ...]) -> HistoryLine | None:
    """The change that made the queue stop, if it is the latest of its field and led to the present value."""
    if cause.window:
        field, value = "inWindow", joined_lines(entry_lines(queue.windows_on)) if queue else ""
    else:
        field, value = _made_by(cause, queue)
    latest = next((line for line in reversed(changes) if line.field == field), None)
    return latest if latest and latest.to == value else None


def _made_by(cause: Cause, queue: Queue | None) -> tuple[str, str]:
    match cause.kind:
        case CauseKind.SUSPENDED:
            return "state", Desired.SUSPENDED.value
        case CauseKind.CLOSED:
            return "state", Desired.CLOSED.value
        case CauseKind.STOPPED:
            return "stopPolicy", cause.policy.value
        case CauseKind.BROKEN:
            return "parent", (queue.parent or "") if queue else ""
        case CauseKind.NOT_SELECTED:
            text = queue.namespace_selector.text if queue and queue.namespace_selector else ""
            return "namespaceSelector", text
        case CauseKind.NOT_FOUND | CauseKind.NO_PODGROUP | CauseKind.TERMINATING:
            return "", ""
