"""why: what stops an object, who did that, and the way out.

Promise: the first line is the whole answer; the lines below it, each under its heading, give the details.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec

from kubectl_queue.cli.flags import Flags, checked_name
from kubectl_queue.cli.options import Output, formats
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import QueueError
from kubectl_queue.objects.fields import Object
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.output.tables import Layout, short_names
from kubectl_queue.session import Session
from kubectl_queue.views import drain_status as drains
from kubectl_queue.views.text import age, with_time_left
from kubectl_queue.why import targets
from kubectl_queue.why.explainer import Answer, Event, Explainer
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


def run_why(session: Session, flags: Flags) -> int:
    chosen = targets.parse_targets(flags.names)
    is_namespaced = any(target.type.namespaced for target in chosen)
    namespace = checked_name(session.namespace, see=targets.COMMAND) if is_namespaced else ""
    explainer = Explainer(session, namespace=namespace)
    answers: list[Answer] = []
    for target in chosen:
        try:
            answers.append(explainer.explain(target))
        except QueueError as exc:
            session.console.note(str(exc))
    _print(session, answers, as_list=len(chosen) > 1)
    return 0 if len(answers) == len(chosen) else 1


def _print(session: Session, answers: Sequence[Answer], *, as_list: bool) -> None:
    if session.output in DOCUMENTS:
        documents = [_document(answer) for answer in answers]
        if documents:
            shown = {"items": documents} if as_list else documents[0]
            session.console.say(dump(shown, output=session.output))
        return
    now = session.client.now
    texts = [
        "\n".join(
            lines(
                answer.explanation,
                now=now,
                drain=drains.lines(answer.draining, now=now),
                events=answer.events,
            )
        )
        for answer in answers
    ]
    if texts:
        session.console.say("\n\n".join(texts))


def _document(answer: Answer) -> dict[str, Any]:
    events = {"events": msgspec.to_builtins(answer.events)} if answer.events else {}
    return {**msgspec.to_builtins(answer.explanation), **_drain_document(answer.draining), **events}


def _drain_document(draining: Sequence[Object]) -> dict[str, Any]:
    status = drains.total(draining)
    return {"drain": msgspec.to_builtins(status)} if status is not None else {}


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
    yield "Queue", _membership(explanation.membership) if explanation.membership and not is_queue else []
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


def _membership(membership: ExplainedMembership) -> list[str]:
    if membership.queue is None:
        return [f"not known yet: {printable(membership.rule)} decides it, and does not exist"]
    origin = f" (from {printable(membership.origin)})" if membership.origin else ""
    return [f"{printable(membership.queue)}, by {printable(membership.rule)}{origin}"]


def _chain(explanation: Explanation, *, now: datetime) -> list[str]:
    stopping = {stop.queue for stop in explanation.stops}
    names = short_names(queue.queue for queue in explanation.chain)
    rows = [
        (names[queue.queue], queue.state.value, ", ".join(_marks(queue, stopping, now=now)))
        for queue in explanation.chain
    ]
    return [line.rstrip() for line in Layout().lines(rows)]


def _marks(queue: ChainMember, stopping: Container[str], *, now: datetime) -> Iterator[str]:
    if queue.desired is Desired.CLOSED:
        yield "is to be Closed"
    if queue.stop_policy is not StopPolicy.NONE:
        yield f"stopPolicy {queue.stop_policy}"
    if queue.parked is not None:
        yield f"parked {queue.parked}"
    if queue.queue in stopping:
        yield "stops it"
    if queue.namespace_selector:
        yield f"for namespaces with {queue.namespace_selector}"
    if queue.resume_at:
        yield f"until {with_time_left(queue.resume_at, now=now)}"


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


VERBS = (
    Verb(
        name="why",
        usage="TYPE/NAME... | QUEUE...",
        long=(
            "Say why an object waits: its owners, the queue that it is in and by which rule, the chain of "
            "queues above that, who stops it, since when and why, and what lets it go. TYPE is pod, "
            "podgroup, queue, namespace or a kind of workload, spelt as for kubectl; a name alone is a "
            "queue's. Of a "
            "pod whose queue does not stop it, it says what else does, as far as that is known; of a queue "
            "that drains, how far that is and what blocks it."
        ),
        examples=(
            "kubectl queue why pod/train-0 -n research",
            "kubectl queue why deploy web",
            "kubectl queue why namespace/team",
            "kubectl queue why research -o yaml",
        ),
        flags=(formats(Output.JSON, Output.YAML),),
        run=run_why,
    ),
)
