"""The events of an object: what a user learns who may read the own namespace and no queues.

Promise: events of Sluice are preferred; where there are none, those of others. Where they may not be read,
there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

import msgspec

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.responses import Object, Request
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.output.tables import value_at

_SLUICE = "sluice"
#: Events that are shown: one of each reason.
_SHOWN = 5


class Event(msgspec.Struct, frozen=True):
    """`at`: when it last happened (RFC 3339)."""

    reason: str
    message: str
    at: str


def read_events(client: ApiClient, item: Object) -> Sequence[Event]:
    """The latest event of each reason, newest first."""
    namespace = quote(str(value_at(item, "metadata.namespace") or "default"), safe="")
    query = {"fieldSelector": f"involvedObject.uid={value_at(item, 'metadata.uid')}"}
    request = Request(method="GET", path=f"/api/v1/namespaces/{namespace}/events", query=query)
    try:
        listing = client.send(request, kind="events")
    except ForbiddenError:
        return ()
    return latest_events(listing.get("items") or ())


def latest_events(items: Iterable[Object]) -> Sequence[Event]:
    items = list(items)
    ours = [item for item in items if _source(item) == _SLUICE]
    by_reason: dict[str, Event] = {}
    for item in sorted(ours or items, key=_time, reverse=True):
        event = Event(str(item.get("reason") or ""), str(item.get("message") or ""), _time(item))
        by_reason.setdefault(event.reason, event)
    return tuple(by_reason.values())[:_SHOWN]


def _source(item: Object) -> str:
    return str(item.get("reportingComponent") or value_at(item, "source.component") or "")


def _time(item: Object) -> str:
    paths = (
        "series.lastObservedTime",
        "lastTimestamp",
        "eventTime",
        "firstTimestamp",
        "metadata.creationTimestamp",
    )
    return next((str(time) for time in (value_at(item, path) for path in paths) if time), "")
