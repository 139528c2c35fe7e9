"""why: what stops an object, who did that, and the way out.

Promise: the first line is the whole answer; the lines below it, each under its heading, give the details
(`views.why`).
"""

from __future__ import annotations

from collections.abc import Sequence
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
from kubectl_queue.views.why import Answer, Event, Section, sections
from kubectl_queue.why import targets
from kubectl_queue.why.explainer import Explainer
from queues.why.explanation import (
    Explanation,
)


def run_why(session: Session, flags: Flags) -> int:
    chosen = targets.parse_targets(flags.names)
    is_namespaced = any(target.type.namespaced for target in chosen)
    namespace = checked_name(session.namespace, see=targets.COMMAND) if is_namespaced else ""
    explainer = Explainer(session.client, session.api, namespace=namespace)
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


def lines(
    explanation: Explanation, *, now: datetime, drain: Sequence[str] = (), events: Sequence[Event] = ()
) -> list[str]:
    """`drain`: how far the drain of its queue is. `events`: of the object."""
    shown = sections(explanation, now=now, drain=drain, events=events)
    return [explanation.summary, *(line for section in shown for line in _section_lines(section))]


def _section_lines(section: Section) -> list[str]:
    names = short_names(row.queue for row in section.chain)
    rows = [(names[row.queue], row.state.value, ", ".join(row.marks)) for row in section.chain]
    body = [*(line.rstrip() for line in Layout().lines(rows)), *section.lines]
    heads = [f"{section.heading}:", *[""] * (len(body) - 1)]
    return [f"{head:<{_WIDTH}}{line}".rstrip() for head, line in zip(heads, body, strict=True)]


VERBS = (
    Verb(
        name="why",
        usage="TYPE/NAME... | QUEUE...",
        long=(
            "Say why an object waits: its owners, the queue that it is in and by which rule, the chain of "
            "queues above that, who stops it, since when and why, and what lets it go. TYPE is pod, "
            "podgroup, queue, namespace or a kind of workload, spelt as for kubectl; a name alone is a "
            "queue's. Of a "
            "pod whose queue does not stop it, it says what else does, as far as that is known; of one that "
            "waits for room in a quota, its place in line, what lacks and who holds it; of a queue what it "
            "uses, and where it drains, how far that is and what blocks it."
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
