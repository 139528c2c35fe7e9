"""An explanation in lines for people.

Promise: the first line is the whole answer; the lines below it, each under its heading, give the details.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from datetime import datetime

from kubectl_queue.output.ages import age, with_time_left
from kubectl_queue.output.tables import Layout
from kubectl_queue.why.events import Event
from queues.states import Desired, StopPolicy
from queues.status.changes import HISTORY_LIMIT, Change
from queues.text import printable, quoted
from queues.why.explanation import (
    QUEUE,
    ChainMember,
    ExplainedMembership,
    Explanation,
    Stop,
)

_WIDTH = 13
_MESSAGE_LIMIT = 1000


def lines(
    explanation: Explanation, *, now: datetime, drain: Sequence[str] = (), events: Sequence[Event] = ()
) -> list[str]:
    """`drain`: how far the drain of its queue is. `events`: of the object."""
    sections = [
        *_sections(explanation, now=now, drain=drain),
        ("Events", [_event(each, now=now) for each in events]),
    ]
    return [explanation.summary, *(line for pair in sections for line in _section(*pair))]


def _event(event: Event, *, now: datetime) -> str:
    at = f"{event.at} ({age(event.at, now=now)} ago)"
    return f"{printable(event.reason)}, {at}: {printable(event.message, limit=_MESSAGE_LIMIT)}"


def _section(heading: str, body: list[str]) -> list[str]:
    heads = [f"{heading}:" if body else "", *[""] * (len(body) - 1)]
    return [f"{head:<{_WIDTH}}{line}".rstrip() for head, line in zip(heads, body, strict=False)]


def _sections(
    explanation: Explanation, *, now: datetime, drain: Sequence[str]
) -> Iterator[tuple[str, list[str]]]:
    is_queue = explanation.object.kind == QUEUE
    refusal = None if _is_among_stops(explanation) else explanation.refusal
    yield "Owned by", [str(owner) for owner in explanation.owners]
    yield "PodGroup", [str(explanation.group).removeprefix("PodGroup ")] if explanation.group else []
    yield "Queue", _belonging(explanation.belonging) if explanation.belonging and not is_queue else []
    yield "Chain", _chain(explanation, now=now)
    yield "Stopped by", [line for stop in explanation.stops for line in _who(stop, now=now)]
    yield "Let go by", [line for stop in explanation.stops for line in _way_out(stop, now=now)]
    yield "Closed by", _who(refusal, now=now) if refusal else []
    yield "Reopened by", [refusal.way_out] if refusal else []
    yield "Closing", [explanation.closing] if explanation.closing else []
    yield "Drain", list(drain)
    yield "Note", list(explanation.notes)


def _is_among_stops(explanation: Explanation) -> bool:
    """Whether the stops give the cause of the refusal: a broken chain neither schedules nor accepts."""
    refusal = explanation.refusal
    return refusal is not None and any(
        (stop.kind, stop.queue) == (refusal.kind, refusal.queue) for stop in explanation.stops
    )


def _belonging(belonging: ExplainedMembership) -> list[str]:
    if belonging.queue is None:
        return [f"not known yet: {printable(belonging.rule)} decides it, and does not exist"]
    origin = f" (from {printable(belonging.origin)})" if belonging.origin else ""
    return [f"{printable(belonging.queue)}, by {printable(belonging.rule)}{origin}"]


def _chain(explanation: Explanation, *, now: datetime) -> list[str]:
    stopping = {stop.queue for stop in explanation.stops}
    rows = [
        (each.queue, each.state.value, ", ".join(_marks(each, stopping, now=now)))
        for each in explanation.chain
    ]
    return [line.rstrip() for line in Layout().lines(rows)]


def _marks(each: ChainMember, stopping: Container[str], *, now: datetime) -> Iterator[str]:
    if each.desired is Desired.CLOSED:
        yield "is to be Closed"
    if each.stop_policy is not StopPolicy.NONE:
        yield f"stopPolicy {each.stop_policy}"
    if each.queue in stopping:
        yield "stops it"
    if each.namespace_selector:
        yield f"for namespaces with {each.namespace_selector}"
    if each.resume_at:
        yield f"until {with_time_left(each.resume_at, now=now)}"


def _who(stop: Stop, *, now: datetime) -> list[str]:
    if stop.change is not None:
        return _change(stop.change, queue=stop.queue, now=now)
    if stop.created:
        return [f"who created queue {quoted(stop.queue)}, {stop.created} ({age(stop.created, now=now)} ago)"]
    return (
        [f"not known: the last {HISTORY_LIMIT} changes of queue {quoted(stop.queue)} do not show it"]
        if stop.lost
        else []
    )


def _change(change: Change, *, queue: str, now: datetime) -> list[str]:
    before, after = printable(change.from_) or "nothing", printable(change.to) or "nothing"
    what = f"{printable(change.field)} of queue {quoted(queue)} from {before} to {after}"
    why = [f"because: {printable(change.reason)}"] if change.reason else []
    return [f"{printable(change.by)}, {change.at} ({age(change.at, now=now)} ago): {what}", *why]


def _way_out(stop: Stop, *, now: datetime) -> list[str]:
    alone = [f"itself at {with_time_left(stop.resume_at, now=now)}"] if stop.resume_at else []
    return [stop.way_out, *alone]
