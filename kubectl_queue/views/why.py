"""Why an object waits, in sections: what stops it, who did that, and the way out.

Promise: a section that has nothing to say is not there.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from datetime import datetime

import msgspec

from kubectl_queue.objects.explained import observed_chain, subject
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.queues import QueueObjects
from kubectl_queue.objects.types import QUEUE as QUEUE_TYPE
from kubectl_queue.views.gang import gang_texts
from kubectl_queue.views.room import quota_lines, room_texts
from kubectl_queue.views.text import age, with_time_left
from queues.states import Desired, State, StopPolicy
from queues.status.changes import HISTORY_LIMIT, HistoryLine
from queues.text import printable, quoted
from queues.why.explain import explain
from queues.why.explanation import (
    QUEUE,
    ChainMember,
    ExplainedMembership,
    Explanation,
    ObjectRef,
    StopCause,
)

CHAIN = "Chain"
_MESSAGE_LIMIT = 1000


class Event(msgspec.Struct, frozen=True):
    """`at`: when it last happened (RFC 3339)."""

    reason: str
    message: str
    at: str


class ShownExplanation(msgspec.Struct, frozen=True):
    """An explanation. `draining`: the queues whose drain it reports, that of the object first.

    `events`: of the object, newest first, where its queue may not be read.
    """

    explanation: Explanation
    draining: Sequence[Object] = ()
    events: Sequence[Event] = ()


class ChainRow(msgspec.Struct, frozen=True):
    """A queue of the chain, and what about it matters. `state`: None where it is not known."""

    queue: str
    state: State | None
    marks: tuple[str, ...]


class Section(msgspec.Struct, frozen=True):
    """Has `lines`; or `chain`, nearest queue first, where the heading is `CHAIN`."""

    heading: str
    lines: tuple[str, ...] = ()
    chain: tuple[ChainRow, ...] = ()


def explain_queue(name: str, queues: QueueObjects, *, owners: tuple[ObjectRef, ...] = ()) -> ShownExplanation:
    """`queues`: its chain at least. With those below it, the answer has how far the drain of these is."""
    known = observed_chain(name, queues)
    explained = subject(QUEUE_TYPE, queues.items[name], owners=owners)
    explanation = explain(explained, ExplainedMembership(queue=name), queues=known)
    return ShownExplanation(explanation, draining=queues.from_top(name) if known.verdict(name).drains else ())


def sections(
    explanation: Explanation,
    *,
    now: datetime,
    drain: Sequence[str] = (),
    events: Sequence[Event] = (),
    lost: str = "",
) -> list[Section]:
    """What follows the summary. `drain`: how far the drain of its queue is. `events`: of the object. `lost`:
    that no replica of the server leads, and since when; "" where one does, or that is not known.
    """
    chain = tuple(_chain(explanation, now=now))
    shown = [
        Section(heading, tuple(lines), chain if heading == CHAIN else ())
        for heading, lines in _texts(explanation, now=now, drain=drain, lost=lost)
    ]
    shown.append(Section("Events", tuple(_event(each, now=now) for each in events)))
    return [section for section in shown if section.lines or section.chain]


def _event(event: Event, *, now: datetime) -> str:
    at = f"{event.at} ({age(event.at, now=now)} ago)"
    return f"{printable(event.reason)}, {at}: {printable(event.message, limit=_MESSAGE_LIMIT)}"


def _texts(
    explanation: Explanation, *, now: datetime, drain: Sequence[str], lost: str
) -> Iterator[tuple[str, Sequence[str]]]:
    is_queue = explanation.object.kind == QUEUE
    refusal = None if _is_among_stops(explanation) else explanation.refusal
    yield "Owned by", [str(owner) for owner in explanation.owners]
    yield "PodGroup", [str(explanation.group).removeprefix("PodGroup ")] if explanation.group else []
    yield "Queue", _membership(explanation.membership) if explanation.membership and not is_queue else []
    yield CHAIN, ()
    yield from gang_texts(explanation, now=now)
    yield from room_texts(explanation, now=now)
    yield "Quota", quota_lines(explanation.quota) if explanation.quota else []
    yield "Stopped by", [line for stop in explanation.stops for line in _who(stop, now=now)]
    yield "Let go by", [line for stop in explanation.stops for line in _way_out(stop, now=now)]
    yield "Contact", [printable(explanation.contact)] if explanation.contact else []
    yield "Acknowledged", _acknowledged(explanation, now=now, lost=lost)
    yield "Closed by", _who(refusal, now=now) if refusal else []
    yield "Reopened by", [refusal.way_out] if refusal else []
    yield "Closing", [explanation.closing] if explanation.closing else []
    yield "Drain", drain
    yield "Note", explanation.notes


def _acknowledged(explanation: Explanation, *, now: datetime, lost: str) -> list[str]:
    """Whether it is safe to rely on the stop, and since when."""
    if explanation.acknowledged is None:
        return []
    if not explanation.acknowledged:
        return ["no, not yet"]
    at = explanation.acknowledged_since
    since = f", since {printable(at)} ({age(at, now=now)} ago)" if at else ""
    return [f"yes{since}" + (f", before the server was lost: {lost}" if lost else "")]


def _is_among_stops(explanation: Explanation) -> bool:
    """Whether the stops give the cause of the refusal: a broken chain neither schedules nor accepts."""
    refusal = explanation.refusal
    return refusal is not None and any(
        (stop.kind, stop.queue) == (refusal.kind, refusal.queue) for stop in explanation.stops
    )


def _membership(membership: ExplainedMembership) -> list[str]:
    if membership.queue is None:
        return [f"not known yet: {printable(membership.rule)} decides it, and does not exist"]
    origin = f" (from {printable(membership.origin)})" if membership.origin else ""
    return [f"{printable(membership.queue)}, by {printable(membership.rule)}{origin}"]


def _chain(explanation: Explanation, *, now: datetime) -> Iterator[ChainRow]:
    stopping = {stop.queue for stop in explanation.stops}
    for queue in explanation.chain:
        yield ChainRow(queue.queue, queue.state, tuple(_marks(queue, stopping, now=now)))


def _marks(queue: ChainMember, stopping: Container[str], *, now: datetime) -> Iterator[str]:
    if queue.unread:
        yield "you may not read it"
        return
    if queue.terminating:
        yield "is being deleted"
    elif queue.desired is Desired.CLOSED:
        yield "is to be Closed"
    if queue.stop_policy not in {None, StopPolicy.NONE}:
        yield f"stopPolicy {queue.stop_policy}"
    for window in queue.windows:
        yield f"window {window}"
    if queue.parked is not None:
        yield f"parked {queue.parked}"
    if queue.queue in stopping:
        yield "stops it"
    if queue.namespace_selector:
        yield f"for namespaces with {queue.namespace_selector}"
    if queue.resume_at:
        yield f"until {with_time_left(queue.resume_at, now=now)}"


def _who(stop: StopCause, *, now: datetime) -> list[str]:
    if stop.change is not None:
        return _change(stop.change, queue=stop.queue, now=now)
    if stop.created:
        return [f"who created queue {quoted(stop.queue)}, {stop.created} ({age(stop.created, now=now)} ago)"]
    return (
        [f"not known: the last {HISTORY_LIMIT} changes of queue {quoted(stop.queue)} do not show it"]
        if stop.lost
        else []
    )


def _change(change: HistoryLine, *, queue: str, now: datetime) -> list[str]:
    before, after = printable(change.from_) or "nothing", printable(change.to) or "nothing"
    what = f"{printable(change.field)} of queue {quoted(queue)} from {before} to {after}"
    why = [f"because: {printable(change.reason)}"] if change.reason else []
    return [f"{printable(change.by)}, {change.at} ({age(change.at, now=now)} ago): {what}", *why]


def _way_out(stop: StopCause, *, now: datetime) -> list[str]:
    alone = [f"itself at {with_time_left(stop.resume_at, now=now)}"] if stop.resume_at else []
    return [stop.way_out, *alone]
