"""What the screen of one queue shows: from the board alone, but for its pods and the viewer's rights.

Promises
- The text is that of `kubectl queue why`, from the same values; so are drain and history.
- Pods are listed by the queue's label, those on no node alone, `PAGE` at a time, when they are asked for.
- What may not be read says so, and the rest is there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.responses import ApiRequest
from kubectl_queue.cli.suggestions import queue_not_found
from kubectl_queue.errors import ForbiddenError, QueueError
from kubectl_queue.objects.fields import generation_of, value_at
from kubectl_queue.objects.queues import QueueObjects, changes_of, given_back_of
from kubectl_queue.ui.rows import Frame, QueueRow
from kubectl_queue.views import drain_status as drains
from kubectl_queue.views.history import with_given_back
from kubectl_queue.views.waiting_pods import WaitingRow, waiting_rows
from kubectl_queue.views.why import Section, explain_queue, sections
from kubectl_queue.views.windows import as_structure, window_table
from queues import well_known
from queues.membership import label_value
from queues.status.changes import HistoryLine

PAGE = 500
#: The next windows of all queues, and of one.
WINDOWS, NEXT = 50, 5
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


class WindowsShown(msgspec.Struct, frozen=True):
    """Those that are on, then the next ones. `refused`: what of windows cannot be read."""

    rows: Sequence[Mapping[str, Any]] = ()
    refused: Sequence[str] = ()


class OpenedQueue(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`history`: newest first. `drain`: how far it is, line by line; empty where there is none.

    `windows`: of the queue and those above it.
    """

    frame: int
    row: QueueRow | None
    generation: int
    created: str
    summary: str
    sections: Sequence[Section]
    drain: Sequence[str]
    history: Sequence[HistoryLine]
    below: Sequence[str]
    windows: WindowsShown


class WaitingPage(msgspec.Struct, frozen=True, kw_only=True):
    """`next`: of the page after this one; "" where it is the last. `refused`: why they may not be read."""

    pods: Sequence[WaitingRow] = ()
    next: str = ""
    refused: str = ""


class Rights(msgspec.Struct, frozen=True):
    """Whether the viewer may edit the queue, and why not."""

    allowed: bool
    reason: str = ""


def find(frame: Frame | None, name: str, *, now: datetime) -> QueueObjects:
    """The queues of a frame that has this one, as of now.

    Raises the API server's error, with names that are near.
    """
    if frame is None:
        raise QueueError("the queues were not read yet")
    if name not in frame.queues.items:
        raise queue_not_found(name, among=frame.queues.items)
    return frame.queues.at(now)


def opened(frame: Frame | None, name: str, *, now: datetime, lost: str = "") -> OpenedQueue:
    """`lost`: that no replica of the server answers or leads; "" where one does, or that is not known."""
    queues = find(frame, name, now=now)
    number, row = (frame.number, frame.rows[name]) if frame is not None else (0, None)
    item, answer = queues.items[name], explain_queue(name, queues)
    draining = drains.lines(answer.draining, now=queues.now)
    return OpenedQueue(
        frame=number,
        row=row,
        generation=generation_of(item),
        created=str(value_at(item, "metadata.creationTimestamp") or ""),
        summary=answer.explanation.summary,
        sections=sections(answer.explanation, now=queues.now, lost=lost),
        drain=draining,
        history=list(reversed(with_given_back(changes_of(item), given_back_of(item)))),
        below=list(queues.tree.children(name)),
        windows=windows(frame, now=now, top=name, number=NEXT),
    )


def windows(frame: Frame | None, *, now: datetime, top: str = "", number: int = WINDOWS) -> WindowsShown:
    """As `kubectl queue windows`; of `top` and those above it, or of all queues."""
    if frame is None:
        return WindowsShown()
    table = window_table(frame.queues.at(now), top=top, number=number)
    refused = [f'queue "{each.queue}": {refusal}' for each in table.refused for refusal in each.refusals]
    return WindowsShown(as_structure(table.rows), refused)


def waiting_pods(client: ApiClient, name: str, *, after: str) -> WaitingPage:
    """`after`: `next` of the page before."""
    query = {
        "labelSelector": f"{well_known.QUEUE}={label_value(name)}",
        "fieldSelector": "spec.nodeName=",
        "limit": str(PAGE),
        **({"continue": after} if after else {}),
    }
    try:
        page = client.send(ApiRequest(method="GET", path="/api/v1/pods", query=query), kind="pods")
    except ForbiddenError as exc:
        return WaitingPage(refused=str(exc))
    following = str(value_at(page, "metadata.continue") or "")
    return WaitingPage(pods=waiting_rows(page.get("items") or (), name), next=following)


def rights(client: ApiClient, name: str) -> Rights:
    """By the API server's own word; it decides again with each edit."""
    wanted = {"group": "scheduling.volcano.sh", "resource": "queues", "verb": "patch", "name": name}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": wanted},
    }
    body = json.dumps(review).encode()
    request = ApiRequest(method="POST", path=_REVIEWS, query={}, body=body)
    answer = client.send(request, kind="selfsubjectaccessreviews.authorization.k8s.io")
    if value_at(answer, "status.allowed") is True:
        return Rights(True)
    said = str(value_at(answer, "status.reason") or value_at(answer, "status.evaluationError") or "")
    why = said or "no role gives that right"
    return Rights(False, f'you may not patch queue "{name}": {why}')
