"""An explanation in lines for people.

Promises: the first line is the whole answer; what follows is how it comes about, each under its heading.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from datetime import datetime

from kubectl_queue.output.ages import age, moment
from kubectl_queue.output.tables import Layout
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


def lines(told: Explanation, *, now: datetime, drain: Sequence[str] = ()) -> list[str]:
    """`drain`: how far the drain of its queue is."""
    sections = _sections(told, now=now, drain=drain)
    return [told.summary, *(line for pair in sections for line in _section(*pair))]


def _section(heading: str, body: list[str]) -> list[str]:
    heads = [f"{heading}:" if body else "", *[""] * (len(body) - 1)]
    return [f"{head:<{_WIDTH}}{line}".rstrip() for head, line in zip(heads, body, strict=False)]


def _sections(told: Explanation, *, now: datetime, drain: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    yield "Owned by", [str(owner) for owner in told.owners]
    yield "PodGroup", [str(told.group).removeprefix("PodGroup ")] if told.group else []
    yield "Queue", _belonging(told.belonging) if told.belonging and told.object.kind != QUEUE else []
    yield "Chain", _chain(told, now=now)
    yield "Stopped by", [line for stop in told.stops for line in _who(stop, now=now)]
    yield "Let go by", [line for stop in told.stops for line in _way_out(stop, now=now)]
    yield "Closed by", _who(told.refusal, now=now) if told.refusal and not _said(told.refusal, told) else []
    yield "Reopened by", [told.refusal.way_out] if told.refusal and not _said(told.refusal, told) else []
    yield "Closing", [told.closing] if told.closing else []
    yield "Drain", list(drain)
    yield "Note", list(told.notes)


def _said(refusal: Stop, told: Explanation) -> bool:
    """A broken chain neither schedules nor accepts, and is told once."""
    return any((stop.kind, stop.queue) == (refusal.kind, refusal.queue) for stop in told.stops)


def _belonging(belonging: ExplainedMembership) -> list[str]:
    if belonging.queue is None:
        return [f"none yet: {printable(belonging.rule)} has the say, and is not there"]
    origin = f" (from {printable(belonging.origin)})" if belonging.origin else ""
    return [f"{printable(belonging.queue)}, by {printable(belonging.rule)}{origin}"]


def _chain(told: Explanation, *, now: datetime) -> list[str]:
    stopping = {stop.queue for stop in told.stops}
    rows = [(each.queue, each.state.value, ", ".join(_marks(each, stopping, now=now))) for each in told.chain]
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
        yield f"until {moment(each.resume_at, now=now)}"


def _who(stop: Stop, *, now: datetime) -> list[str]:
    if stop.change is not None:
        return _change(stop.change, queue=stop.queue, now=now)
    if stop.created:
        return [f"whoever made queue {quoted(stop.queue)}, {stop.created} ({age(stop.created, now=now)} ago)"]
    return (
        [f"nobody that the last {HISTORY_LIMIT} changes of queue {quoted(stop.queue)} tell"]
        if stop.lost
        else []
    )


def _change(change: Change, *, queue: str, now: datetime) -> list[str]:
    before, after = printable(change.from_) or "nothing", printable(change.to) or "nothing"
    what = f"{printable(change.field)} of queue {quoted(queue)} from {before} to {after}"
    why = [f"because: {printable(change.reason)}"] if change.reason else []
    return [f"{printable(change.by)}, {change.at} ({age(change.at, now=now)} ago): {what}", *why]


def _way_out(stop: Stop, *, now: datetime) -> list[str]:
    alone = [f"itself at {moment(stop.resume_at, now=now)}"] if stop.resume_at else []
    return [stop.way_out, *alone]
