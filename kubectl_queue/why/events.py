"""The events of an object that `why` explains: why its latest pod was not created, and what Sluice says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from kubectl_queue.access.client import ApiClient
from kubectl_queue.access.responses import Request
from kubectl_queue.errors import ForbiddenError
from kubectl_queue.objects.fields import Object, value_at
from kubectl_queue.views.why import Event

_SLUICE = "sluice"
_FAILED = "FailedCreate"
#: What controllers of workloads say of a pod that they create.
_CREATIONS = frozenset({_FAILED, "SuccessfulCreate"})
#: Events that are shown: one of each reason.
_SHOWN = 5


def read_events(client: ApiClient, item: Object) -> Sequence[Object]:
    """The events of the object; none where they may not be read."""
    namespace = quote(str(value_at(item, "metadata.namespace") or "default"), safe="")
    query = {"fieldSelector": f"involvedObject.uid={value_at(item, 'metadata.uid')}"}
    request = Request(method="GET", path=f"/api/v1/namespaces/{namespace}/events", query=query)
    try:
        listing = client.send(request, kind="events")
    except ForbiddenError:
        return ()
    return listing.get("items") or ()


def creation_failure(items: Iterable[Object]) -> str:
    """Why the latest pod of a workload was not created, by its events; "" where it was."""
    made = [item for item in items if item.get("reason") in _CREATIONS]
    latest = max(made, key=_time, default={})
    return str(latest.get("message") or "") if latest.get("reason") == _FAILED else ""


def latest_events(items: Iterable[Object]) -> Sequence[Event]:
    """The latest event of each reason, newest first."""
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
