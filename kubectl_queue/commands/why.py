"""why: what stops an object, who did that, and the way out.

Promise: the first line is the whole answer; the lines below it, each under its heading, give the details
(`views.why`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any

import msgspec

from kubectl_queue.access.object_reader import ObjectReader
from kubectl_queue.cli.flags import Flags, checked_name
from kubectl_queue.cli.options import Output, formats
from kubectl_queue.cli.suggestions import similar_kinds
from kubectl_queue.commands.verbs import Verb
from kubectl_queue.errors import ForbiddenError, NotFoundError, QueueError
from kubectl_queue.objects.fields import Object
from kubectl_queue.objects.types import QUEUE, type_of
from kubectl_queue.output.formats import DOCUMENTS, dump
from kubectl_queue.output.tables import TableLayout, short_names
from kubectl_queue.session import Session
from kubectl_queue.views import drain_status as drains
from kubectl_queue.views.outage import lost_text
from kubectl_queue.views.why import Event, Section, ShownExplanation, sections
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
    answers: list[ShownExplanation] = []
    for target, after in zip(chosen, (*chosen[1:], None), strict=True):
        try:
            answers.append(explainer.explain(target))
        except QueueError as exc:
            if isinstance(exc, NotFoundError) and target.type is QUEUE:
                misspelt = similar_kinds(target.name, after.name, command=targets.COMMAND) if after else ""
                exc.add_note(misspelt or _of_another_kind(session, target.name))
            elif isinstance(exc, ForbiddenError) and target.type is QUEUE:
                exc.add_note(_of_another_kind(session, target.name))
            session.console.note(str(exc))
    _print(session, answers, as_list=len(chosen) > 1)
    return 0 if len(answers) == len(chosen) else 1


def _of_another_kind(session: Session, name: str) -> str:
    """For who left out the kind: which objects of the namespace have that name."""
    namespace = session.namespace
    objects = ObjectReader(session.client)
    found = []
    for kind in map(type_of, ("pod", "deployment", "statefulset", "job", "podgroup")):
        if kind is None:
            continue
        with suppress(QueueError):
            objects.get(kind, name, namespace=namespace)
            found.append(f"\tkubectl queue why {kind.kind.lower()}/{name} -n {namespace}\n")
    if found:
        return f"\nA name alone is a queue's. Did you mean this?\n{''.join(found)}".rstrip("\n")
    return (
        f"\nA name alone is a queue's; of a pod or a workload say its kind: kubectl queue why job/{name} "
        f"-n {namespace}"
    )


def _print(session: Session, answers: Sequence[ShownExplanation], *, as_list: bool) -> None:
    if session.output in DOCUMENTS:
        documents = [_document(answer) for answer in answers]
        if documents:
            shown = {"items": documents} if as_list else documents[0]
            session.console.say(dump(shown, output=session.output))
        return
    outage = session.outage if any(answer.explanation.acknowledged for answer in answers) else None
    now = session.client.now
    lost = lost_text(outage, now=now) if outage is not None else ""
    texts = [
        "\n".join(
            lines(
                answer.explanation,
                now=now,
                drain=drains.lines(answer.draining, now=now),
                events=answer.events,
                lost=lost,
            )
        )
        for answer in answers
    ]
    if texts:
        session.console.say("\n\n".join(texts))


def _document(answer: ShownExplanation) -> dict[str, Any]:
    events = {"events": msgspec.to_builtins(answer.events)} if answer.events else {}
    return {**msgspec.to_builtins(answer.explanation), **_drain_document(answer.draining), **events}


def _drain_document(draining: Sequence[Object]) -> dict[str, Any]:
    status = drains.total(draining)
    return {"drain": msgspec.to_builtins(status)} if status is not None else {}


_WIDTH = 13


def lines(
    explanation: Explanation,
    *,
    now: datetime,
    drain: Sequence[str] = (),
    events: Sequence[Event] = (),
    lost: str = "",
) -> list[str]:
    """`drain`, `events`, `lost`: as in `views.why.sections`."""
    shown = sections(explanation, now=now, drain=drain, events=events, lost=lost)
    return [explanation.summary, *(line for section in shown for line in _section_lines(section))]


def _section_lines(section: Section) -> list[str]:
    names = short_names(row.queue for row in section.chain)
    rows = [(names[row.queue], row.state or "not known", ", ".join(row.marks)) for row in section.chain]
    body = [*(line.rstrip() for line in TableLayout().lines(rows)), *section.lines]
    heads = [f"{section.heading}:", *[""] * (len(body) - 1)]
    return [f"{head:<{_WIDTH - 1}} {line}".rstrip() for head, line in zip(heads, body, strict=True)]


VERBS = (
    Verb(
        name="why",
        usage="TYPE/NAME... | QUEUE...",
        long=(
            "Say why an object waits: its owners, the queue that it is in and by which rule, the chain of "
            "queues above that, who stops it, since when and why, and what lets it go. TYPE is pod, "
            "podgroup, queue, namespace or a kind of workload, spelt as for kubectl; of any other kind, as "
            "RayCluster, it tells of the pods that this owns; a name alone is a queue's. Of a "
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
